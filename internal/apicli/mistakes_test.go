// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each mistake is made in a copy of the guide's project, and planned with the plan inside it: neither may be written.
func TestMistakesInAProjectGetTwoLinesAndWriteNothing(t *testing.T) {
	const (
		apis       = "github.com/test-org/test-operator/pkg/apis/operators/v1"
		phase      = "pkg/apis/operators/v1/phase.go"
		controller = "pkg/controller/operatorgroup/operatorgroup_controller.go"
		manifest   = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
		kind, v2   = "CatalogSourceConfig", "operators.example.com/v2"
	)
	for name, test := range map[string]struct {
		kind, to string
		file     string   // that the mistake is in
		replace  []string // in it, old and new in turn
		want     string
	}{
		"an unknown kind":       {kind: "Catalog", to: v2, want: "has no kind Catalog"},
		"a version that exists": {kind: kind, to: "operators.example.com/v1", want: "exists already"},
		"code that does not compile": {kind, v2, controller, []string{"group.EnsureFinalizer()", "group.Ensure()"},
			"the code does not compile: " + controller},
		"a cyclic import": {kind, v2, phase, []string{"import (",
			"import (\n\t_ \"github.com/test-org/test-operator/pkg/controller/operatorgroup\""}, "import cycle"},
		"a dot import": {kind, v2, controller, []string{`"` + apis + `"`, `. "` + apis + `"`, "v1.P", "P", "v1.NewP",
			"NewP", "*v1.O", "*O"},
			controller + " imports " + apis + " with a dot"},
		"no CRD of the kind": {kind, v2, manifest, []string{"kind: CatalogSourceConfig\n", "kind: Another\n"},
			"no manifest of a CustomResourceDefinition for CatalogSourceConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(guide)); err != nil {
				t.Fatal(err)
			}
			if test.file != "" {
				file := filepath.Join(dir, test.file)
				content, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				changed := strings.NewReplacer(test.replace...).Replace(string(content))
				if changed == string(content) {
					t.Fatalf("%s: the mistake is not in it", test.file)
				}
				if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := contents(t, dir)
			out, complaint, code := call(t, "plan", "-C", dir, "--kind", test.kind, "--from",
				"operators.example.com/v1", "--to", test.to, "--out", filepath.Join(dir, "plan.yaml"))
			lines := strings.Split(strings.TrimSuffix(complaint, "\n"), "\n")
			if code != 1 || out != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") ||
				!strings.Contains(lines[0], test.want) || !strings.HasPrefix(lines[1], "Try: ") {
				t.Errorf("exit code %d, output %q, errors %q; want 1, nothing and two lines with %q", code,
					out, complaint, test.want)
			}
			if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
				t.Errorf("the tree has changed:\n%s", diff)
			}
		})
	}
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
