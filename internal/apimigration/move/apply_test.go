// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/fixture"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

func TestAnApplyThatFailsHalfWayLeavesTheTreeAsItWas(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{"a.go": "before", "gone.go": "still here", "z.go/kept": "in the way"} {
		if err := tree.Put(root, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	before := fixture.Files(t, root)
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
	if diff := cmp.Diff(before, fixture.Files(t, root)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(root, "new")); !os.IsNotExist(err) {
		t.Error("a folder is left that was not there before")
	}
}
