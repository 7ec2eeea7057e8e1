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
	"bench":             {"internal/apiserver", "internal/testbed", "migrate"},
	"cmd/kube-migrator": {"internal/cli"},
	"agreement":         {"internal/agreement", "migrate"},
	"api/v1alpha1":      nil,
	"config":            nil,
	"examples/operator": {"agreement", "migrate"},
	"internal/access":   nil,
	"internal/agreement": {"internal/apiserver", "internal/bounded", "internal/apipath", "internal/crd",
		"migrate", "storageversion"},
	"internal/apiserver": {"internal/bounded", "internal/pace"},
	"internal/bounded":   nil,
	"internal/apipath":   nil,
	"internal/apicli": {"internal/apimigration/convert", "internal/apimigration/crd", "internal/apimigration/finding",
		"internal/apimigration/hint", "internal/apimigration/move", "internal/apimigration/project",
		"internal/apimigration/request", "internal/apimigration/split", "internal/apimigration/stages",
		"internal/apimigration/transaction", "internal/apimigration/tree", "internal/manifest", "internal/printable"},
	"internal/apimigration/convert": {"internal/apimigration/hint", "internal/apimigration/project",
		"internal/apimigration/tree"},
	"internal/apimigration/crd":  nil,
	"internal/apimigration/git":  {"internal/apimigration/hint"},
	"internal/apimigration/hint": nil,
	"cmd/api-migrator":           {"internal/apicli"},
	"internal/apimigration/move": {"internal/apimigration/artifacts", "internal/apimigration/changeset",
		"internal/apimigration/finding", "internal/apimigration/git", "internal/apimigration/hint",
		"internal/apimigration/layout", "internal/apimigration/mention", "internal/apimigration/project",
		"internal/apimigration/request", "internal/apimigration/rewrite", "internal/apimigration/source",
		"internal/apimigration/transaction", "internal/apimigration/tree"},
	"internal/apimigration/project": {"internal/apimigration/hint", "internal/apimigration/source",
		"internal/apimigration/tree"},
	"internal/apimigration/source": nil,
	"internal/apimigration/split":  {"internal/apimigration/project"},
	"internal/apimigration/artifacts": {"internal/apimigration/changeset", "internal/apimigration/crd",
		"internal/apimigration/finding", "internal/apimigration/git", "internal/apimigration/hint",
		"internal/apimigration/layout", "internal/apimigration/project", "internal/apimigration/request",
		"internal/apimigration/source", "internal/apimigration/tree"},
	"internal/apimigration/changeset": {"internal/apimigration/finding", "internal/apimigration/tree"},
	"internal/apimigration/finding":   nil,
	"internal/apimigration/layout": {"internal/apimigration/crd", "internal/apimigration/finding",
		"internal/apimigration/hint", "internal/apimigration/project", "internal/apimigration/request",
		"internal/apimigration/source", "internal/apimigration/split"},
	"internal/apimigration/mention": {"internal/apimigration/changeset", "internal/apimigration/finding",
		"internal/apimigration/git", "internal/apimigration/layout", "internal/apimigration/project",
		"internal/apimigration/source", "internal/apimigration/split", "internal/apimigration/tree"},
	"internal/apimigration/request": {"internal/apimigration/crd", "internal/apimigration/hint",
		"internal/apimigration/project", "internal/apimigration/source", "internal/apimigration/split"},
	"internal/apimigration/rewrite": {"internal/apimigration/changeset", "internal/apimigration/hint",
		"internal/apimigration/layout", "internal/apimigration/mention", "internal/apimigration/project",
		"internal/apimigration/request", "internal/apimigration/source", "internal/apimigration/split",
		"internal/apimigration/tree"},
	"internal/apimigration/stages": {"internal/apimigration/crd", "internal/apimigration/hint",
		"internal/apimigration/project"},
	"internal/apimigration/transaction": {"internal/apimigration/git", "internal/apimigration/hint",
		"internal/apimigration/tree"},
	"internal/apimigration/tree": {"internal/apimigration/hint"},
	"internal/cli": {
		"api/v1alpha1", "internal/access", "internal/agreement", "internal/apipath", "internal/apiserver",
		"internal/cli/arg", "internal/cli/checkpoint", "internal/cli/exit", "internal/cli/records",
		"internal/cli/render", "internal/cli/screen", "internal/controller", "internal/controller/migration",
		"internal/controller/trigger", "internal/crd", "internal/crdupgrade", "internal/etcdaudit", "internal/install",
		"internal/inventory", "internal/manifest", "internal/pace", "internal/printable", "internal/refusal",
		"internal/retire", "internal/storedversions", "internal/upgrade", "internal/worker", "migrate",
	},
	"internal/cli/arg": {"api/v1alpha1", "internal/agreement", "internal/cli/exit", "internal/cli/render",
		"internal/inventory", "migrate"},
	"internal/cli/checkpoint": {"migrate"},
	"internal/cli/exit":       {"internal/inventory"},
	"internal/cli/records": {"api/v1alpha1", "internal/apipath", "internal/cli/arg", "internal/cli/exit",
		"internal/etcdaudit", "internal/install", "internal/inventory", "internal/upgrade", "migrate"},
	"internal/cli/screen": {"api/v1alpha1", "internal/cli/arg", "internal/cli/render", "internal/printable",
		"internal/upgrade", "migrate"},
	"internal/cli/cmd/cli-reference": {"internal/cli"},
	"internal/cli/cmd/release-page":  {"internal/cli/render", "internal/upgrade"},
	"internal/cli/render": {"api/v1alpha1", "internal/crdupgrade", "internal/etcdaudit", "internal/install",
		"internal/inventory", "internal/refusal", "internal/retire", "internal/upgrade", "migrate"},
	"internal/controller": {"internal/access", "internal/controller/migration",
		"internal/controller/storageversions", "internal/controller/trigger"},
	"internal/controller/storageversions": {"storageversion"},
	"internal/controller/trigger": {"internal/apiserver", "internal/agreement", "api/v1alpha1", "internal/access",
		"internal/bounded",
		"internal/apipath", "internal/crd", "internal/install/discovery", "internal/inventory", "internal/ledger",
		"internal/printable", "migrate", "storageversion"},
	"internal/controller/migration": {"internal/apiserver", "internal/agreement", "api/v1alpha1", "internal/bounded",
		"internal/controller/scrape", "internal/install/discovery", "internal/inventory", "internal/storedversions",
		"internal/worker", "migrate"},
	"internal/controller/scrape": {"internal/apiserver", "migrate"},
	"internal/crd":               {"internal/bounded", "internal/apipath"},
	"internal/crdupgrade": {"api/v1alpha1", "internal/access", "internal/apipath", "internal/bounded",
		"internal/crd", "internal/pace", "internal/refusal", "internal/retire", "internal/storedversions",
		"internal/upgrade", "migrate", "storageversion"},
	"internal/etcdaudit": nil,
	"internal/golden":    nil,
	"internal/install": {"internal/agreement", "api/v1alpha1", "config", "internal/access",
		"internal/apipath", "internal/crd", "internal/install/discovery", "internal/inventory", "migrate"},
	"internal/install/discovery": nil,
	"internal/inventory": {"internal/bounded", "internal/apipath", "internal/crd",
		"migrate", "storageversion"},
	"internal/ledger":    nil,
	"internal/manifest":  nil,
	"internal/pace":      nil,
	"internal/printable": nil,
	"internal/policy":    nil,
	"internal/refusal":   nil,
	"internal/retire": {"internal/access", "internal/bounded", "internal/apipath", "internal/crd",
		"internal/pace", "internal/refusal", "internal/storedversions", "migrate"},
	"internal/storedversions":              {"internal/apipath", "internal/crd", "migrate"},
	"internal/testbed":                     nil,
	"internal/testbed/cmd/testbed-build":   {"internal/testbed"},
	"internal/testbed/cmd/testbed-machine": nil,
	"internal/testbed/cmd/testbed-pause":   nil,
	"internal/upgrade":                     {"api/v1alpha1", "storageversion"},
	"internal/upgrade/cmd/decodable": {"internal/apiserver", "internal/inventory", "internal/testbed",
		"internal/upgrade", "migrate"},
	"internal/worker": {"internal/apiserver", "internal/agreement", "api/v1alpha1",
		"internal/bounded", "internal/apipath",
		"internal/install/discovery", "internal/inventory", "internal/pace", "migrate"},
	"migrate": {"internal/apiserver", "internal/bounded", "internal/apipath",
		"internal/crd", "internal/pace"},
	"storageversion":        {"internal/apipath", "internal/bounded"},
	"test/aggregated":       nil,
	"test/aggregated/plain": {"storageversion"},
	"test/chaos":            nil, // the tag "chaos" keeps its tests from go list
	"test/chaos/judge":      {"internal/testbed"},
	"test/chaos/plan":       nil,
	"test/demo":             {"internal/cli/render", "internal/etcdaudit", "internal/testbed"},
	"test/e2e":              {"internal/testbed"},
	"test/node":             nil, // the tag "node" keeps its tests from go list

	"internal/apimigration/convert/preserve": nil, // its source is copied into projects
}

