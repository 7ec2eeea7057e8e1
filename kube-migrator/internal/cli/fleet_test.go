// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// simulate asks 500 clusters in virtual time, and returns the rows and what is written. Of ten clusters, one is unsafe,
// one cannot be determined, one refuses, one does not answer, one is slow, and one panics.
func simulate(t *testing.T, output render.Format) (rows []render.FleetCluster, out, errs string,
	end error) {
	t.Helper()
	var stdout, stderr strings.Builder
	env := &environment{Streams: Streams{Out: &stdout, Err: &stderr}, name: "kube-migrator"}
	var all []*clusters.Cluster
	for i := range 500 {
		name := fmt.Sprintf("c-%03d", i)
		all = append(all, &clusters.Cluster{Name: name, Context: name})
	}
	root := &cobra.Command{Use: "kube-migrator"}
	command := &cobra.Command{Use: "check"}
	root.AddCommand(command)
	var asked, most atomic.Int64
	q := inquiry{
		environment: env, command: command, output: output,
		options: fleet.Options{Parallel: 10, Timeout: time.Minute},
		identify: func(_ context.Context, env *environment) string {
			return strings.TrimSuffix(env.member.Name, "-twin")
		},
		ask: func(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
			most.Store(max(most.Load(), asked.Add(1)))
			defer asked.Add(-1)
			return simulatedCheck(ctx, env)
		},
	}
	synctest.Test(t, func(t *testing.T) { rows = q.askAll(t.Context(), all) })
	if most.Load() != 10 {
		t.Errorf("%d clusters were asked at the same time, want 10", most.Load())
	}
	end = q.show(render.Fleet{What: "CLUSTER", Column: "VERDICT", Clusters: rows}, exit.WorseVerdict)
	return rows, stdout.String(), stderr.String(), end
}

// simulatedCheck is check for one simulated cluster.
func simulatedCheck(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
	name := env.member.Name
	fmt.Fprintf(env.Err, "a note of %s\n", name)
	safe := upgrade.Finding{Resource: "secrets", Verdict: upgrade.Safe, Why: "all of it is stored as v1"}
	report := upgrade.Report{Verdict: upgrade.Safe, Sentence: "An upgrade is safe.", Findings: []upgrade.Finding{safe}}
	worse := func(v upgrade.Verdict, code int) (*render.FleetAnswer, error) {
		report.Verdict, report.Sentence = v, "The conclusion about "+name+"."
		report.Findings = append([]upgrade.Finding{{Resource: "widgets.demo.example.com", Verdict: v,
			Why: "objects may be stored as v1, which the API servers do not write", Next: env.name + " request widgets"}},
			report.Findings...)
		answer := render.CheckAnswer(report)
		return &answer, exit.Code(code)
	}
	switch name[len(name)-1] {
	case '2':
		return worse(upgrade.Unsafe, exit.WorkLeft)
	case '3':
		return worse(upgrade.Undetermined, exit.Undetermined)
	case '4':
		return nil, exit.Try(errors.New("forbidden: cannot list widgets"), "kubectl auth can-i --list")
	case '5':
		<-ctx.Done()
		return nil, ctx.Err()
	case '6':
		time.Sleep(50 * time.Second)
	case '7':
		panic("a defect")
	default:
		time.Sleep(time.Second)
	}
	answer := render.CheckAnswer(report)
	return &answer, nil
}

func TestAFleetOf500ClustersHasOneRowForEach(t *testing.T) {
	t.Parallel()
	rows, out, notes, err := simulate(t, render.Table)
	if code := exit.Code(0); !errors.As(err, &code) || int(code) != exit.Error {
		t.Errorf("%v, want exit code 1, that of the worst cluster", err)
	}
	verdicts := []string{"Safe", "Safe", "Unsafe", "Undetermined", "Failed", "Failed", "Safe", "Failed", "Safe", "Safe"}
	for i, row := range rows {
		if want := verdicts[i%10]; row.Verdict != want || row.Name != fmt.Sprintf("c-%03d", i) {
			t.Errorf("row %d is %s of %s, want %s", i, row.Verdict, row.Name, want)
		}
	}
	lines := strings.Split(out, "\n")
	shown := slicesOf(out, lines)
	golden.Compare(t, filepath.Join("testdata", "fleet", "table.txt"), shown)
	const sentence = "500 clusters: 50 Unsafe (c-002, c-012, c-022, c-032, c-042 and 45 more), 50 Undetermined"
	if last := lines[len(lines)-2]; !strings.HasPrefix(last, sentence) {
		t.Errorf("the last line is %q", last)
	}
	// Neither a cluster that does not answer nor one that panics has notes of the command.
	if got := strings.Count(notes, ": a note of c-"); got != 400 || !strings.Contains(notes, "c-000: a note of c-000\n") {
		t.Errorf("%d notes, want one of each cluster with an answer", got)
	}
}

