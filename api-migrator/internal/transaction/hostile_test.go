// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// hostile returns a tree with the staging folder of an apply that this user did not start. Its journal replaces files
// of the user outside of the tree.
func hostile(t *testing.T) (root, profile string) {
	t.Helper()
	home := t.TempDir()
	root, profile = filepath.Join(home, "src", "project"), filepath.Join(home, ".profile")
	fixture.Write(t, home, map[string]string{".profile": "mine", "src/project/go.mod": "module example.com/x\n"})
	if err := os.MkdirAll(filepath.Join(root, ".git", "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	const payload = "#!/bin/sh\n"
	j := journal{Plan: Hash(document), Steps: []stagedStep{{Message: "Innocent", Edits: []stagedEdit{
		{File: "../../.profile", Before: Hash([]byte("mine")), After: Hash([]byte(payload)), Staged: "1"},
		{File: ".git/hooks/post-checkout", After: Hash([]byte(payload)), Staged: "2"},
	}}}}
	written, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	fixture.Write(t, filepath.Join(root, stagingFolder),
		map[string]string{".gitignore": stagedMark, stagedJournal: string(written), "1": payload, "2": payload})
	return root, profile
}

func TestAJournalThatCameWithTheRepositoryIsNotFollowed(t *testing.T) {
	t.Parallel()
	root, profile := hostile(t)
	before := fixture.Files(t, root)
	_, err := Unfinished(root)
	fixture.WantProblem(t, err, "was not written by an apply of yours")
	fixture.WantProblem(t, CheckFinished(root), "was not written by an apply of yours")
	if content, err := os.ReadFile(profile); err != nil || string(content) != "mine" {
		t.Errorf("the file outside of the tree is %q (%v)", content, err)
	}
	if diff := cmp.Diff(before, fixture.Files(t, root)); diff != "" {
		t.Errorf("the tree was changed (-before +after):\n%s", diff)
	}
}

// Not even a plan, or a journal that is noted as ours, leads out of the tree.
func TestNothingIsReplacedOutsideOfTheTreeNorInGit(t *testing.T) {
	t.Parallel()
	root, profile := hostile(t)
	written, err := os.ReadFile(filepath.Join(root, stagingFolder, stagedJournal))
	if err != nil {
		t.Fatal(err)
	}
	noted := &Transaction{root: root}
	if err := noted.note(written); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := noted.forget(); err != nil {
			t.Error(err)
		}
	})
	_, err = Unfinished(root)
	fixture.WantProblem(t, err, "is not a path within")

	if err := os.RemoveAll(filepath.Join(root, stagingFolder)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../.profile", ".git/hooks/post-checkout"} {
		steps := []Step{{Edits: []Edit{{File: file, After: []byte("theirs")}}}}
		if err := carryOut(t.Context(), root, steps, Options{}); err == nil {
			t.Errorf("%s was written", file)
		}
	}
	if content, err := os.ReadFile(profile); err != nil || string(content) != "mine" {
		t.Errorf("the file outside of the tree is %q (%v)", content, err)
	}
	if _, err := os.Stat(filepath.Join(root, ".git/hooks/post-checkout")); err == nil {
		t.Error("a hook was installed")
	}
}

// A process that may write in the tree can replace a folder by a link after the check. Nothing is written through the
// link either.
func TestALinkThatIsPutInTheWayBetweenACheckAndAWriteIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"new", "new/deep", stagingFolder} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			root, outside := t.TempDir(), t.TempDir()
			steps, before, _ := small()
			fixture.Write(t, root, before)
			fixture.Write(t, outside, map[string]string{"deep/mine": "mine", ".gitignore": stagedMark})
			swapped := false
			err := carryOut(t.Context(), root, steps, Options{Hook: func() {
				at := filepath.Join(root, folder)
				if info, err := os.Lstat(at); err != nil || !info.IsDir() || swapped {
					return
				}
				swapped = true
				if err := errors.Join(os.Rename(at, at+".aside"), os.Symlink(outside, at)); err != nil {
					t.Error(err)
				}
			}})
			if err == nil || !swapped {
				t.Errorf("error %v, swapped: %t", err, swapped)
			}
			if diff := cmp.Diff(map[string]string{"deep/mine": "mine", ".gitignore": stagedMark},
				fixture.Files(t, outside)); diff != "" {
				t.Errorf("the folder that the link leads to was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAFolderOfAnApplyThatIsALinkIsNotFollowed(t *testing.T) {
	t.Parallel()
	root, victim := t.TempDir(), t.TempDir()
	fixture.Write(t, root, map[string]string{"go.mod": "module example.com/x\n"})
	fixture.Write(t, victim, map[string]string{".gitignore": stagedMark, "precious": "mine"})
	if err := os.Symlink(victim, filepath.Join(root, stagingFolder)); err != nil {
		t.Fatal(err)
	}
	_, err := Unfinished(root)
	fixture.WantProblem(t, err, "symbolic link")
	if _, err := os.Stat(filepath.Join(victim, "precious")); err != nil {
		t.Error("a file in the folder that the link leads to was removed")
	}
}

func TestTheCommandThatResumesCanBeCopied(t *testing.T) {
	t.Parallel()
	unfinished := &Transaction{root: "/a b/it's"}
	want := `api-migrator apply -C '/a b/it'\''s' '/a b/it'\''s/.api-migrator/plan.yaml'`
	if got := unfinished.again(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
