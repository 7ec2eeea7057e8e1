// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/golden"
)

const guide = "../apimigration/testdata/guide"

// call runs a command line as the user does.
func call(t *testing.T, args ...string) (out, complaint string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), append([]string{"api-migrator"}, args...),
		Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), code
}

func TestInspectShowsWhatAProjectHas(t *testing.T) {
	out, complaint, code := call(t, "inspect", guide)
	if code != 0 || complaint != "" {
		t.Fatalf("exit code %d: %s", code, complaint)
	}
	golden.Compare(t, "testdata/inspect.txt", out)
	out, _, code = call(t, "inspect", "-o", "json", guide+"/pkg/apis")
	if code != 0 || !json.Valid([]byte(out)) {
		t.Fatalf("exit code %d: %s", code, out)
	}
	golden.Compare(t, "testdata/inspect.json", out)
}

func TestInspectShowsAllModulesThatLeadToOneAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.26\n\nreplace example.com/x/api => ./api\n", "x.go": "package x\n",
		"api/go.mod": "module example.com/x/api\n\ngo 1.26\n", "api/api.go": "package api\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, complaint, code := call(t, "inspect", filepath.Join(dir, "api"))
	if want := "module example.com/x in .\nmodule example.com/x/api in api\n"; code != 0 || out != want {
		t.Errorf("exit code %d: %q%s, want %q", code, out, complaint, want)
	}
	if out, _, _ := call(t, "inspect", "-o", "json", dir); !strings.Contains(out, `"folder": "api"`) {
		t.Errorf("the JSON has no modules: %s", out)
	}
}

