// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A journal that comes with a repository changes nothing and is not followed, whatever it says.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"plan":"a","steps":[{"message":"m","edits":[{"file":"../../.profile","before":"","after":"b","staged":"1"}]}]}`))
	f.Add([]byte(`{"steps":[{"edits":[{"file":".git/hooks/pre-commit"}]}]}`))
	f.Add([]byte(`{`))
	f.Add([]byte(``))
	root := f.TempDir()
	folder := filepath.Join(root, stagingFolder)
	if err := os.Mkdir(folder, 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(filepath.Join(folder, stagedJournal), content, 0o644); err != nil {
			t.Fatal(err)
		}
		unfinished, err := Unfinished(root)
		if err == nil || unfinished != nil || !strings.Contains(err.Error(), "was not written by an apply of yours") {
			t.Errorf("it is followed: %+v (%v)", unfinished, err)
		}
		if err := CheckFinished(root); err == nil {
			t.Error("the tree counts as finished")
		}
	})
}

// Of paths that a plan or a journal names, those that lead out of the tree or to git are refused.
func FuzzPath(f *testing.F) {
	for _, name := range []string{"api/v1/types.go", "../.profile", "/etc/passwd", ".git/hooks/pre-commit",
		"a/.GIT/config", "link/x", "...", `..\x`, "a//b", ".", ""} {
		f.Add(name)
	}
	outer := f.TempDir()
	root := filepath.Join(outer, "root")
	if err := os.MkdirAll(filepath.Join(root, "api"), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(root, "link")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckPaths(root, []string{name}) != nil {
			return
		}
		at := filepath.Join(root, filepath.FromSlash(name))
		if relative, err := filepath.Rel(root, at); err != nil || relative == "." || relative == ".." ||
			strings.HasPrefix(relative, "../") {
			t.Errorf("%q leads to %s", name, at)
		}
		for element := range strings.SplitSeq(name, "/") {
			if element == "link" && strings.HasPrefix(name, "link") || strings.EqualFold(element, ".git") {
				t.Errorf("%q is taken", name)
			}
		}
	})
}
