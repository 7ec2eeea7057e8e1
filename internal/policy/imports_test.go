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
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kube-migrator/kube-migrator"

// allowed lists, for each package, the packages of this module that its code outside tests may import. Imports run
// downwards only: cmd → cli → what decides and does → what reads. A new package gets a line here, and one that
// disappears loses it.
var allowed = map[string][]string{
	"bench":             {"bench/contestant", "bench/report", "bench/scenario", "internal/testbed"},
	"bench/contestant":  {"bench/lab", "internal/testbed"},
	"bench/lab":         {"internal/testbed"},
	"bench/report":      nil,
	"bench/scenario":    {"bench/contestant", "bench/lab", "bench/report", "internal/testbed"},
	"cmd/kube-migrator": {"internal/cli"},
	"agreement":         {"internal/agreement", "migrate"},
	"api/v1alpha1":      nil,
	"config":            nil,
	"examples/operator": {"migrate", "migrate/operator"},
	"internal/access":   {"internal/apiserver"},
	"internal/agreement": {"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd",
		"internal/identity", "internal/phrase", "migrate", "storageversion"},
	"internal/apiserver": {"internal/bounded", "internal/pace"},
	"internal/bounded":   nil,
	"internal/apipath":   {"internal/printable"},
	"internal/apicli": {
		"internal/apimigration/artifacts", "internal/apimigration/convert", "internal/apimigration/crd", "internal/apimigration/finding",
		"internal/apimigration/hint", "internal/apimigration/move", "internal/apimigration/progress",
		"internal/apimigration/project", "internal/apimigration/request", "internal/apimigration/split",
		"internal/apimigration/stages",
		"internal/apimigration/transaction", "internal/apimigration/tree", "internal/manifest",
		"internal/phrase", "internal/printable", "internal/shell",
	},
	"internal/apimigration/convert": {"internal/apimigration/crd", "internal/apimigration/finding",
		"internal/apimigration/hint", "internal/apimigration/project", "internal/apimigration/tree",
		"internal/apimigration/wiring"},
	"internal/apimigration/crd":     {"internal/phrase"},
	"internal/apimigration/git":     {"internal/apimigration/hint"},
	"internal/apimigration/fixture": {"internal/apimigration/hint", "internal/apimigration/tree"},
	"internal/apimigration/hint":    nil,
	"cmd/api-migrator":              {"internal/apicli"},
	"internal/apimigration/move": {
		"internal/apimigration/artifacts", "internal/apimigration/changeset", "internal/apimigration/finding",
		"internal/apimigration/git", "internal/apimigration/hint", "internal/apimigration/layout",
		"internal/apimigration/mention", "internal/apimigration/progress", "internal/apimigration/project",
		"internal/apimigration/request", "internal/apimigration/rewrite", "internal/apimigration/source", "internal/apimigration/transaction",
		"internal/apimigration/tree", "internal/apimigration/webhook", "internal/shell",
	},
	"internal/apimigration/webhook": {
		"internal/apimigration/artifacts", "internal/apimigration/changeset", "internal/apimigration/git",
		"internal/apimigration/layout", "internal/apimigration/project", "internal/apimigration/request",
		"internal/apimigration/source", "internal/apimigration/tree", "internal/shell",
	},
	"internal/apimigration/wiring": {"internal/apimigration/artifacts", "internal/apimigration/finding",
		"internal/apimigration/hint", "internal/apimigration/project", "internal/apimigration/tree"},
	"internal/apimigration/progress": nil,
	"internal/apimigration/project": {
		"internal/apimigration/hint", "internal/apimigration/progress", "internal/apimigration/source",
		"internal/apimigration/tree", "internal/shell",
	},
	"internal/apimigration/schemagen": {"internal/apimigration/project"},
	"internal/apimigration/source":    nil,
	"internal/apimigration/split":     {"internal/apimigration/project"},
	"internal/apimigration/artifacts": {
		"internal/apimigration/changeset", "internal/apimigration/crd", "internal/apimigration/finding",
		"internal/apimigration/git", "internal/apimigration/hint", "internal/apimigration/layout",
		"internal/apimigration/makefile", "internal/apimigration/project", "internal/apimigration/request",
		"internal/apimigration/schemagen", "internal/apimigration/source", "internal/apimigration/tree",
		"internal/apimigration/typeschema", "internal/shell",
	},
	"internal/apimigration/changeset": {"internal/apimigration/finding", "internal/apimigration/tree"},
	"internal/apimigration/finding":   nil,
	"internal/apimigration/layout": {"internal/apimigration/crd", "internal/apimigration/finding",
		"internal/apimigration/hint", "internal/apimigration/project", "internal/apimigration/request",
		"internal/apimigration/source", "internal/apimigration/split"},
	"internal/apimigration/makefile": nil,
	"internal/apimigration/mention": {"internal/apimigration/changeset", "internal/apimigration/finding",
		"internal/apimigration/git", "internal/apimigration/layout", "internal/apimigration/makefile",
		"internal/apimigration/project", "internal/apimigration/request", "internal/apimigration/source",
		"internal/apimigration/split", "internal/apimigration/tree"},
	"internal/apimigration/request": {"internal/apimigration/crd", "internal/apimigration/hint",
		"internal/apimigration/project", "internal/apimigration/source", "internal/apimigration/split",
		"internal/apimigration/tree"},
	"internal/apimigration/rewrite": {
		"internal/apimigration/changeset", "internal/apimigration/git", "internal/apimigration/hint",
		"internal/apimigration/layout", "internal/apimigration/mention", "internal/apimigration/project",
		"internal/apimigration/request", "internal/apimigration/source", "internal/apimigration/split",
		"internal/apimigration/tree", "internal/shell",
	},
	"internal/apimigration/stages": {"internal/apimigration/crd", "internal/apimigration/hint",
		"internal/apimigration/project"},
	"internal/apimigration/transaction": {
		"internal/apimigration/git", "internal/apimigration/hint", "internal/apimigration/tree", "internal/shell",
	},
	"internal/apimigration/tree": {"internal/apimigration/hint", "internal/shell"},
	"internal/apimigration/trial": {"internal/apimigration/hint", "internal/apimigration/move",
		"internal/apimigration/tree"},
	"internal/apimigration/typeschema":      {"internal/apimigration/project"},
	"internal/apimigration/cmd/try-project": {"internal/apimigration/hint", "internal/apimigration/trial"},
	"internal/cli": {
		"api/v1alpha1", "internal/access", "internal/agreement", "internal/apipath", "internal/apiserver",
		"internal/cli/arg", "internal/cli/checkpoint", "internal/cli/clusters", "internal/cli/dashboard",
		"internal/cli/exit", "internal/cli/page", "internal/cli/records", "internal/cli/render",
		"internal/cli/screen", "internal/controller",
		"internal/controller/migration", "internal/controller/trigger", "internal/crd", "internal/crdupgrade",
		"internal/etcdaudit", "internal/fleet", "internal/gate", "internal/install", "internal/inventory",
		"internal/manifest", "internal/pace", "internal/phrase", "internal/printable", "internal/pruning", "internal/refusal", "internal/retire",
		"internal/shell", "internal/storedversions", "internal/upgrade", "internal/worker", "migrate",
	},
	"internal/cli/arg": {
		"api/v1alpha1", "internal/agreement", "internal/cli/exit", "internal/cli/render", "migrate",
	},
	"internal/cli/checkpoint": {"migrate"},
	"internal/cli/clusters":   {"internal/cli/arg", "internal/cli/exit", "internal/fleet", "internal/shell"},
	"internal/cli/dashboard":  {"internal/cli/page", "internal/pace"},
	"internal/cli/exit":       {"internal/inventory"},
	"internal/cli/page": {"api/v1alpha1", "internal/cli/render", "internal/etcdaudit", "internal/printable",
		"internal/upgrade"},
	"internal/cli/records": {"api/v1alpha1", "internal/apipath", "internal/apiserver", "internal/cli/arg",
		"internal/cli/exit", "internal/etcdaudit", "internal/install", "internal/inventory", "internal/phrase",
		"internal/upgrade", "migrate"},
	"internal/cli/screen": {"api/v1alpha1", "internal/cli/arg", "internal/cli/render", "internal/printable",
		"internal/upgrade", "migrate"},
	"internal/cli/cmd/api-reference": {"config"},
	"internal/cli/cmd/cli-reference": {"internal/apicli", "internal/cli"},
	"internal/cli/cmd/manifests": {"api/v1alpha1", "config", "internal/cli/arg", "internal/controller/trigger",
		"internal/install"},
	"internal/cli/cmd/release-page": {"internal/cli/render", "internal/upgrade"},
	"internal/cli/render": {
		"api/v1alpha1", "internal/crdupgrade", "internal/etcdaudit", "internal/install", "internal/printable",
		"internal/pruning", "internal/refusal", "internal/retire", "internal/upgrade", "migrate",
	},
	"internal/discovery": {"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd"},
	"internal/endpoint":  nil,
	"internal/fleet":     nil,
	"internal/gate":      {"internal/apipath", "internal/apiserver", "internal/endpoint", "internal/printable"},
	"internal/controller": {"internal/access", "internal/controller/migration",
		"internal/controller/storageversions", "internal/controller/trigger"},
	"internal/controller/storageversions": {"api/v1alpha1", "storageversion"},
	"internal/controller/trigger": {
		"api/v1alpha1", "internal/access", "internal/agreement", "internal/apipath", "internal/apiserver",
		"internal/bounded", "internal/crd", "internal/identity", "internal/install/discovery", "internal/install/grant",
		"internal/inventory", "internal/ledger", "internal/pace", "internal/printable", "migrate", "storageversion",
	},
	"internal/controller/migration": {"internal/apiserver", "internal/agreement", "api/v1alpha1", "internal/bounded",
		"internal/controller/scrape", "internal/install/discovery", "internal/inventory", "internal/printable",
		"internal/storedversions", "internal/worker", "migrate"},
	"internal/controller/scrape": {"internal/apiserver", "internal/endpoint"},
	"internal/crd":               {"internal/apipath", "internal/apiserver", "internal/bounded", "internal/pruning"},
	"internal/crdupgrade": {"api/v1alpha1", "internal/access", "internal/apipath", "internal/apiserver",
		"internal/crd", "internal/pace", "internal/phrase", "internal/pruning", "internal/refusal", "internal/retire",
		"internal/storedversions", "internal/upgrade", "migrate", "storageversion"},
	"internal/etcdaudit": nil,
	"internal/golden":    nil,
	"internal/identity":  nil,
	"internal/install": {
		"api/v1alpha1", "config", "internal/access", "internal/agreement", "internal/apipath",
		"internal/apiserver", "internal/crd", "internal/install/discovery", "internal/install/grant", "internal/inventory",
		"internal/pace", "internal/worker", "migrate",
	},
	"internal/install/discovery": {"internal/apiserver"},
	"internal/install/grant":     {"internal/inventory", "migrate"},
	"internal/inventory": {"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd",
		"internal/discovery", "internal/pruning", "migrate", "storageversion"},
	"internal/ledger":    nil,
	"internal/manifest":  nil,
	"internal/pace":      nil,
	"internal/printable": nil,
	"internal/policy":    nil,
	"internal/refusal":   nil,
	"internal/pruning":   nil,
	"internal/retire": {"internal/access", "internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd",
		"internal/pace", "internal/phrase", "internal/printable", "internal/pruning", "internal/refusal", "internal/shell",
		"internal/storedversions",
		"migrate"},
	"internal/phrase":                      nil,
	"internal/shell":                       nil,
	"internal/storedversions":              {"internal/apipath", "internal/apiserver", "internal/crd"},
	"internal/testbed":                     {"internal/testbed/content"},
	"internal/testbed/cmd/testbed-build":   {"internal/testbed"},
	"internal/testbed/cmd/testbed-machine": nil,
	"internal/testbed/cmd/testbed-pause":   nil,
	"internal/testbed/content":             nil,
	"internal/upgrade":                     {"api/v1alpha1", "internal/phrase", "internal/pruning", "storageversion"},
	"internal/upgrade/cmd/decodable": {
		"internal/apiserver", "internal/inventory", "internal/pace", "internal/testbed", "internal/upgrade",
	},
	"internal/worker": {
		"api/v1alpha1", "internal/agreement", "internal/apipath", "internal/apiserver",
		"internal/install/discovery", "internal/inventory", "internal/pace", "internal/printable", "migrate",
	},
	"migrate": {
		"internal/apipath", "internal/apiserver", "internal/bounded", "internal/crd", "internal/discovery", "internal/pace",
		"internal/printable", "internal/pruning", "internal/storedversions", "storageversion",
	},
	"migrate/operator":             {"agreement", "internal/apiserver", "internal/crd", "internal/pace", "migrate"},
	"storageversion":               {"internal/apipath", "internal/bounded", "internal/identity"},
	"storageversion/genericserver": {"storageversion"},
	"test/aggregated":              nil,
	"test/aggregated/generic":      {"storageversion", "storageversion/genericserver"},
	"test/aggregated/plain":        {"storageversion"},
	"test/chart":                   nil,
	"test/chaos":                   nil, // the tag "chaos" keeps its tests from go list
	"test/chaos/judge":             {"internal/testbed", "internal/testbed/content"},
	"test/chaos/plan":              nil,
	"test/demo":                    {"internal/cli/render", "internal/etcdaudit", "internal/shell", "internal/testbed"},
	"test/docs":                    nil,
	"test/e2e":                     {"internal/testbed"},
	"test/node":                    nil, // the tag "node" keeps its tests from go list
	"test/page":                    nil, // the tag "page" keeps its tests from go list
	"test/readme":                  nil, // the tag "readme" keeps its tests from go list

	"internal/apimigration/convert/preserve": nil, // its source is copied into projects
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
	for _, problem := range importProblems(goList(t, "./..."), allowed) {
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
		for _, path := range pkg.Imports {
			if name, ours := strings.CutPrefix(path, module+"/"); ours && !slices.Contains(permitted, name) {
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

func goList(t *testing.T, pattern string) []listed {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(command(t, "go", "list", "-json=ImportPath,Imports,Deps", pattern)))
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
		t.Fatalf("go list %s found no packages", pattern)
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
