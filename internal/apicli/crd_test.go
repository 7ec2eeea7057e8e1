// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/golden"
)

const manifests = "../apimigration/crd/testdata"

// folder is one with a CRD, and what refers to its file.
func folder(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join(manifests, "upgrade", "guide.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml": string(guide),
		"deploy/crds/kustomization.yaml": "resources:\n# sources\n- " +
			"operators_v1_catalogsourceconfig_crd.yaml # first\n- my_operators_v1_catalogsourceconfig_crd.yaml\n",
		"deploy/kustomization.yaml": "resources: [./crds/operators_v1_catalogsourceconfig_crd.yaml]\n",
		"Makefile": "install:\n\tkubectl apply -f " +
			"$(CURDIR)/deploy/crds/operators_v1_catalogsourceconfig_crd.yaml\n",
		"README.md": "See operators_v1_catalogsourceconfig_crd.yaml.\nhttps://example.com/v0.1/deploy/crds/operators_v1_catalogsourceconfig_crd.yaml\n",
		"crds.go": "package crds\n\n//go:embed deploy/crds/operators_v1_catalogsourceconfig_crd.yaml\nvar " +
			"crd []byte\n\nconst name = \"operators_v1_catalogsourceconfig_crd.yaml\"\n",
		"vendor/a/Makefile": "# operators_v1_catalogsourceconfig_crd.yaml\n",
		"bin/tool":          "\x00operators_v1_catalogsourceconfig_crd.yaml\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// filesOf is everything in a folder.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

const (
	oldName = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
	newName = "deploy/crds/operators.coreos.com_catalogsourceconfigs.yaml"
)

func TestUpgradeRenamesTheFileAndWhatRefersToIt(t *testing.T) {
	dir := folder(t)
	before := filesOf(t, dir)
	stdout, stderr, code := call(t, "crd", "upgrade", "--dir", dir, filepath.Join(dir, oldName))
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	after := filesOf(t, dir)
	if !strings.Contains(after[newName], "apiextensions.k8s.io/v1\n") {
		t.Errorf("the CRD is\n%s", after[newName])
	}
	want := map[string]string{
		"deploy/crds/kustomization.yaml": "resources:\n# sources\n- operators.coreos.com_catalogsourceconfigs.yaml # " +
			"first\n- my_operators_v1_catalogsourceconfig_crd.yaml\n",
		"deploy/kustomization.yaml": "resources: [./crds/operators.coreos.com_catalogsourceconfigs.yaml]\n",
		"Makefile": "install:\n\tkubectl apply -f " +
			"$(CURDIR)/deploy/crds/operators.coreos.com_catalogsourceconfigs.yaml\n",
		"README.md": "See operators.coreos.com_catalogsourceconfigs.yaml.\nhttps://example.com/v0.1/deploy/crds/operators_v1_catalogsourceconfig_crd.yaml\n",
		"crds.go": "package crds\n\n//go:embed " +
			"deploy/crds/operators.coreos.com_catalogsourceconfigs.yaml\nvar crd []byte\n\nconst name = " +
			"\"operators_v1_catalogsourceconfig_crd.yaml\"\n",
		"vendor/a/Makefile": before["vendor/a/Makefile"],
		"bin/tool":          before["bin/tool"],
		newName:             after[newName],
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
	if want := "changed " + oldName + ", now " + newName + "\n"; !strings.Contains(stdout, want) {
		t.Errorf("stdout is %q, without %q", stdout, want)
	}
	for _, note := range []string{"note: README.md:2: names", "note: crds.go:6: names", "note: " + oldName +
		": catalogsourceconfigs.operators.coreos.com: fields that the schema"} {
		if !strings.Contains(stderr, note) {
			t.Errorf("stderr is %q, without %q", stderr, note)
		}
	}

	stdout, stderr, code = call(t, "crd", "upgrade", "--dir", dir, filepath.Join(dir, newName))
	if code != 0 || stdout != "" || stderr != "Nothing to do: every file is up to date.\n" {
		t.Errorf("the second run: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if diff := cmp.Diff(after, filesOf(t, dir)); diff != "" {
		t.Errorf("the second run changes (-first +second):\n%s", diff)
	}
}

func TestDiffWritesNothingAndIsWhatUpgradeDoes(t *testing.T) {
	dir := folder(t)
	before := filesOf(t, dir)
	patch, stderr, code := call(t, "crd", "upgrade", "--diff", "--to-version", "v2", "--dir", dir,
		filepath.Join(dir, oldName))
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Fatalf("--diff changes (-before +after):\n%s", diff)
	}
	patched := folder(t)
	apply := exec.Command("git", "apply", "-")
	apply.Dir, apply.Stdin = patched, strings.NewReader(patch)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(patched))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s\n%s", err, out, patch)
	}
	if _, stderr, code := call(t, "crd", "upgrade", "--to-version", "v2", "--dir", dir,
		filepath.Join(dir, oldName)); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if diff := cmp.Diff(filesOf(t, dir), filesOf(t, patched)); diff != "" {
		t.Errorf("the patch does something else (-upgrade +patch):\n%s", diff)
	}
}

func TestUpgradeWritesNothingWhereOneOfItsFilesIsRefused(t *testing.T) {
	dir := folder(t)
	for _, name := range []string{"non-structural", "two-storage-versions"} {
		text, err := os.ReadFile(filepath.Join(manifests, "upgrade", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		before := filesOf(t, dir)
		file := filepath.Join(dir, name+".yaml")
		stdout, stderr, code := call(t, "crd", "upgrade", "--dir", dir, filepath.Join(dir, oldName), file)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "error: upgrade "+name+
			".yaml: the API server would not take the outcome: ") ||
			!strings.HasSuffix(stderr, "\nTry: api-migrator crd upgrade --diff "+file+"\n") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
		if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
			t.Errorf("%s: it changes (-before +after):\n%s", name, diff)
		}
		if patch, _, code := call(t, "crd", "upgrade", "--diff", "--dir", dir, file); code != 1 ||
			!strings.Contains(patch, "+apiVersion: apiextensions.k8s.io/v1\n") {
			t.Errorf("%s: --diff: exit code %d, %q", name, code, patch)
		}
	}
}

func TestMistakesOfUsersGetTwoLinesAndChangeNothing(t *testing.T) {
	dir := folder(t)
	in := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	write := func(name, text string) {
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	guide := filesOf(t, dir)[oldName]
	write("again.yaml", guide)
	write("deploy/crds/again.yaml", guide)
	write("taken.yaml", strings.ReplaceAll(guide, "catalogsourceconfig", "taken"))
	write("operators.coreos.com_takens.yaml", "x: y\n")
	write("a.json", `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}`)
	write("template.yaml", "{{ if .Values.crds }}\n"+guide+"{{ end }}\n")
	before := filesOf(t, dir)
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"no file":        {args: []string{"upgrade"}, err: "FILE is missing"},
		"a missing file": {args: []string{"upgrade", in("none.yaml")}, err: "read manifest: "},
		"no CRD": {args: []string{"upgrade", in("deploy/kustomization.yaml")},
			err: "has no CustomResourceDefinition"},
		"JSON":       {args: []string{"upgrade", in("a.json")}, err: "is JSON"},
		"a template": {args: []string{"upgrade", in("template.yaml")}, err: "it is a template"},
		"a file elsewhere": {args: []string{"upgrade", "--dir", in("deploy"), in("again.yaml")},
			err: "is not in the folder"},
		"two for one resource": {args: []string{"upgrade", in("deploy/crds/again.yaml"), in(oldName)},
			err: "describe one resource"},
		"a name that is taken": {args: []string{"upgrade", in("taken.yaml")}, err: "which exists"},
		"an unknown naming": {args: []string{"upgrade", "--name", "mine", in(oldName)},
			err: `unknown value "mine" for --name: use canonical, sdk, auto or keep`},
		"an unknown storage": {args: []string{"upgrade", "--to-version", "v2", "--storage", "v2", in(oldName)},
			err: `unknown value "v2" for --storage: use new or old`},
		"storage without more": {args: []string{"upgrade", "--storage", "old", in(oldName)},
			err: "--storage needs --to-version"},
		"an unknown flag":    {args: []string{"upgrade", "--dif"}, err: "unknown flag"},
		"an unknown command": {args: []string{"upgrad"}, err: "is not a command of"},
		"one file to check":  {args: []string{"check", in(oldName)}, err: "two files"},
		"no CRD in NEW": {args: []string{"check", in(oldName), in("deploy/kustomization.yaml")},
			err: "has no CustomResourceDefinition"},
		"an unknown output": {args: []string{"check", "-o", "xml", in(oldName), in(oldName)},
			err: `unknown value "xml" for --output: use text or json`},
		"a missing OLD":         {args: []string{"check", in("none.yaml"), in(oldName)}, err: "read CustomResourceDefinitions: "},
		"a template to compare": {args: []string{"check", in("template.yaml"), in(oldName)}, err: "read CustomResourceDefinitions: "},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"crd"}, test.args...)
			if test.args[0] == "upgrade" && len(test.args) > 1 && test.args[1] != "--dir" {
				args = append(args, "--dir", dir)
			}
			stdout, stderr, code := call(t, args...)
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if code != 1 || stdout != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "error: ") ||
				!strings.Contains(lines[0], test.err) || !strings.HasPrefix(lines[1], "Try: ") {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("mistakes change (-before +after):\n%s", diff)
	}
}

