// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
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

func TestAPatchNamesBothSidesOfEachFile(t *testing.T) {
	t.Parallel()
	text := []byte("diff --git b/x b/x\n")
	outcome := &Outcome{
		Before: map[string][]byte{"changed.go": []byte("diff --git\n"), "gone a/b gone.go": text, "new é.go": nil, "b/new.go": nil},
		After:  map[string][]byte{"changed.go": text, "gone a/b gone.go": nil, "new é.go": text, "b/new.go": text},
	}
	patch, err := outcome.Patch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(patch)) {
		if strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "+diff ") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"diff --git a/b/new.go b/b/new.go", "+diff --git b/x b/x",
		"diff --git a/changed.go b/changed.go", "+diff --git b/x b/x",
		"diff --git a/gone a/b gone.go b/gone a/b gone.go",
		`diff --git "a/new \303\251.go" "b/new \303\251.go"`, "+diff --git b/x b/x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	dir := t.TempDir()
	for name, content := range outcome.Before {
		if content != nil {
			fixture.Write(t, dir, map[string]string{name: string(content)})
		}
	}
	fixture.Write(t, dir, map[string]string{"patch": string(patch)})
	fixture.Run(t, dir, "git", "init", "--quiet")
	fixture.Run(t, dir, "git", "apply", "patch")
	for name, content := range outcome.After {
		if content != nil && fixture.Read(t, dir, name) != string(content) {
			t.Errorf("%s: git apply makes %q, want %q", name, fixture.Read(t, dir, name), content)
		}
	}
}
