// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

func TestLinesWithCRLFEndingsAreRemovedWhole(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ before, want string }{
		{"a\n\tgone\nb\n", "a\nb\n"}, {"a\r\n\tgone\r\nb\r\n", "a\r\nb\r\n"}, {"a\n\tgone", "a\n"},
		{"a gone\r\nb", "a\r\nb"},
	} {
		at := strings.Index(test.before, "gone")
		from, to := WholeLines([]byte(test.before), at, at+len("gone"))
		if got := test.before[:from] + test.before[to:]; got != test.want {
			t.Errorf("%q becomes %q, want %q", test.before, got, test.want)
		}
	}
	text := []byte("a\r\ngone\r\n\r\nb\r\n")
	if got := Replacement(text, Span{From: 3, To: 7}, ""); got.From != 3 || got.To != len("a\r\ngone\r\n\r\n") {
		t.Errorf("replaced: %+v", got)
	}
}

// Each archive in testdata/imports has a file before and after.
func TestImportsAreAddedNextToTheirLikeAndDroppedWhenUnused(t *testing.T) {
	t.Parallel()
	add := []Import{{"example.com/p/apis/shared", "shared"}, {"example.com/p/apis/v2", "apisv2"}}
	removable := map[string]string{"example.com/p/apis/v1": "apisv1", "fmt": "fmt"}
	archives, err := filepath.Glob(filepath.Join("testdata", "imports", "*.txtar"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			t.Parallel()
			files := fixture.Archive(t, archive)
			got, err := FixImports([]byte(files["before.go"]), add, removable)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = Format(nil, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(files["after.go"], string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