// forbidden lists packages of others that only some of ours may import, and why.
var forbidden = []rule{
	{
		prefix: "k8s.io/client-go/kubernetes",
		within: []string{"internal/controller", "internal/testbed", "test"},
		reason: "typed clients cost memory, and only controllers need theirs; send absolute paths through a " +
			"rest.Interface",
	},
	{
		prefix:   "k8s.io/apiserver",
		within:   []string{"cmd/api-migrator"},
		binaries: true,
		reason: "the code of a whole API server costs 15 MiB of memory; controller-runtime's filter for metrics " +
			"would bring it",
	},
	{
		prefix:   "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation",
		within:   []string{"cmd/api-migrator", "internal/apimigration"},
		binaries: true,
		reason:   "it brings the code of a whole API server; internal/crd reads the few fields that matter in a cluster",
	},
	{
		prefix:   "sigs.k8s.io/crdify",
		within:   []string{"cmd/api-migrator", "internal/apimigration"},
		binaries: true,
		reason:   "only who writes definitions compares them in full",
	},
	{
		prefix:      "k8s.io/kubectl",
		within:      []string{"internal/testbed", "test"},
		binaries:    true,
		notRequired: true,
		reason:      "kubectl's packages are made for kubectl and bring its memory along",
	},
	{
		prefix: "go.etcd.io/etcd/client/v3",
		within: []string{"internal/etcdaudit", "internal/testbed", "test/aggregated/plain"},
		reason: "only the audit looks behind the API server, and an API server of a test stores there; everything " +
			"else goes through it",
	},
	{
		prefix: "go.etcd.io/bbolt",
		within: []string{"internal/etcdaudit", "internal/testbed"},
		reason: "only the audit reads snapshot files",
	},
	{
		prefix:   "sigs.k8s.io/controller-tools/pkg/genall",
		within:   []string{"cmd/api-migrator", "internal/apicli", "internal/apimigration"},
		binaries: true,
		reason:   "what reads and generates Go code belongs to the tool of operator authors alone",
	},
	{
		prefix:   "golang.org/x/tools/go/packages",
		within:   []string{"cmd/api-migrator", "internal/apicli", "internal/apimigration"},
		binaries: true,
		reason:   "what reads and generates Go code belongs to the tool of operator authors alone",
	},
	{
		prefix: "sigs.k8s.io/controller-runtime",
		within: []string{"internal/controller"},
		reason: "only controllers need it; the public packages work in programs without",
	},
}