// slicesOf returns the header, the first ten rows, and everything about these clusters below the table.
func slicesOf(out string, lines []string) string {
	var b strings.Builder
	for _, line := range lines[:11] {
		b.WriteString(line + "\n")
	}
	below := out[strings.Index(out, "\nc-002:\n"):]
	b.WriteString(below[:strings.Index(below, "\nc-012:\n")])
	stack := strings.Index(b.String(), "goroutine ")
	if stack < 0 {
		return b.String()
	}
	return b.String()[:stack]
}

func TestTheJSONOfAFleetContainsTheReportOfEachClusterUnderItsName(t *testing.T) {
	t.Parallel()
	_, out, notes, _ := simulate(t, render.JSON)
	var got struct {
		Sentence string
		ExitCode int
		Clusters map[string]struct {
			Context, Verdict, Reason, Try, Left string
			ExitCode                            int
			Notes                               []string
			Report                              *upgrade.Report
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Clusters) != 500 || got.ExitCode != exit.Error || notes != "" {
		t.Fatalf("%d clusters, exit code %d, notes %q", len(got.Clusters), got.ExitCode, notes)
	}
	unsafe := got.Clusters["c-492"]
	if unsafe.Context != "c-492" || unsafe.Verdict != "Unsafe" || unsafe.ExitCode != exit.WorkLeft ||
		unsafe.Left != "1 of 2 resources" || unsafe.Try != "kube-migrator --context=c-492 request widgets" ||
		unsafe.Report.Findings[0].Resource != "widgets.demo.example.com" || unsafe.Report.Sentence !=
		"The conclusion about c-492." || len(unsafe.Notes) != 1 {
		t.Errorf("%+v", unsafe)
	}
	late := got.Clusters["c-005"]
	if late.Verdict != render.FleetFailed || late.Reason != "no answer within 1m0s" || late.Report != nil ||
		late.Try != "kubectl version --context=c-005" || late.ExitCode != exit.Error {
		t.Errorf("%+v", late)
	}
	refused := got.Clusters["c-004"]
	if refused.Reason != "forbidden: cannot list widgets" ||
		refused.Try != "kubectl auth can-i --list --context=c-004" {
		t.Errorf("%+v", refused)
	}
}

func TestTheNamesOfAFleetAreThoseOfClustersWithWork(t *testing.T) {
	t.Parallel()
	_, out, _, _ := simulate(t, render.Name)
	if got := strings.Count(out, "\n"); got != 250 || !strings.HasPrefix(out, "c-002\nc-003\nc-004\nc-005\nc-007\nc-012\n") {
		t.Errorf("%d names:\n%.100s", got, out)
	}
}

func TestAnInterruptedFleetShowsWhatIsKnown(t *testing.T) {
	t.Parallel()
	env := &environment{Streams: Streams{Out: &strings.Builder{}, Err: &strings.Builder{}}, name: "kube-migrator"}
	ctx, interrupt := context.WithCancel(t.Context())
	all := []*clusters.Cluster{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	q := inquiry{
		environment: env, command: &cobra.Command{Use: "check"}, output: render.Table, options: fleet.Options{Parallel: 1},
		identify: func(context.Context, *environment) string { return "" },
		ask: func(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
			if env.member.Name == "b" {
				interrupt()
				return nil, ctx.Err()
			}
			answer := render.CheckAnswer(upgrade.Report{Verdict: upgrade.Safe})
			return &answer, nil
		},
	}
	rows := q.askAll(ctx, all)
	var got []string
	for _, row := range rows {
		got = append(got, row.Verdict)
	}
	if diff := cmp.Diff([]string{"Safe", render.FleetInterrupted, render.FleetNotStarted}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	err := q.show(render.Fleet{What: "CLUSTER", Column: "VERDICT", Clusters: rows}, exit.WorseVerdict)
	if code := exit.Code(0); !errors.As(err, &code) || int(code) != exit.Interrupted {
		t.Errorf("%v, want exit code 130", err)
	}
}

func TestContextsThatReachOneClusterSaySo(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	env := &environment{Streams: Streams{Out: &out, Err: &strings.Builder{}}, name: "kube-migrator"}
	all := []*clusters.Cluster{{Name: "prod"}, {Name: "other"}, {Name: "prod-twin"}}
	q := inquiry{
		environment: env, command: &cobra.Command{Use: "check"}, output: render.Table, options: fleet.Options{Parallel: 3},
		identify: func(_ context.Context, env *environment) string {
			return strings.TrimSuffix(env.member.Name, "-twin")
		},
		ask: func(context.Context, *environment) (*render.FleetAnswer, error) {
			answer := render.CheckAnswer(upgrade.Report{Verdict: upgrade.Safe})
			return &answer, nil
		},
	}
	rows := q.askAll(t.Context(), all)
	if err := q.show(render.Fleet{What: "CLUSTER", Column: "VERDICT", Clusters: rows},
		exit.WorseVerdict); err != nil {
		t.Error(err)
	}
	if want := "\nprod and prod-twin reach the same cluster.\n3 clusters: 3 Safe.\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s\nwant at the end %s", out.String(), want)
	}
	if diff := cmp.Diff([]string{"prod"}, rows[2].SameClusterAs); diff != "" || rows[1].SameClusterAs != nil {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// fleetRun runs a command line with a kubeconfig of two contexts.
func fleetRun(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
contexts:
- {name: prod-1, context: {cluster: gone, user: admin}}
- {name: arn:aws:eks:eu-1:1:cluster/prod-2, context: {cluster: gone, user: admin}}
clusters:
- {name: gone, cluster: {server: 'http://127.0.0.1:1'}}
users:
- {name: admin, user: {token: x}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	var stdout, stderr strings.Builder
	code = Run(t.Context(), append([]string{"kube-migrator"}, args...),
		Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestMistakesInTheFlagsOfAFleetAreTwoLines(t *testing.T) {
	folder, files := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"empty.yaml": "", "broken.yaml": "\tx", ".hidden": "x",
		"fine": "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], " +
			"clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}",
	} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const help = "Try: kube-migrator check --help\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--contexts=stage-*"}, "error: none of the 2 contexts of the kubeconfig matches \"stage-*\"\n" +
			"Try: kubectl config get-contexts -o name\n"},
		{[]string{"--contexts=["}, "error: read pattern \"[\": syntax error in pattern\n" + help},
		{[]string{"--contexts="}, "error: invalid value \"\" for --contexts: use patterns of contexts, such as " +
			"'prod-*'\n" + help},
		{[]string{"--contexts=prod-*", "--kubeconfig-dir=x"}, "error: --contexts and --kubeconfig-dir cannot be used " +
			"together\n" + help},
		{[]string{"--contexts=prod-*", "--context=x"}, "error: --contexts and --context cannot be used together\n" + help},
		{[]string{"--contexts=prod-*", "--snapshot=x"}, "error: --contexts and --snapshot cannot be used together\n" + help},
		{[]string{"--kubeconfig-dir=x", "--server=x"}, "error: --kubeconfig-dir and --server cannot be used together\n" + help},
		{[]string{"--contexts=prod-*", "-o=html"}, "error: --contexts and --output=html cannot be used together\n" + help},
		{[]string{"--parallel=2"}, "error: --parallel needs --contexts or --kubeconfig-dir\n" + help},
		{[]string{"--contexts=prod-*", "--parallel=0"}, "error: invalid value \"0\" for --parallel: use 1 or more " +
			"clusters\n" + help},
		{[]string{"--kubeconfig-dir=" + folder}, "error: read kubeconfigs: " + folder + " contains no file\nTry: ls " +
			folder + "\n"},
		{[]string{"--kubeconfig-dir=" + folder + "/x"}, "error: read kubeconfigs: open " + folder + "/x: no such file " +
			"or directory\nTry: ls " + folder + "/x\n"},
	} {
		code, out, errs := fleetRun(t, append([]string{"check"}, c.args...)...)
		if code != exit.Error || out != "" || errs != c.want {
			t.Errorf("%q: exit code %d, %s%s\nwant %s", c.args, code, out, errs, c.want)
		}
	}
	code, out, _ := fleetRun(t, "check", "--kubeconfig-dir="+files)
	for _, want := range []string{"\nbroken.yaml ", "\nempty.yaml ", "\nfine ", "empty.yaml has no current context\n",
		"Try: kubectl config get-contexts --kubeconfig=" + files + "/empty.yaml\n",
		"3 clusters: 3 Failed (broken.yaml, empty.yaml, fine).\n"} {
		if code != exit.Error || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q:\n%s", code, want, out)
		}
	}
}

func TestAPatternOfContextsAlsoMatchesSlashes(t *testing.T) {
	code, out, _ := fleetRun(t, "plan", "--contexts=*prod-*")
	if !strings.Contains(out, "2 clusters: 2 Failed (arn:aws:eks:eu-1:1:cluster/prod-2, prod-1).\n") || code != exit.Error ||
		!strings.Contains(out, "Try: kubectl version --context=prod-1\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
