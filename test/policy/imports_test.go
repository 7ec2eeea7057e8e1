// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kube-migrator/kube-migrator"

// allowed lists, for each package, the packages of this module that its code outside tests may import. Imports run
// downwards only: program → cli → what decides and does → what reads. A new package gets a line here, and one that
// disappears loses it.
var allowed = map[string][]string{
	"agreement":    {"internal/agreement", "migrate"},
	"api-migrator": {"api-migrator/internal/cli"},
	"api-migrator/internal/artifacts": {
		"api-migrator/internal/changeset", "api-migrator/internal/crd", "api-migrator/internal/finding",
		"api-migrator/internal/git", "api-migrator/internal/hint", "api-migrator/internal/layout",
		"api-migrator/internal/makefile", "api-migrator/internal/project", "api-migrator/internal/request",
		"api-migrator/internal/schemagen", "api-migrator/internal/source", "api-migrator/internal/tree",
		"api-migrator/internal/typeschema", "internal/shell",
	},
	"api-migrator/internal/changeset": {"api-migrator/internal/finding", "api-migrator/internal/tree"},
	"api-migrator/internal/cli": {
		"api-migrator/internal/artifacts", "api-migrator/internal/convert", "api-migrator/internal/crd",
		"api-migrator/internal/finding", "api-migrator/internal/hint", "api-migrator/internal/move",
		"api-migrator/internal/progress", "api-migrator/internal/project", "api-migrator/internal/request",
		"api-migrator/internal/split", "api-migrator/internal/stages", "api-migrator/internal/transaction",
		"api-migrator/internal/tree", "internal/manifest", "internal/phrase", "internal/printable", "internal/shell",
	},
	"api-migrator/internal/cmd/try-project": {"api-migrator/internal/hint", "api-migrator/internal/trial"},
	"api-migrator/internal/convert": {
		"api-migrator/internal/crd", "api-migrator/internal/finding", "api-migrator/internal/hint",
		"api-migrator/internal/project", "api-migrator/internal/tree", "api-migrator/internal/wiring",
	},
	"api-migrator/internal/convert/preserve": nil, // its source is copied into projects
	"api-migrator/internal/crd":              {"internal/phrase"},
	"api-migrator/internal/finding":          nil,
	"api-migrator/internal/fixture":          {"api-migrator/internal/hint", "api-migrator/internal/tree"},
	"api-migrator/internal/fixture/decided":  {"api-migrator/internal/crd", "api-migrator/internal/fixture/typed", "api-migrator/internal/layout", "api-migrator/internal/request"},
	"api-migrator/internal/fixture/typed":    {"api-migrator/internal/fixture", "api-migrator/internal/project"},
	"api-migrator/internal/git":              {"api-migrator/internal/hint"},
	"api-migrator/internal/hint":             nil,
	"api-migrator/internal/layout": {
		"api-migrator/internal/crd", "api-migrator/internal/finding", "api-migrator/internal/hint",
		"api-migrator/internal/project", "api-migrator/internal/request", "api-migrator/internal/source",
		"api-migrator/internal/split",
	},
	"api-migrator/internal/makefile": nil,
	"api-migrator/internal/mention": {
		"api-migrator/internal/changeset", "api-migrator/internal/finding", "api-migrator/internal/git",
		"api-migrator/internal/layout", "api-migrator/internal/makefile", "api-migrator/internal/project",
		"api-migrator/internal/request", "api-migrator/internal/source", "api-migrator/internal/split",
		"api-migrator/internal/tree",
	},
	"api-migrator/internal/move": {
		"api-migrator/internal/artifacts", "api-migrator/internal/changeset", "api-migrator/internal/finding",
		"api-migrator/internal/git", "api-migrator/internal/hint", "api-migrator/internal/layout",
		"api-migrator/internal/mention", "api-migrator/internal/progress", "api-migrator/internal/project",
		"api-migrator/internal/request", "api-migrator/internal/rewrite", "api-migrator/internal/source",
		"api-migrator/internal/transaction", "api-migrator/internal/tree", "api-migrator/internal/webhook",
		"internal/shell",
	},
	"api-migrator/internal/progress": nil,
	"api-migrator/internal/project": {
		"api-migrator/internal/hint", "api-migrator/internal/progress", "api-migrator/internal/source",
		"api-migrator/internal/tree", "internal/shell",
	},
	"api-migrator/internal/request": {
		"api-migrator/internal/crd", "api-migrator/internal/hint", "api-migrator/internal/project",
		"api-migrator/internal/source", "api-migrator/internal/split", "api-migrator/internal/tree",
	},
	"api-migrator/internal/rewrite": {
		"api-migrator/internal/changeset", "api-migrator/internal/git", "api-migrator/internal/hint",
		"api-migrator/internal/layout", "api-migrator/internal/mention", "api-migrator/internal/project",
		"api-migrator/internal/request", "api-migrator/internal/source", "api-migrator/internal/split",
		"api-migrator/internal/tree", "internal/shell",
	},
	"api-migrator/internal/schemagen": {"api-migrator/internal/project"},
	"api-migrator/internal/source":    nil,
	"api-migrator/internal/split":     {"api-migrator/internal/project"},
	"api-migrator/internal/stages":    {"api-migrator/internal/crd", "api-migrator/internal/hint", "api-migrator/internal/project"},
	"api-migrator/internal/transaction": {
		"api-migrator/internal/git", "api-migrator/internal/hint", "api-migrator/internal/tree", "internal/shell",
	},
	"api-migrator/internal/tree": {"api-migrator/internal/hint", "internal/shell"},
	"api-migrator/internal/trial": {
		"api-migrator/internal/hint", "api-migrator/internal/move", "api-migrator/internal/tree",
	},
	"api-migrator/internal/typeschema": {"api-migrator/internal/project"},
	"api-migrator/internal/webhook": {
		"api-migrator/internal/artifacts", "api-migrator/internal/changeset", "api-migrator/internal/git",
		"api-migrator/internal/layout", "api-migrator/internal/project", "api-migrator/internal/request",
		"api-migrator/internal/source", "api-migrator/internal/tree", "internal/shell",
	},
	"api-migrator/internal/wiring": {
		"api-migrator/internal/artifacts", "api-migrator/internal/finding", "api-migrator/internal/hint",
		"api-migrator/internal/project", "api-migrator/internal/tree",
	},
	"api/v1alpha1":      nil,
	"config":            nil,
	"examples/operator": {"migrate", "migrate/operator"},
	"internal/agreement": {
		"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd", "internal/identity",
		"internal/phrase", "internal/pruning", "internal/waitgroup", "migrate", "storageversion",
	},
	"internal/apipath":   {"internal/printable"},
	"internal/apiserver": {"internal/bounded", "internal/pace"},
	"internal/bounded":   nil,
	"internal/compare":   nil,
	"internal/crd":       {"internal/apipath", "internal/apiserver", "internal/bounded", "internal/pruning"},
	"internal/discovery": {
		"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd", "internal/waitgroup",
	},
	"internal/golden":                      {"internal/compare"},
	"internal/identity":                    nil,
	"internal/manifest":                    nil,
	"internal/pace":                        nil,
	"internal/phrase":                      nil,
	"internal/printable":                   nil,
	"internal/pruning":                     nil,
	"internal/shell":                       nil,
	"internal/storedversions":              {"internal/apipath", "internal/apiserver", "internal/crd"},
	"internal/testbed":                     {"internal/testbed/content", "internal/testbed/envtest"},
	"internal/testbed/cmd/testbed-build":   {"internal/testbed"},
	"internal/testbed/cmd/testbed-machine": nil,
	"internal/testbed/cmd/testbed-pause":   nil,
	"internal/testbed/content":             nil,
	"internal/testbed/envtest":             nil,
	"internal/waitgroup":                   nil,
	"kube-migrator":                        {"kube-migrator/internal/cli"},
	"kube-migrator/internal/access":        {"internal/apiserver"},
	"kube-migrator/internal/cli": {
		"api/v1alpha1", "internal/agreement", "internal/apipath", "internal/apiserver", "internal/crd",
		"internal/manifest", "internal/pace", "internal/phrase", "internal/printable", "internal/pruning",
		"internal/shell", "internal/storedversions", "kube-migrator/internal/access", "kube-migrator/internal/cli/arg",
		"kube-migrator/internal/cli/checkpoint", "kube-migrator/internal/cli/clusters",
		"kube-migrator/internal/cli/dashboard", "kube-migrator/internal/cli/exit", "kube-migrator/internal/cli/page",
		"kube-migrator/internal/cli/records", "kube-migrator/internal/cli/render", "kube-migrator/internal/cli/screen",
		"kube-migrator/internal/controller", "kube-migrator/internal/controller/migration",
		"kube-migrator/internal/controller/trigger", "kube-migrator/internal/crdupgrade",
		"kube-migrator/internal/etcdaudit", "kube-migrator/internal/fleet", "kube-migrator/internal/gate",
		"kube-migrator/internal/install", "kube-migrator/internal/inventory", "kube-migrator/internal/refusal",
		"kube-migrator/internal/retire", "kube-migrator/internal/upgrade", "kube-migrator/internal/worker", "migrate",
	},
	"kube-migrator/internal/cli/arg": {
		"api/v1alpha1", "internal/agreement", "kube-migrator/internal/cli/exit", "kube-migrator/internal/cli/render",
		"migrate",
	},
	"kube-migrator/internal/cli/checkpoint": {"migrate"},
	"kube-migrator/internal/cli/clusters": {
		"internal/shell", "kube-migrator/internal/cli/arg", "kube-migrator/internal/cli/exit",
		"kube-migrator/internal/fleet",
	},
	"kube-migrator/internal/cli/cmd/api-reference": {"config"},
	"kube-migrator/internal/cli/cmd/manifests": {
		"api/v1alpha1", "config", "kube-migrator/internal/cli/arg", "kube-migrator/internal/controller/trigger",
		"kube-migrator/internal/install",
	},
	"kube-migrator/internal/cli/cmd/release-page": {
		"kube-migrator/internal/cli/render", "kube-migrator/internal/upgrade",
	},
	"kube-migrator/internal/cli/dashboard": {"internal/pace", "kube-migrator/internal/cli/page"},
	"kube-migrator/internal/cli/exit":      {"kube-migrator/internal/inventory"},
	"kube-migrator/internal/cli/page": {
		"api/v1alpha1", "internal/printable", "kube-migrator/internal/cli/render", "kube-migrator/internal/etcdaudit",
		"kube-migrator/internal/upgrade",
	},
	"kube-migrator/internal/cli/records": {
		"api/v1alpha1", "internal/apipath", "internal/apiserver", "internal/phrase", "kube-migrator/internal/cli/arg",
		"kube-migrator/internal/cli/exit", "kube-migrator/internal/etcdaudit", "kube-migrator/internal/install",
		"kube-migrator/internal/inventory", "kube-migrator/internal/upgrade", "migrate",
	},
	"kube-migrator/internal/cli/render": {
		"api/v1alpha1", "internal/printable", "internal/pruning", "kube-migrator/internal/crdupgrade",
		"kube-migrator/internal/etcdaudit", "kube-migrator/internal/install", "kube-migrator/internal/refusal",
		"kube-migrator/internal/retire", "kube-migrator/internal/upgrade", "migrate",
	},
	"kube-migrator/internal/cli/screen": {
		"api/v1alpha1", "internal/printable", "kube-migrator/internal/cli/arg", "kube-migrator/internal/cli/render",
		"kube-migrator/internal/upgrade", "migrate",
	},
	"kube-migrator/internal/controller": {
		"kube-migrator/internal/access", "kube-migrator/internal/controller/migration",
		"kube-migrator/internal/controller/storageversions", "kube-migrator/internal/controller/trigger",
	},
	"kube-migrator/internal/controller/migration": {
		"api/v1alpha1", "internal/agreement", "internal/apiserver", "internal/bounded", "internal/printable",
		"internal/storedversions", "kube-migrator/internal/controller/scrape",
		"kube-migrator/internal/install/discovery", "kube-migrator/internal/inventory",
		"kube-migrator/internal/worker", "migrate",
	},
	"kube-migrator/internal/controller/scrape":          {"internal/apiserver", "kube-migrator/internal/endpoint"},
	"kube-migrator/internal/controller/storageversions": {"api/v1alpha1", "storageversion"},
	"kube-migrator/internal/controller/trigger": {
		"api/v1alpha1", "internal/agreement", "internal/apipath", "internal/apiserver", "internal/bounded",
		"internal/crd", "internal/identity", "internal/pace", "internal/printable", "kube-migrator/internal/access",
		"kube-migrator/internal/install/discovery", "kube-migrator/internal/install/grant",
		"kube-migrator/internal/inventory", "kube-migrator/internal/ledger", "migrate", "storageversion",
	},
	"kube-migrator/internal/crdupgrade": {
		"api/v1alpha1", "internal/apipath", "internal/apiserver", "internal/crd", "internal/pace", "internal/phrase",
		"internal/pruning", "internal/storedversions", "kube-migrator/internal/access",
		"kube-migrator/internal/refusal", "kube-migrator/internal/retire", "kube-migrator/internal/upgrade", "migrate",
		"storageversion",
	},
	"kube-migrator/internal/endpoint":  nil,
	"kube-migrator/internal/etcdaudit": nil,
	"kube-migrator/internal/fleet":     nil,
	"kube-migrator/internal/gate": {
		"internal/apipath", "internal/apiserver", "internal/printable", "kube-migrator/internal/endpoint",
	},
	"kube-migrator/internal/install": {
		"api/v1alpha1", "config", "internal/agreement", "internal/apipath", "internal/apiserver", "internal/crd",
		"internal/pace", "kube-migrator/internal/access", "kube-migrator/internal/install/discovery",
		"kube-migrator/internal/install/grant", "kube-migrator/internal/inventory", "kube-migrator/internal/worker",
		"migrate",
	},
	"kube-migrator/internal/install/discovery": {"internal/apiserver"},
	"kube-migrator/internal/install/grant":     {"kube-migrator/internal/inventory", "migrate"},
	"kube-migrator/internal/inventory": {
		"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd", "internal/discovery",
		"internal/pruning", "migrate", "storageversion",
	},
	"kube-migrator/internal/ledger":  nil,
	"kube-migrator/internal/refusal": nil,
	"kube-migrator/internal/retire": {
		"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd", "internal/pace",
		"internal/phrase", "internal/printable", "internal/pruning", "internal/shell", "internal/storedversions",
		"kube-migrator/internal/access", "kube-migrator/internal/refusal", "migrate",
	},
	"kube-migrator/internal/upgrade": {"api/v1alpha1", "internal/phrase", "internal/pruning", "storageversion"},
	"kube-migrator/internal/upgrade/cmd/decodable": {
		"internal/apiserver", "internal/pace", "internal/testbed", "kube-migrator/internal/inventory",
		"kube-migrator/internal/upgrade",
	},
	"kube-migrator/internal/worker": {
		"api/v1alpha1", "internal/agreement", "internal/apipath", "internal/apiserver", "internal/pace",
		"internal/printable", "kube-migrator/internal/install/discovery", "kube-migrator/internal/inventory",
		"migrate",
	},
	"kube-migrator/test/agreement": nil,
	"kube-migrator/test/chart":     nil,
	"kube-migrator/test/demo": {
		"internal/shell", "internal/testbed", "kube-migrator/internal/cli/render", "kube-migrator/internal/etcdaudit",
	},
	"kube-migrator/test/e2e":  {"internal/testbed"},
	"kube-migrator/test/page": nil, // the tag "page" keeps its tests from go list
	"migrate": {
		"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd", "internal/discovery",
		"internal/pace", "internal/printable", "internal/pruning", "internal/storedversions", "internal/waitgroup",
		"storageversion",
	},
	"migrate/operator":             {"agreement", "internal/apiserver", "internal/crd", "internal/pace", "migrate"},
	"storageversion":               {"internal/apipath", "internal/bounded", "internal/identity"},
	"storageversion/genericserver": {"storageversion"},
	"test/aggregated":              nil,
	"test/aggregated/generic":      {"storageversion", "storageversion/genericserver"},
	"test/aggregated/plain":        {"storageversion"},
	"test/api":                     nil,
	"test/apiserver":               nil,
	"test/bench":                   {"internal/testbed", "test/bench/contestant", "test/bench/report", "test/bench/scenario"},
	"test/bench/contestant":        {"internal/testbed", "test/bench/lab"},
	"test/bench/lab":               {"internal/testbed"},
	"test/bench/report":            nil,
	"test/bench/scenario":          {"internal/testbed", "test/bench/contestant", "test/bench/lab", "test/bench/report"},
	"test/chaos":                   nil, // the tag "chaos" keeps its tests from go list
	"test/chaos/judge":             {"internal/testbed", "internal/testbed/content"},
	"test/chaos/plan":              nil,
	"test/consumer":                nil,
	"test/docs":                    nil,
	"test/migrate":                 nil,
	"test/node":                    nil, // the tag "node" keeps its tests from go list
	"test/policy":                  nil,
	"test/pruning":                 nil,
	"test/readme":                  nil, // the tag "readme" keeps its tests from go list
	"test/storageversion":          nil,
	"test/storedversions":          nil,
}

