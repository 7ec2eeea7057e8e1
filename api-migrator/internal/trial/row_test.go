// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func example() *Row {
	return &Row{
		Project: "example.com/p", Version: "v1.2.3", Origin: "kubebuilder v3, client-gen", Layout: "api/VERSION",
		Packages: 20, Affected: 8, Move: "Widget example.com/v1 → v2",
		Plan:        Usage{CPU: 12300 * time.Millisecond, Wall: 31 * time.Second, PeakBytes: 310 << 20},
		Apply:       Usage{CPU: 9960 * time.Millisecond, Wall: 11 * time.Second, PeakBytes: 1 << 30},
		TestsBefore: 40, TestsAfter: 39, NeedCluster: 2, Findings: 5,
		Problems: []string{"p TestA fails, and passed before"}, ByHand: "make generate",
	}
}

func TestARowSaysWhatCameOut(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Row)
		want   string
	}{
		"a problem": {func(*Row) {},
			"| [example.com/p](https://pkg.go.dev/example.com/p@v1.2.3) v1.2.3 | kubebuilder v3, client-gen, api/VERSION " +
				"| 20 (8) | Widget example.com/v1 → v2 | 12 s, 31 s, 310 MiB | 10.0 s, 11 s, 1024 MiB " +
				"| 40 → 39; 2 packages need a cluster | 5 | 1: p TestA fails, and passed before | make generate |\n"},
		"no problem": {func(r *Row) { r.Problems, r.TestsAfter, r.NeedCluster = nil, 40, 0 },
			"| [example.com/p](https://pkg.go.dev/example.com/p@v1.2.3) v1.2.3 | kubebuilder v3, client-gen, api/VERSION " +
				"| 20 (8) | Widget example.com/v1 → v2 | 12 s, 31 s, 310 MiB | 10.0 s, 11 s, 1024 MiB " +
				"| 40 → 40 | 5 | none | make generate |\n"},
		"a folder, and a plan with blockers that have a bar and a line break": {
			func(r *Row) {
				r.Version, r.Apply, r.Blockers, r.Problems = "", Usage{}, 2, []string{"blocker: a|b\nc", "blocker: d"}
			},
			"| example.com/p | kubebuilder v3, client-gen, api/VERSION | 20 (8) | Widget example.com/v1 → v2 " +
				"| 12 s, 31 s, 310 MiB | – | refused | 5 | 2: blocker: a\\|b c | make generate |\n"},
	} {
		t.Run(name, func(t *testing.T) {
			row := example()
			test.change(row)
			if diff := cmp.Diff(test.want, row.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARowReplacesItsPredecessorAndIsSortedIn(t *testing.T) {
	document := "# Title\n\n" + begin + "\n" + end + "\n\nAfter.\n"
	a, b, again := example(), example(), example()
	a.Project, again.Version, again.Findings = "example.com/a", "v2.0.0", 7
	for _, row := range []*Row{b, a, again} {
		var err error
		if document, err = Insert(document, row); err != nil {
			t.Fatal(err)
		}
	}
	want := "# Title\n\n" + begin + "\n" + Header + a.String() + again.String() + end + "\n\nAfter.\n"
	if diff := cmp.Diff(want, document); diff != "" {
		t.Error(diff)
	}
	other := example()
	other.Move = "Gadget example.com/v1 → v2"
	document, err := Insert(document, other)
	if err != nil || strings.Count(document, "example.com/p@") != 2 {
		t.Errorf("another move of the same project has a row of its own: %v\n%s", err, document)
	}
}

func TestADocumentWithoutTheMarkersIsRefused(t *testing.T) {
	for _, document := range []string{"", begin + "\n", end + "\n" + begin} {
		if _, err := Insert(document, example()); err == nil {
			t.Errorf("%q is accepted", document)
		}
	}
}

func TestTheOriginIsReadFromTheFilesOfTheScaffold(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"kubebuilder since version 3": {
			map[string]string{"PROJECT": "domain: x\nlayout:\n- go.kubebuilder.io/v4\nversion: \"3\"\n"}, "kubebuilder v4"},
		"kubebuilder 3's first form": {
			map[string]string{"PROJECT": "layout: go.kubebuilder.io/v3\nversion: \"3\"\n"}, "kubebuilder v3"},
		"kubebuilder 2": {map[string]string{"PROJECT": "domain: x\nversion: \"2\"\n"}, "kubebuilder v2"},
		"operator-sdk": {
			map[string]string{"go.mod": "require (\n\tgithub.com/operator-framework/operator-sdk v0.18.2\n)\n"},
			"operator-sdk v0.18"},
		"generated clients alone": {
			map[string]string{"go.mod": "module x\n", "pkg/clientset/versioned/clientset.go": ""}, "no scaffold, client-gen"},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			for path := range test.files {
				paths = append(paths, path)
			}
			if got := origin(paths, func(path string) string { return test.files[path] }); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
