// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// State is what the go command says about the packages that a move may affect.
type State struct {
	// Packages are their import paths, sorted.
	Packages []string
	// Fails has "build" or "vet" for a package with which that command fails.
	Fails map[string]string
	// Tests are those that ran to an end, and whether they passed.
	Tests map[Test]bool

	all         []listed // of the module
	needCluster int      // packages whose tests start an API server
}

// Test is a test function.
type Test struct{ Package, Name string }

// Comparison is what a move has changed.
type Comparison struct {
	// PassedBefore is how many tests passed before, and PassedAfter how many of these pass after.
	PassedBefore, PassedAfter int
	// Problems are what was right before and is not any more, sorted.
	Problems []string
}

// Compare compares two states. What failed before does not count. Tests follow the code that they test: one that has
// left its package passes if it does in a package that is new.
func Compare(before, after State) Comparison {
	c := Comparison{}
	for path, what := range after.Fails {
		switch {
		case before.Fails[path] == "build", before.Fails[path] == what:
		case slices.Contains(before.Packages, path):
			c.Problems = append(c.Problems, fmt.Sprintf("go %s %s fails, and did not before", what, path))
		default:
			c.Problems = append(c.Problems, fmt.Sprintf("go %s %s fails, and the package is new", what, path))
		}
	}
	moved := map[string]bool{} // names of tests that pass in new packages
	for test, ok := range after.Tests {
		if ok && !slices.Contains(before.Packages, test.Package) {
			moved[test.Name] = true
		}
	}
	inOrder := func(a, b Test) int { return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name)) }
	for _, test := range slices.SortedFunc(maps.Keys(before.Tests), inOrder) {
		if !before.Tests[test] {
			continue
		}
		c.PassedBefore++
		ok, there := after.Tests[test]
		switch {
		case ok, !there && moved[test.Name]:
			c.PassedAfter++
		case there:
			c.Problems = append(c.Problems, fmt.Sprintf("%s %s fails, and passed before", test.Package, test.Name))
		default:
			c.Problems = append(c.Problems, fmt.Sprintf("%s %s does not run, and passed before", test.Package, test.Name))
		}
	}
	slices.Sort(c.Problems)
	return c
}
