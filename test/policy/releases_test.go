// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// namesRelease finds where a text names the newest minor release of Kubernetes that kube-migrator supports: the end of a
// range from the oldest on, or a constant.
var namesRelease = regexp.MustCompile("\\bv?1\\.\\d+`?,?\\s+to\\s+(?://\\s+)?`?(?:internal/testbed/programs/v)?1\\.(\\d+)\\b|" +
	`=\s*"v1\.([3-9]\d)"|\bNewest = V1([3-9]\d)\b`)

// dated are pages about what was found or decided with the releases of their day, and those that are generated.
var dated = []string{"changelog/", "docs/adr/", "docs/api.md", "docs/benchmarks", "docs/cli/", "docs/releases.md",
	"docs/upstream/"}

// minors returns the minor versions of the releases that the repository pins, the oldest first.
func minors(t *testing.T) (all []int) {
	t.Helper()
	for _, name := range files(t, ".mod") {
		if minor, ours := strings.CutPrefix(filepath.Dir(name), "internal/testbed/programs/v1."); ours {
			if n, err := strconv.Atoi(minor); err == nil {
				all = append(all, n)
			}
		}
	}
	if len(all) < 3 {
		t.Fatalf("the repository pins the releases %v", all)
	}
	slices.Sort(all)
	return all
}

func TestTheMakefileBuildsTheNewestReleaseTheOneBeforeAndTheOlderOnes(t *testing.T) {
	all := minors(t)
	older, before, newest := all[:len(all)-2], all[len(all)-2], all[len(all)-1]
	want := map[string][]int{
		"DEMO": {newest}, "TEST": {before}, "CHAOS": {before, newest}, "RELEASE": older, "NODE": {newest}, "BENCH": {newest},
	}
	names := map[string][]int{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]+)_BINARIES := (.*)$`).FindAllStringSubmatch(string(read(t,
		"Makefile")), -1) {
		for _, release := range regexp.MustCompile(`\bv1\.(\d+)\.`).FindAllStringSubmatch(m[2], -1) {
			n, _ := strconv.Atoi(release[1])
			names[m[1]] = append(names[m[1]], n)
		}
		slices.Sort(names[m[1]])
		names[m[1]] = slices.Compact(names[m[1]])
	}
	delete(names, "CHART") // it has programs of other projects
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("minor versions in the variables NAME_BINARIES of the Makefile (-want +got):\n%s", diff)
	}
}

func TestEveryPlaceThatNamesTheNewestReleaseIsOnTheListAndNamesIt(t *testing.T) {
	all := minors(t)
	newest := all[len(all)-1]
	_, list, found := strings.Cut(string(read(t, "docs/testbed.md")), "\n## Adding a release\n")
	if !found {
		t.Fatal("docs/testbed.md has no list of the places")
	}
	places, listed := []string{"Makefile"}, []string(nil) // the test above reads it
	for _, name := range files(t, ".go", ".md") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") ||
			slices.ContainsFunc(dated, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		matches := namesRelease.FindAllStringSubmatch(string(read(t, name)), -1)
		if len(matches) > 0 {
			places = append(places, name)
		}
		for _, m := range matches {
			// one of the three matched, and the others are empty
			if named := m[1] + m[2] + m[3]; named != strconv.Itoa(newest) {
				t.Errorf("%s names Kubernetes 1.%s as the newest release, which is 1.%d: %s", name, named, newest, m[0])
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^ {3}- (`.*`):").FindAllStringSubmatch(list, -1) {
		listed = append(listed, strings.Split(strings.Trim(m[1], "`"), "`, `")...)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(listed)), slices.Sorted(slices.Values(places))); diff != "" {
		t.Errorf("places in docs/testbed.md and in the tree (-listed +found):\n%s", diff)
	}
}