// rule keeps packages of others out of most of ours.
type rule struct {
	// prefix is an import path; packages below it are meant too. It names a package or a module that exists.
	prefix string
	// within lists our folders whose code may import it.
	within []string
	// binaries: it must not reach a command in cmd/ through other packages either, but for those that within lists.
	binaries bool
	// notRequired: no module of ours requires it today, so that there is no package to check the prefix against.
	notRequired bool
	reason      string
}

func (r rule) covers(importPath string) bool { return below(importPath, r.prefix) }

func (r rule) permits(pkg string) bool {
	return slices.ContainsFunc(r.within, func(folder string) bool { return below(pkg, folder) })
}

// listed is what `go list -json` says about a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func (l listed) name() string { return strings.TrimPrefix(l.ImportPath, module+"/") }

func TestEveryPackageImportsOnlyWhatTheTableAllows(t *testing.T) {
	for _, problem := range importProblems(goList(t, "./..."), allowed) {
		t.Error(problem)
	}
}

func TestNoPackageImportsWhatIsForbiddenToIt(t *testing.T) {
	packages := goList(t, "./...")
	for _, problem := range forbiddenProblems(packages, forbidden) {
		t.Error(problem)
	}
}

func TestEveryForbiddenImportNamesSomethingReal(t *testing.T) {
	var requirements struct {
		Require []struct{ Path string }
	}
	if err := json.Unmarshal(command(t, "go", "mod", "edit", "-json"), &requirements); err != nil {
		t.Fatalf("read go.mod: %v", err)
	}
	for _, r := range forbidden {
		required := slices.ContainsFunc(requirements.Require,
			func(m struct{ Path string }) bool { return below(r.prefix, m.Path) || below(m.Path, r.prefix) })
		switch {
		case r.notRequired && required:
			t.Errorf("go.mod requires the module of %s now: remove notRequired from its rule and name a package of it",
				r.prefix)
		case !r.notRequired && !required:
			t.Errorf("go.mod does not require a module of %s: the rule forbids nothing", r.prefix)
		case slices.ContainsFunc(requirements.Require,
			func(m struct{ Path string }) bool { return m.Path == r.prefix }):
			// a whole module, which need not have a package of its own name
		case !r.notRequired:
			if out, err := inRoot("go", "list", "-find", r.prefix).CombinedOutput(); err != nil {
				t.Errorf("%s is no package: %v\n%s", r.prefix, err, out)
			}
		}
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

func TestForbiddenImportsAreFoundDirectlyAndThroughOthers(t *testing.T) {
	rules := []rule{{prefix: "example.com/heavy", within: []string{"cmd/heavy", "internal/testbed"},
		binaries: true, reason: "heavy"}}
	packages := []listed{
		{ImportPath: module + "/cmd/heavy", Deps: []string{"example.com/heavy/inner"}},
		{ImportPath: module + "/cmd/tool", Deps: []string{"example.com/light", "example.com/heavy/inner"}},
		{ImportPath: module + "/internal/testbed/faults", Imports: []string{"example.com/heavy"}},
		{ImportPath: module + "/internal/testbedding", Imports: []string{"example.com/heavy"}},
		{ImportPath: module + "/migrate", Imports: []string{"example.com/heavyweight"}},
	}
	want := []string{
		"cmd/tool is linked with example.com/heavy/inner: heavy",
		"internal/testbedding imports example.com/heavy: heavy",
	}
	if got := forbiddenProblems(packages, rules); !slices.Equal(got, want) {
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

// forbiddenProblems applies the rules to packages, sorted.
func forbiddenProblems(packages []listed, rules []rule) []string {
	var problems []string
	for _, pkg := range packages {
		for _, r := range rules {
			for _, path := range pkg.Imports {
				if r.covers(path) && !r.permits(pkg.name()) {
					problems = append(problems, pkg.name()+" imports "+path+": "+r.reason)
				}
			}
			if i := slices.IndexFunc(pkg.Deps, r.covers); i >= 0 && r.binaries && below(pkg.name(), "cmd") &&
				!r.permits(pkg.name()) {
				problems = append(problems, pkg.name()+" is linked with "+pkg.Deps[i]+": "+r.reason)
			}
		}
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