func TestCheckShowsWhatTheGoldenFilesSay(t *testing.T) {
	olds, err := filepath.Glob(filepath.Join(manifests, "check", "*.old.yaml"))
	if err != nil || len(olds) < 12 {
		t.Fatalf("%d pairs, %v", len(olds), err)
	}
	for _, old := range olds {
		name := strings.TrimSuffix(filepath.Base(old), ".old.yaml")
		t.Run(name, func(t *testing.T) {
			next := filepath.Join(manifests, "check", name+".new.yaml")
			text, stderr, code := call(t, "crd", "check", old, next)
			if stderr != "" {
				t.Errorf("stderr is %q", stderr)
			}
			asJSON, _, jsonCode := call(t, "crd", "check", "-o", "json", old, next)
			var parsed struct{ OK bool }
			if err := json.Unmarshal([]byte(asJSON), &parsed); err != nil {
				t.Fatal(err)
			}
			if code != jsonCode || parsed.OK != (code == 0) || code != 0 && code != 2 {
				t.Errorf("exit codes %d and %d, and JSON says ok: %t", code, jsonCode, parsed.OK)
			}
			golden.Compare(t, "testdata/"+filepath.Join("check", name+".golden"), text+"\n"+asJSON)
		})
	}
}

func TestUpgradeNamesACommandForWhatItCannotEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "crd.yaml"), filepath.Join(dir, "link.yaml")
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {}\n"
	if err := errors.Join(os.WriteFile(file, []byte("kind: List\nitems:\n- "+
		strings.ReplaceAll(crd, "\n", "\n  ")), 0o644), os.Symlink("crd.yaml", link)); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	for name, want := range map[string][2]string{
		file: {"error: upgrade crd.yaml: it has a CustomResourceDefinition in a list: make each item a document of its own", "Try: yq '.items[] | split_doc' " + file},
		link: {"error: " + link + " is a link to crd.yaml, and would become a file", "Try: readlink -f " + link},
	} {
		if stdout, stderr, code := call(t, "crd", "upgrade", "--dir", dir, name); code != 1 || stdout != "" ||
			stderr != want[0]+"\n"+want[1]+"\n" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("the folder changes (-before +after):\n%s", diff)
	}
}
