// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

func TestAnApplyThatFailsHalfWayLeavesTheTreeAsItWas(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{"a.go": "before", "gone.go": "still here", "z.go/kept": "in the way"} {
		if err := tree.Put(root, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	before := filesOf(t, root)
	outcome := &Outcome{
		Root:   root,
		Plan:   &Plan{Edits: []Edit{{File: "a.go"}, {File: "gone.go"}, {File: "new/b.go"}, {File: "z.go"}}},
		Before: map[string][]byte{"a.go": []byte("before"), "gone.go": []byte("still here")},
		After: map[string][]byte{"a.go": []byte("after"), "new/b.go": []byte("new"),
			"z.go": []byte("a folder is in the way")},
	}
	if err := outcome.write(t.Context(), false, nil); err == nil {
		t.Fatal("want an error: a folder stands where a file goes")
	}
	if diff := cmp.Diff(before, filesOf(t, root)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(root, "new")); !os.IsNotExist(err) {
		t.Error("a folder is left that was not there before")
	}
}

func TestImportsAreAddedBesideTheirLikeAndDroppedWhenUnused(t *testing.T) {
	add := []imported{{"example.com/p/apis/shared", "shared"}, {"example.com/p/apis/v2", "apisv2"}}
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
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fixImports([]byte(test.before), add, removable)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = tidy(nil, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
