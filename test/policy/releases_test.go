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

// namesRelease finds minor releases of Kubernetes where a text names those that kube-migrator supports: a range from
// the oldest on, a constant, binaries in the Makefile.
var namesRelease = regexp.MustCompile("\\bv?1\\.\\d+`?,?\\s+to\\s+(?://\\s+)?`?(?:internal/testbed/programs/v)?1\\.(\\d+)\\b|" +
	`=\s*"v1\.([3-9]\d)(?:\.\d+)?"|(?m:^[A-Z]+_BINARIES := .*?\bv1\.([3-9]\d)\.\d+/)`)

// dated are pages about what was found or decided with the releases of their day, and those that are generated.
var dated = []string{"changelog/", "docs/adr/", "docs/api.md", "docs/benchmarks", "docs/cli/", "docs/releases.md",
	"docs/upstream/"}

func TestEveryPlaceThatNamesTheNewestReleaseIsOnTheListAndNamesIt(t *testing.T) {
	newest := 0
	for _, name := range files(t, ".mod") {
		if minor, ours := strings.CutPrefix(filepath.Dir(name), "internal/testbed/programs/v1."); ours {
			if n, err := strconv.Atoi(minor); err == nil {
				newest = max(newest, n)
			}
		}
	}
	_, list, found := strings.Cut(string(read(t, "docs/testbed.md")), "\n## Adding a release\n")
	if newest == 0 || !found {
		t.Fatalf("the newest release is 1.%d; docs/testbed.md lists its places: %t", newest, found)
	}
	var places, listed []string
	for _, name := range append(files(t, ".go", ".md"), "Makefile") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") ||
			slices.ContainsFunc(dated, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		named := 0
		for _, m := range namesRelease.FindAllStringSubmatch(string(read(t, name)), -1) {
			n, _ := strconv.Atoi(m[1] + m[2] + m[3]) // one of them matched, and the others are empty
			named = max(named, n)
		}
		if named == 0 {
			continue
		}
		places = append(places, name)
		if named != newest {
			t.Errorf("%s names Kubernetes 1.%d as the newest release, which is 1.%d", name, named, newest)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^ {3}- (`.*`):").FindAllStringSubmatch(list, -1) {
		listed = append(listed, strings.Split(strings.Trim(m[1], "`"), "`, `")...)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(listed)), slices.Sorted(slices.Values(places))); diff != "" {
		t.Errorf("places in docs/testbed.md and in the tree (-listed +found):\n%s", diff)
	}
}
