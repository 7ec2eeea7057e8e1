// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyWhatWasRightBeforeAndIsNotAfterIsAProblem(t *testing.T) {
	const v1, v2, user = "example.com/p/v1", "example.com/p/v2", "example.com/p/user"
	for name, test := range map[string]struct {
		before, after State
		want          Comparison
	}{
		"nothing has changed": {
			before: State{Packages: []string{user, v1}, Tests: map[Test]bool{{user, "TestA"}: true}},
			after:  State{Packages: []string{user, v1, v2}, Tests: map[Test]bool{{user, "TestA"}: true}},
			want:   Comparison{PassedBefore: 1, PassedAfter: 1},
		},
		"what failed before fails after": {
			before: State{Packages: []string{user, v1}, Fails: map[string]string{user: "build", v1: "vet"},
				Tests: map[Test]bool{{user, "TestA"}: false}},
			after: State{Packages: []string{user, v1}, Fails: map[string]string{user: "vet", v1: "vet"},
				Tests: map[Test]bool{{user, "TestA"}: false}},
		},
		"go vet has failed before, and go build fails now": {
			before: State{Packages: []string{v1}, Fails: map[string]string{v1: "vet"}},
			after:  State{Packages: []string{v1}, Fails: map[string]string{v1: "build"}},
			want:   Comparison{Problems: []string{"go build " + v1 + " fails, and did not before"}},
		},
		"a new package does not build": {
			before: State{Packages: []string{v1}},
			after:  State{Packages: []string{v1, v2}, Fails: map[string]string{v2: "build"}},
			want:   Comparison{Problems: []string{"go build " + v2 + " fails, and the package is new"}},
		},
		"a test fails": {
			before: State{Packages: []string{v1}, Tests: map[Test]bool{{v1, "TestA"}: true, {v1, "TestB"}: true}},
			after:  State{Packages: []string{v1}, Tests: map[Test]bool{{v1, "TestA"}: false, {v1, "TestB"}: true}},
			want: Comparison{PassedBefore: 2, PassedAfter: 1,
				Problems: []string{v1 + " TestA fails, and passed before"}},
		},
		"a test has followed the code that it tests": {
			before: State{Packages: []string{v1}, Tests: map[Test]bool{{v1, "TestA"}: true}},
			after:  State{Packages: []string{v1, v2}, Tests: map[Test]bool{{v2, "TestA"}: true}},
			want:   Comparison{PassedBefore: 1, PassedAfter: 1},
		},
		"a test is in both packages, and fails in the old one": {
			before: State{Packages: []string{v1}, Tests: map[Test]bool{{v1, "TestA"}: true}},
			after: State{Packages: []string{v1, v2},
				Tests: map[Test]bool{{v1, "TestA"}: false, {v2, "TestA"}: true}},
			want: Comparison{PassedBefore: 1, Problems: []string{v1 + " TestA fails, and passed before"}},
		},
		"a test of the same name has always been in another package": {
			before: State{Packages: []string{user, v1}, Tests: map[Test]bool{{v1, "TestA"}: true, {user, "TestA"}: true}},
			after:  State{Packages: []string{user, v1}, Tests: map[Test]bool{{user, "TestA"}: true}},
			want: Comparison{PassedBefore: 2, PassedAfter: 1,
				Problems: []string{v1 + " TestA does not run, and passed before"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Compare(test.before, test.after)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPackageIsAffectedByWhatItOrItsTestsDependOn(t *testing.T) {
	packages := []listed{
		{ImportPath: "p/v1", Deps: []string{"fmt"}},
		{ImportPath: "p/user", Deps: []string{"fmt", "p/v1"}},
		{ImportPath: "p/tested", Deps: []string{"fmt"}, TestImports: []string{"testing", "p/user"}},
		{ImportPath: "p/tested2", Deps: []string{"fmt"}, XTestImports: []string{"p/v1"}},
		{ImportPath: "p/other", Deps: []string{"fmt", "p/tested"}, TestImports: []string{"p/tested"}},
	}
	want := []string{"p/tested", "p/tested2", "p/user", "p/v1"}
	if diff := cmp.Diff(want, affected(packages, []string{"p/v1"})); diff != "" {
		t.Error(diff)
	}
}

func TestPackagesThatFailAreReadFromWhatTheGoCommandPrints(t *testing.T) {
	const out = `# example.com/p/a
a/a.go:3:5: undefined: x
# example.com/p/b [example.com/p/b.test]
b/b_test.go:3:5: undefined: x
# [example.com/p/c]
c/c.go:3:5: unreachable code
# example.com/p/b_test [example.com/p/b.test]
go: downloading example.com/q v1.0.0
vet: typecheck failures
inside/d/d.go:3:5: WaitGroup.Add called from inside new goroutine
/elsewhere/e.go:3:5: of no package of the module
`
	want := []string{"example.com/p/a", "example.com/p/b", "example.com/p/c", "example.com/p/inside/d"}
	if diff := cmp.Diff(want, failedPackages(out, "example.com/p")); diff != "" {
		t.Error(diff)
	}
}

func TestTestsCountWithTheirSubtests(t *testing.T) {
	const out = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`
	got, err := passed([]byte(out))
	if diff := cmp.Diff(map[Test]bool{{"p", "TestA"}: false, {"p", "TestB"}: true}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