// listed is what `go list -json` says about a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func (l listed) name() string { return strings.TrimPrefix(l.ImportPath, module+"/") }

func (l listed) below(folder string) bool { return below(l.name(), folder) }

func TestEveryPackageImportsOnlyWhatTheTableAllows(t *testing.T) {
	for _, problem := range importProblems(goList(t), allowed) {
		t.Error(problem)
	}
}

func TestImportTableNoticesEveryKindOfProblem(t *testing.T) {
	table := map[string][]string{"a": {"b"}, "b": nil, "gone": nil}
	packages := []listed{
		{ImportPath: module + "/a", Imports: []string{module + "/b", "fmt"}},
		{ImportPath: module + "/b", Imports: []string{module + "/a"}},
		{ImportPath: module + "/new"},
	}
	want := []string{
		"b imports a, which the table does not allow",
		"new is not in the table of allowed imports: add it, with what it may import",
		"the table has a line for gone, which is no package of this module",
	}
	if got := importProblems(packages, table); !slices.Equal(got, want) {
		t.Errorf("problems:\n got %q\nwant %q", got, want)
	}
}

// importProblems compares packages with the table, sorted.
func importProblems(packages []listed, table map[string][]string) []string {
	var problems []string
	gone := maps.Clone(table)
	for _, pkg := range packages {
		delete(gone, pkg.name())
		permitted, ok := table[pkg.name()]
		if !ok {
			problems = append(problems, pkg.name()+" is not in the table of allowed imports: add it, with what it "+
				"may import")
			continue
		}
		for _, imported := range pkg.Imports {
			if name, ours := strings.CutPrefix(imported, module+"/"); ours && !slices.Contains(permitted, name) {
				problems = append(problems, pkg.name()+" imports "+name+", which the table does not allow")
			}
		}
	}
	for name := range gone {
		problems = append(problems, "the table has a line for "+name+", which is no package of this module")
	}
	slices.Sort(problems)
	return problems
}

// below reports whether path is prefix or lies in it.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// goList returns the packages of all modules of the workspace.
func goList(t *testing.T) []listed {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Imports,Deps"}
	for _, m := range modules(t) {
		args = append(args, "./"+path.Join(m.folder, "..."))
	}
	decoder := json.NewDecoder(bytes.NewReader(command(t, "go", args...)))
	var packages []listed
	for {
		var pkg listed
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		packages = append(packages, pkg)
	}
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	return packages
}

// command runs a command in the repository's root and returns what it prints.
func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := inRoot(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.Bytes())
	}
	return out
}

func inRoot(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	return cmd
}
