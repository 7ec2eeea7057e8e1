// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
)

func TestFilesThatNoOneHasCheckedAreListed(t *testing.T) {
	t.Parallel()
	p := &Project{Root: "/x"}
	err := p.takePackage(&packages.Package{
		GoFiles:         []string{"/x/a.go", "/x/cgo.go", "/cache/gen.go"},
		CompiledGoFiles: []string{"/cache/_cgo_gotypes.go", "/x/a.go"},
		IgnoredFiles:    []string{"/x/windows.go", "/x/windows.s"},
	}, map[string]*Package{}, map[string]bool{})
	if diff := cmp.Diff([]string{"windows.go", "cgo.go"}, p.Ignored); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestWordsOfCommandsAreQuotedWhereAShellNeedsIt(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"a/b-1.go": "a/b-1.go", "": "''", "a b": "'a b'",
		"it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := hint.Quote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}