func TestErrorsOfTheUserGetTwoLinesAndExitCodeOne(t *testing.T) {
	notPlan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(notPlan, []byte("format: another\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	aPlan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(aPlan, []byte("format: api-migrator/v1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	begun := t.TempDir()
	if err := os.Mkdir(filepath.Join(begun, ".api-migrator"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"go.mod": "module example.com/x\n",
		".api-migrator/journal.json": `{"steps": [{"edits": [{"file": "a.go", "after": "1"}]}]}`} {
		if err := os.WriteFile(filepath.Join(begun, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	version := []string{"--from", "operators.example.com/v1", "--to", "operators.example.com/v2"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such folder": {[]string{"inspect", "nowhere"}, "no such folder"},
		"not a module":   {[]string{"inspect", t.TempDir()}, "no go.mod in"},
		"unknown output": {[]string{"inspect", "-o", "xml", guide}, "text or json"},
		"no kind":        {append([]string{"plan"}, version...), "--kind is missing"},
		"unknown kind": {append([]string{"plan", "-C", guide, "--kind", "Nothing"}, version...),
			"has no kind Nothing"},
		"a name that is taken": {[]string{"plan", "-C", guide, "--kind", "CatalogSourceConfig", "--from",
			"operators.example.com/v1", "--to-kind", "OperatorGroup"},
			"operators.example.com/v1 has a kind OperatorGroup already"},
		"no name of a kind": {append([]string{"plan", "-C", guide, "--kind", "CatalogSourceConfig", "--to-kind",
			"new-name"}, version...), "is not the name of a kind"},
		"a name for two kinds": {append([]string{"plan", "-C", guide, "--kind", "CatalogSourceConfig,OperatorGroup",
			"--to-kind", "Both"}, version...), "is the new name of one kind"},
		"unknown storage": {append([]string{"plan", "--kind", "A", "--storage", "both"}, version...), "new or old"},
		"unknown assignment": {append([]string{"plan", "--kind", "A", "--assign", "B=away"}, version...),
			"new, shared or stay"},
		"unknown naming": {append([]string{"plan", "--kind", "A", "--crd-name", "mine"},
			version...), `unknown value "mine" for --crd-name: use auto, keep, canonical or sdk`},
		"no plan":          {[]string{"apply"}, "name one plan"},
		"a plan not there": {[]string{"diff", "nowhere.yaml"}, "nowhere.yaml"},
		"not a plan":       {[]string{"apply", notPlan}, "its format is"},
		"commits of others": {[]string{"apply", "--commit-per-step", "--allow-dirty", aPlan},
			"--commit-per-step and --allow-dirty exclude each other"},
		"half a migration": {[]string{"verify", begun}, "was not written by an apply of yours"},
	} {
		t.Run(name, func(t *testing.T) {
			out, complaint, code := call(t, test.args...)
			lines := strings.Split(strings.TrimSuffix(complaint, "\n"), "\n")
			if code != 1 || out != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") ||
				!strings.Contains(lines[0], test.want) || !strings.HasPrefix(lines[1], "Try: ") {
				t.Errorf("exit code %d, output %q, errors %q; want 1, nothing and two lines with %q", code,
					out, complaint, test.want)
			}
		})
	}
}

func TestAProjectIsPlannedShownAndMigrated(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(guide)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "before"}} {
		command := exec.Command("git", args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	plan := filepath.Join(dir, "plan.yaml")
	_, said, code := call(t, "plan", "-C", dir, "--kind", "CatalogSourceConfig", "--from", "operators.example.com/v1",
		"--to", "operators.example.com/v2", "--out", plan)
	if code != 0 {
		t.Fatalf("plan: exit code %d: %s", code, said)
	}
	golden.Compare(t, "testdata/plan-summary.txt", strings.NewReplacer(plan, "plan.yaml", dir, "DIR").Replace(said))
	patch, complaint, code := call(t, "diff", "-C", dir, plan)
	if code != 0 || !strings.Contains(patch, "+++ b/pkg/apis/operators/v2/catalogsourceconfig_types.go") {
		t.Fatalf("diff: exit code %d: %s%s", code, patch, complaint)
	}
	for _, want := range []string{"26 files written, changed or removed.\n",
		"The plan has been applied already; nothing is left to do.\n"} {
		if _, complaint, code := call(t, "apply", "-C", dir, plan); code != 0 || complaint != want {
			t.Errorf("apply: exit code %d: %q, want %q", code, complaint, want)
		}
	}
	if out, complaint, code := call(t, "verify", dir); code != 0 || out != "" {
		t.Errorf("verify after apply: exit code %d: %s%s", code, out, complaint)
	}
	types := filepath.Join(dir, "pkg/apis/operators/v1/catalogsourceconfig_types.go")
	content, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(types, bytes.Replace(content, []byte("// +kubebuilder:subresource"),
		[]byte("// +kubebuilder:storageversion\n// +kubebuilder:subresource"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, _, code := call(t, "verify", dir); code != 2 ||
		!strings.Contains(out, "2 of the versions v1, v2 carry the marker") {
		t.Errorf("verify with two storage versions: exit code %d: %s", code, out)
	}
}

func TestAPlanWithAnotherCRDIsAppliedAndTellsHowObjectsAreCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(guide)); err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if _, complaint, code := call(t, "plan", "-C", dir, "--kind", "CatalogSourceConfig", "--from",
		"operators.example.com/v1", "--to-kind", "CatalogSourceConfigurer", "--out", plan); code != 0 {
		t.Fatalf("plan: exit code %d: %s", code, complaint)
	}
	_, complaint, code := call(t, "apply", "-C", dir, "--allow-dirty", plan)
	if code != 0 {
		t.Fatalf("apply: exit code %d: %s", code, complaint)
	}
	golden.Compare(t, "testdata/apply-copy.txt", complaint)
	if out, _, code := call(t, "verify", dir); code != 0 || out != "" {
		t.Errorf("verify after apply: exit code %d: %s", code, out)
	}
}

func TestAProjectThatIsNotBeingMigratedIsVerified(t *testing.T) {
	if out, complaint, code := call(t, "verify", guide); code != 0 || out != "" {
		t.Errorf("exit code %d: %s%s", code, out, complaint)
	}
}

func TestAPlanWithBlockersExitsWithTwoAndIsNotApplied(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(guide)); err != nil {
		t.Fatal(err)
	}
	// Both kinds use it, so it would be shared; but what is shared cannot know a version.
	const code = `package v1

func version() string { return SchemeGroupVersion.Version }

func (c *CatalogSourceConfig) Version() string { return version() }

func (g *OperatorGroup) Version() string { return version() }
`
	if err := os.WriteFile(filepath.Join(dir, "pkg/apis/operators/v1/version.go"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	_, complaint, exit := call(t, "plan", "-C", dir, "--kind", "CatalogSourceConfig", "--from",
		"operators.example.com/v1", "--to", "operators.example.com/v2", "--out", plan)
	if exit != 2 || !strings.Contains(complaint,
		"  blockers      1\n    pkg/apis/operators/v1/version.go:3: version is shared, but uses SchemeGroupVersion") {
		t.Errorf("plan: exit code %d: %s", exit, complaint)
	}
	_, complaint, exit = call(t, "apply", "-C", dir, "--allow-dirty", plan)
	if lines := strings.Split(complaint, "\n"); exit != 2 ||
		!strings.HasPrefix(lines[0], "error: the plan has blockers; the first of 1: "+
			"pkg/apis/operators/v1/version.go:3: version is shared") {
		t.Errorf("apply: exit code %d: %s", exit, complaint)
	}
}
