// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"testing"
)

// forbidden lists packages of others that only some of ours may import, and why.
var forbidden = []rule{
	{
		prefix: "k8s.io/client-go/kubernetes",
		within: []string{"kube-migrator/internal/controller", "internal/testbed", "test"},
		reason: "typed clients cost memory, and only controllers need theirs; send absolute paths through a " +
			"rest.Interface",
	},
	{
		prefix:   "k8s.io/apiserver",
		within:   []string{"api-migrator", "storageversion/genericserver", "test/aggregated/generic"},
		binaries: true,
		reason: "the code of a whole API server costs 15 MiB of memory; controller-runtime's filter for metrics " +
			"would bring it",
	},
	{
		prefix:   "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation",
		within:   []string{"api-migrator"},
		binaries: true,
		reason:   "it brings the code of a whole API server; internal/crd reads the few fields that matter in a cluster",
	},
	{
		prefix:   "sigs.k8s.io/crdify",
		within:   []string{"api-migrator"},
		binaries: true,
		reason:   "only the code that writes CRDs compares them in full",
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
		within: []string{"kube-migrator/internal/etcdaudit", "internal/testbed", "test/aggregated/plain"},
		reason: "only the audit looks behind the API server, and an API server of a test stores there; everything " +
			"else goes through it",
	},
	{
		prefix: "go.etcd.io/bbolt",
		within: []string{"kube-migrator/internal/etcdaudit", "internal/testbed"},
		reason: "only the audit reads snapshot files",
	},
	{
		prefix:   "sigs.k8s.io/controller-tools/pkg/genall",
		within:   []string{"api-migrator"},
		binaries: true,
		reason:   "what reads and generates Go code belongs to the tool of operator authors alone",
	},
	{
		prefix:   "golang.org/x/tools/go/packages",
		within:   []string{"api-migrator"},
		binaries: true,
		reason:   "what reads and generates Go code belongs to the tool of operator authors alone",
	},
	{
		prefix: "sigs.k8s.io/controller-runtime",
		within: []string{"kube-migrator/internal/controller", "kube-migrator/internal/endpoint"},
		reason: "only controllers, and servers whose certificate changes, need it; the public packages work in programs " +
			"without",
	},
}

// rule keeps packages of others out of most of ours.
type rule struct {
	// prefix is an import path; packages below it are meant too. It names a package or a module that exists.
	prefix string
	// within lists our folders whose code may import it.
	within []string
	// binaries: it must not reach a program, or a public package, through other packages either, but for those
	// that within lists.
	binaries bool
	// notRequired: no module of ours requires it today, so that there is no package to check the prefix against.
	notRequired bool
	reason      string
}

// programs are those that users install.
var programs = []string{"api-migrator", "kube-migrator"}

// public are the folders with the packages for programs of others.
var public = []string{"agreement", "api", "config", "migrate", "storageversion"}

func (r rule) covers(importPath string) bool { return below(importPath, r.prefix) }

func (r rule) permits(pkg string) bool {
	return slices.ContainsFunc(r.within, func(folder string) bool { return below(pkg, folder) })
}

func TestNoPackageImportsWhatIsForbiddenToIt(t *testing.T) {
	packages := goList(t)
	for _, problem := range forbiddenProblems(packages, forbidden) {
		t.Error(problem)
	}
}

func TestEveryForbiddenImportNamesSomethingReal(t *testing.T) {
	var all []string
	for _, m := range modules(t) {
		all = append(all, m.requires...)
	}
	for _, r := range forbidden {
		required := slices.ContainsFunc(all,
			func(path string) bool { return below(r.prefix, path) || below(path, r.prefix) })
		switch {
		case r.notRequired && required:
			t.Errorf("a go.mod requires the module of %s now: remove notRequired from its rule and name a package of it",
				r.prefix)
		case !r.notRequired && !required:
			t.Errorf("no go.mod requires a module of %s: the rule forbids nothing", r.prefix)
		case slices.Contains(all, r.prefix):
			// a whole module, which need not have a package of its own name
		case !r.notRequired:
			if out, err := inRoot("go", "list", "-find", r.prefix).CombinedOutput(); err != nil {
				t.Errorf("%s is no package: %v\n%s", r.prefix, err, out)
			}
		}
	}
}

func TestForbiddenImportsAreFoundDirectlyAndThroughOthers(t *testing.T) {
	rules := []rule{{prefix: "example.com/heavy", within: []string{"kube-migrator", "internal/testbed"},
		binaries: true, reason: "heavy"}}
	packages := []listed{
		{ImportPath: module + "/kube-migrator", Deps: []string{"example.com/heavy/inner"}},
		{ImportPath: module + "/api-migrator", Deps: []string{"example.com/light", "example.com/heavy/inner"}},
		{ImportPath: module + "/internal/testbed/faults", Imports: []string{"example.com/heavy"}},
		{ImportPath: module + "/internal/testbedding", Imports: []string{"example.com/heavy"}},
		{ImportPath: module + "/migrate", Imports: []string{"example.com/heavyweight"}},
		{ImportPath: module + "/migrate/part", Deps: []string{"example.com/heavy"}},
		{ImportPath: module + "/internal/part", Deps: []string{"example.com/heavy"}},
	}
	want := []string{
		"api-migrator is linked with example.com/heavy/inner: heavy",
		"internal/testbedding imports example.com/heavy: heavy",
		"migrate/part is linked with example.com/heavy: heavy",
	}
	if got := forbiddenProblems(packages, rules); !slices.Equal(got, want) {
		t.Errorf("problems:\n got %q\nwant %q", got, want)
	}
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
			if i := slices.IndexFunc(pkg.Deps, r.covers); i >= 0 && r.binaries && !r.permits(pkg.name()) &&
				(slices.Contains(programs, pkg.name()) || slices.ContainsFunc(public, pkg.below)) {
				problems = append(problems, pkg.name()+" is linked with "+pkg.Deps[i]+": "+r.reason)
			}
		}
	}
	slices.Sort(problems)
	return problems
}
