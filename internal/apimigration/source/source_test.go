// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestImportsAreAddedNextToTheirLikeAndDroppedWhenUnused(t *testing.T) {
	add := []Import{{"example.com/p/apis/shared", "shared"}, {"example.com/p/apis/v2", "apisv2"}}
	removable := map[string]string{"example.com/p/apis/v1": "apisv1", "fmt": "fmt"}
	for name, test := range map[string]struct{ before, want string }{
		"into a group, where a comment outlives its import": {
			"package p\n\nimport (\n\t\"fmt\"\n\n\tapisv1 \"example.com/p/apis/v1\" // the " +
				"API\n\t\"example.org/q\"\n)\n\nvar _ = q.X\n",
			"package p\n\nimport (\n\t\"example.com/p/apis/shared\"\n\tapisv2 \"example.com/p/apis/v2\"\n\t// the " +
				"API\n\t\"example.org/q\"\n)\n\nvar _ = q.X\n",
		},
		"into a file without imports": {
			"package p\n\nvar x = 1\n",
			"package p\n\nimport (\n\t\"example.com/p/apis/shared\"\n\tapisv2 \"example.com/p/apis/v2\"\n)\n\nvar x = 1\n",
		},
		"one that is still used stays": {
			"package p\n\nimport \"fmt\"\n\nvar _ = fmt.Sprint\n",
			"package p\n\nimport \"fmt\"\nimport \"example.com/p/apis/shared\"\nimport apisv2 " +
				"\"example.com/p/apis/v2\"\n\nvar _ = fmt.Sprint\n",
		},
		"one with a dot stays": {
			"package p\n\nimport . \"fmt\"\n\nvar _ = Sprint\n",
			"package p\n\nimport . \"fmt\"\nimport \"example.com/p/apis/shared\"\nimport apisv2 " +
				"\"example.com/p/apis/v2\"\n\nvar _ = Sprint\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FixImports([]byte(test.before), add, removable)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = Format(nil, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
