// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// realFleet is a fleet of control planes, with one kubeconfig for all of them.
type realFleet struct {
	clusters   []*testbed.Cluster
	kubeconfig string
}

// stale is the cluster in which objects are stored in an old version, and suspended the one that is stopped.
const stale, suspended = 2, 4

// newFleet starts six control planes with widgets. The contexts are canary-0, prod-1, …, prod-5, and twin, which reaches
// the same cluster as prod-1.
func newFleet(t *testing.T) *realFleet {
	t.Helper()
	f := &realFleet{kubeconfig: filepath.Join(t.TempDir(), "fleet")}
	raw := clientcmdapi.NewConfig()
	for i := range 6 {
		c := testbed.New(t, testbed.Options{})
		f.clusters = append(f.clusters, c)
		for _, err := range []error{
			c.InstallWidgets(t.Context(), testbed.Widgets{}),
			c.BulkCreate(t.Context(), testbed.Bulk{Count: 3}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		name, config := fmt.Sprintf("prod-%d", i), c.Config()
		if i == 0 {
			name = "canary-0"
		}
		raw.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: c.CA()}
		raw.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
		raw.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	raw.Contexts["twin"] = &clientcmdapi.Context{Cluster: "prod-1", AuthInfo: "prod-1"}
	if err := clientcmd.WriteToFile(*raw, f.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := f.clusters[stale].MoveStorage(t.Context(), testbed.WidgetCRD, "v2"); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *realFleet) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = Run(t.Context(), append([]string{"kube-migrator", args[0], "--kubeconfig", f.kubeconfig}, args[1:]...),
		Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// golden compares everything that a command says with a file.
func (f *realFleet) golden(t *testing.T, file string, args ...string) {
	t.Helper()
	code, out, errs := f.run(t, args...)
	got := fmt.Sprintf("$ kube-migrator %s\n%s%sexit code %d\n", strings.Join(args, " "), out,
		prefixed("stderr: ", errs), code)
	got = strings.ReplaceAll(got, f.kubeconfig, "fleet.kubeconfig")
	got = regexp.MustCompile(`https://127\.0\.0\.1:\d+`).ReplaceAllString(got, "https://api")
	// Whether a stopped API server is noticed by a handshake or by --cluster-timeout depends on the connections so far.
	got = regexp.MustCompile(`(?m)^(prod-4 +Failed +- +).*$`).ReplaceAllString(got, "${1}NO ANSWER")
	got = regexp.MustCompile(`(?m)^error: .*$`).ReplaceAllString(got, "error: NO ANSWER")
	golden.Compare(t, filepath.Join("testdata", "fleet", file), got)
}

func TestAFleetOfRealClusters(t *testing.T) {
	f := newFleet(t)
	const all = "--contexts=canary-*,prod-*,twin"
	f.golden(t, "check.txt", "check", "widgets", all)
	f.golden(t, "plan.txt", "plan", "widgets", all)
	server := f.clusters[suspended].Servers[0]
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) })
	f.golden(t, "check-one-stopped.txt", "check", "widgets", all, "--cluster-timeout=30s")
	t.Run("JSON has the report of each cluster", f.inJSON)
	t.Run("a migration ends with the wave of the stopped one", func(t *testing.T) { f.migrates(t, server) })
	t.Run("many snapshots", f.inSnapshots)
}

// migrates migrates in waves of two: canary-0, prod-1 and prod-2, prod-3 and the stopped prod-4, prod-5.
func (f *realFleet) migrates(t *testing.T, server *testbed.Server) {
	args := []string{"migrate", "widgets", "--contexts=canary-*,prod-*", "--wave-size=2", "--settle-time=0",
		"--checkpoint-dir=" + t.TempDir()}
	code, out, errs := f.run(t, args...)
	if code != exit.Error {
		t.Errorf("exit code %d, want that of the cluster that did not answer", code)
	}
	rows := []string{"canary-0 1 Proven", "prod-1 2 Proven", "prod-2 2 Proven", "prod-3 3 Proven", "prod-4 3 Failed",
		"prod-5 4 NotStarted"}
	for i, line := range strings.Split(out, "\n")[1:7] {
		if got := strings.Join(strings.Fields(line)[:3], " "); got != rows[i] {
			t.Errorf("row %q, want %q", got, rows[i])
		}
	}
	again := "Not started: prod-5. To continue:\n  kube-migrator migrate widgets --resume "
	if !strings.Contains(errs, again) || !strings.Contains(errs, "--contexts='canary-*' '--contexts=prod-*'") &&
		!strings.Contains(errs, "'--contexts=canary-*' '--contexts=prod-*'") {
		t.Errorf("want the command that continues:\n%s", errs)
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = f.run(t, append(args, "--resume")...); code != exit.Done ||
		!strings.HasSuffix(out, "6 clusters: 6 Proven.\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = f.run(t, "check", "widgets", "--contexts=canary-*,prod-*"); code != exit.Done ||
		!strings.HasSuffix(out, "6 clusters: 6 Safe.\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	code, _, errs = f.run(t, "migrate", "widgets", "--contexts=*", "--settle-time=0", "--checkpoint-dir="+t.TempDir())
	if want := "error: prod-1 and twin reach the same cluster, which is migrated only once at a time\nTry: kubectl " +
		"config get-contexts\n"; code != exit.Error || !strings.HasSuffix(errs, want) {
		t.Errorf("exit code %d, %s\nwant %s", code, errs, want)
	}
}

// inSnapshots audits the snapshots of two clusters and a file that is not a snapshot.
func (f *realFleet) inSnapshots(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"broken.db": "hello", "versions.yaml": testbed.WidgetCRD + ": v2\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, i := range map[string]int{"prod-1.db": 1, "prod-2.db": stale} {
		from, err := f.clusters[i].Etcd.Client().Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(from)
		if err = errors.Join(err, from.Close()); err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := runAudit(t, "--snapshot=*.db", "--current=versions.yaml")
	var rows []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasSuffix(fields[0], ".db") {
			rows = append(rows, fields[0]+" "+fields[1])
		}
	}
	if diff := cmp.Diff([]string{"broken.db Failed", "prod-1.db stale", "prod-2.db current"}, rows); diff != "" ||
		code != exit.Error {
		t.Errorf("exit code %d, -want +got:\n%s\n%s", code, diff, out)
	}
	if !strings.Contains(out, "widgets.demo.example.com: 3 objects as demo.example.com/v1") {
		t.Errorf("want the first reason:\n%s", out)
	}
}

func (f *realFleet) inJSON(t *testing.T) {
	code, out, errs := f.run(t, "check", "widgets", "--contexts=prod-*", "--cluster-timeout=30s", "-o", "json")
	var got struct {
		ExitCode int
		Clusters map[string]struct {
			Verdict, Reason string
			ExitCode        int
			Report          *upgrade.Report
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	if code != exit.Error || got.ExitCode != code || len(got.Clusters) != 5 {
		t.Errorf("exit codes %d and %d, %d clusters", code, got.ExitCode, len(got.Clusters))
	}
	for name, c := range got.Clusters {
		switch name {
		case "prod-4":
			if c.Verdict != render.FleetFailed || c.ExitCode != exit.Error || c.Reason == "" || c.Report != nil {
				t.Errorf("%s: %+v", name, c)
			}
		case "prod-2":
			if c.Verdict != "Unsafe" || c.ExitCode != exit.WorkLeft || c.Report.Findings[0].Current != "v2" ||
				c.Report.Findings[0].Next != "kube-migrator --kubeconfig="+f.kubeconfig+" --context=prod-2 migrate "+
					testbed.WidgetCRD {
				t.Errorf("%s: %+v", name, c.Report)
			}
		default:
			if c.Verdict != "Safe" || c.ExitCode != exit.Done || c.Report.Findings[0].Current != "v1" {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}
