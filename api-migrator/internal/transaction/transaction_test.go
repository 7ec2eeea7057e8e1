// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// These variables make a test binary the process that dies: its folder, the change before which it dies, and whether it
// commits.
const (
	dieIn      = "API_MIGRATOR_TEST_DIE_IN"
	dieBefore  = "API_MIGRATOR_TEST_DIE_BEFORE"
	dieCommits = "API_MIGRATOR_TEST_DIE_COMMITS"
)

// small is a transaction with each kind of edit, in three steps, and the tree before and after.
func small() (steps []Step, before, after map[string]string) {
	before = map[string]string{"a.go": "old a", "gone.go": "old gone", "kept.go": "kept", "w.yaml": "old w"}
	after = map[string]string{"a.go": "new a", "kept.go": "kept", "new/deep/b.go": "new b",
		"same.go": "new a", "w.yaml": "new w"}
	step := func(message string, files ...string) {
		one := Step{Message: message}
		for _, file := range files {
			edit := Edit{File: file}
			if content, ok := before[file]; ok {
				edit.Before = []byte(content)
			}
			if content, ok := after[file]; ok {
				edit.After = []byte(content)
			}
			one.Edits = append(one.Edits, edit)
		}
		steps = append(steps, one)
	}
	step("Share code", "a.go", "gone.go", "same.go")
	step("Add b", "new/deep/b.go")
	step("Define w", "w.yaml")
	return steps, before, after
}

// document is the plan of small.
var document = []byte("plan")

// carryOut stages and runs a transaction.
func carryOut(ctx context.Context, root string, steps []Step, options Options) error {
	staged, err := Stage(root, document, steps, options)
	if err != nil {
		return err
	}
	return staged.Run(ctx)
}

// This is the process that dies. Without the variables the test does nothing.
func TestAProcessThatDies(t *testing.T) {
	root := os.Getenv(dieIn)
	if root == "" {
		return
	}
	left, err := strconv.Atoi(os.Getenv(dieBefore))
	if err != nil {
		t.Fatal(err)
	}
	steps, _, _ := small()
	err = carryOut(t.Context(), root, steps, Options{Commits: os.Getenv(dieCommits) != "", Hook: func() {
		if left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		left--
	}})
	info, statErr := os.Stat(filepath.Join(root, "w.yaml"))
	if obstacle := statErr == nil && info.IsDir(); (err != nil) != obstacle {
		t.Fatal(err)
	}
}

// dies runs the process in a folder, and reports whether it was killed before its n-th change.
func dies(t *testing.T, root string, n int, commits string) bool {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessThatDies$")
	command.Env = append(os.Environ(), dieIn+"="+root, dieBefore+"="+strconv.Itoa(n), dieCommits+"="+commits)
	out, err := command.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func TestAnApplyThatIsKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	untouched, begun, finished := 0, 0, 0
	for n, killed := 0, true; killed; n++ {
		root := t.TempDir()
		steps, before, after := small()
		fixture.Write(t, root, before)
		killed = dies(t, root, n, "")
		now := withoutStaging(fixture.Files(t, root))
		problem := CheckFinished(root)
		switch {
		case problem != nil:
			begun++
			fixture.WantProblem(t, problem, "an apply ended before it was done")
		case cmp.Equal(now, before):
			untouched++
		case cmp.Equal(now, after):
			finished++
		default:
			t.Errorf("killed before change %d: a mixed tree that no journal tells of: %v", n, now)
		}
		if err := applyAgain(t, root, steps, false); err != nil {
			t.Fatalf("killed before change %d: %v", n, err)
		}
		if diff := cmp.Diff(after, withoutStaging(fixture.Files(t, root))); diff != "" {
			t.Errorf("killed before change %d, and applied again (-want +got):\n%s", n, diff)
		}
	}
	if untouched < 5 || begun < 5 || finished < 3 {
		t.Errorf("%d times untouched, %d begun, %d finished: the test does not go everywhere",
			untouched, begun, finished)
	}
}

func TestAnApplyThatIsKilledOnItsWayBackIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	modes := map[string]os.FileMode{"a.go": 0o444, "gone.go": 0o755}
	back := 0
	for n, killed := 0, true; killed; n++ {
		root := t.TempDir()
		steps, before, after := small()
		fixture.Write(t, root, before)
		for name, mode := range modes {
			if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		// The last file cannot be put in place.
		obstacle := filepath.Join(root, "w.yaml")
		if err := errors.Join(os.Remove(obstacle), os.Mkdir(obstacle, 0o755)); err != nil {
			t.Fatal(err)
		}
		killed = dies(t, root, n, "")
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		fixture.Write(t, root, map[string]string{"w.yaml": before["w.yaml"]})
		if cmp.Equal(withoutStaging(fixture.Files(t, root)), before) {
			back++
		}
		if !killed {
			checkModes(t, root, modes)
		}
		if err := applyAgain(t, root, steps, false); err != nil {
			t.Fatalf("killed before change %d: %v", n, err)
		}
		if diff := cmp.Diff(after, withoutStaging(fixture.Files(t, root))); diff != "" {
			t.Errorf("killed before change %d, and applied again (-want +got):\n%s", n, diff)
		}
		checkModes(t, root, map[string]os.FileMode{"a.go": modes["a.go"]})
	}
	if back < 12 {
		t.Errorf("%d times all was as before: the test does not go all the way back", back)
	}
}

func checkModes(t *testing.T, root string, modes map[string]os.FileMode) {
	t.Helper()
	for name, want := range modes {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want the mode %v", name, info, err, want)
		}
	}
}

// applyAgain does what a second apply of the same plan does.
func applyAgain(t *testing.T, root string, steps []Step, commits bool) error {
	t.Helper()
	unfinished, err := Unfinished(root)
	if err != nil {
		return err
	}
	if unfinished != nil {
		return unfinished.Resume(t.Context(), document, false) // the journal says whether to commit
	}
	if content, err := tree.ReadIfThere(root, "a.go"); err != nil || string(content) == "new a" {
		return err
	}
	return carryOut(t.Context(), root, steps, Options{Commits: commits})
}

func withoutStaging(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, stagingFolder+"/") })
	return files
}

func TestAChangeMadeMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]string{
		"a file that waits to be changed":   {"w.yaml": "mine"},
		"a file that waits to be removed":   {"gone.go": "mine"},
		"a file that waits to be made":      {"same.go": "mine"},
		"a file that has been put in place": {"new/deep/b.go": "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			steps, before, _ := small()
			fixture.Write(t, root, before)
			for n := 0; ; n++ { // until something is in place
				if !dies(t, root, n, "") {
					t.Fatal("the process never died between two files")
				}
				if _, err := os.Stat(filepath.Join(root, "new/deep/b.go")); err == nil {
					break
				}
				if err := os.RemoveAll(filepath.Join(root, stagingFolder)); err != nil {
					t.Fatal(err)
				}
			}
			fixture.Write(t, root, change)
			now := fixture.Files(t, root)
			fixture.WantProblem(t, applyAgain(t, root, steps, false), "was changed while it was waiting")
			if diff := cmp.Diff(now, fixture.Files(t, root)); diff != "" {
				t.Errorf("a refused apply changed the tree:\n%s", diff)
			}
		})
	}
}

func TestTheFolderOfSomeoneElseIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"without a mark":     {stagingFolder + "/notes": "mine"},
		"with an empty mark": {stagingFolder + "/notes": "mine", stagingFolder + "/.gitignore": ""},
		"with half a mark":   {stagingFolder + "/notes": "mine", stagingFolder + "/.gitignore": "# "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			steps, before, _ := small()
			fixture.Write(t, root, before)
			fixture.Write(t, root, files)
			want := fixture.Files(t, root)
			fixture.WantProblem(t, carryOut(t.Context(), root, steps, Options{}), "it is in the way")
			if diff := cmp.Diff(want, fixture.Files(t, root)); diff != "" {
				t.Errorf("the tree has changed:\n%s", diff)
			}
		})
	}
}

func TestAStagedContentThatWasChangedIsNotPutInPlace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	steps, before, _ := small()
	fixture.Write(t, root, before)
	staged, err := Stage(root, document, steps, Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := staged.journal.Steps[2].Edits
	fixture.Write(t, root, map[string]string{stagingFolder + "/" + last[len(last)-1].Staged: "new"})
	want := fixture.Files(t, root)
	fixture.WantProblem(t, applyAgain(t, root, steps, false), "is not the content that w.yaml was to get")
	if diff := cmp.Diff(want, fixture.Files(t, root)); diff != "" {
		t.Errorf("a refused apply changed the tree:\n%s", diff)
	}
}

func TestAnotherPlanDoesNotFinishAnApply(t *testing.T) {
	t.Parallel()
	steps, _, _ := small()
	staged, err := Stage(t.TempDir(), document, steps, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fixture.WantProblem(t, staged.Resume(t.Context(), []byte("another"), false), "another plan")
}

func TestAnApplyInCommitsThatIsKilledAnywhereGoesOn(t *testing.T) {
	t.Parallel()
	want := []string{
		"Share code: M a.go D gone.go A same.go",
		"Add b: A new/deep/b.go",
		"Define w: M w.yaml",
	}
	// Before the journal exists, there is no difference to an apply without commits.
	for n, killed := 8, true; killed; n++ {
		root := t.TempDir()
		steps, before, after := small()
		fixture.Write(t, root, before)
		fixture.Run(t, root, "git", "init", "-q")
		fixture.Run(t, root, "git", "config", "user.name", "t")
		fixture.Run(t, root, "git", "config", "user.email", "t@example.com")
		fixture.Commit(t, root, "before")
		killed = dies(t, root, n, "yes")
		if err := applyAgain(t, root, steps, true); err != nil {
			t.Fatalf("killed before change %d: %v", n, err)
		}
		if diff := cmp.Diff(after, withoutStaging(fixture.Files(t, root))); diff != "" {
			t.Errorf("killed before change %d, and applied again (-want +got):\n%s", n, diff)
		}
		if diff := cmp.Diff(want, commits(t, root)); diff != "" {
			t.Fatalf("killed before change %d: commits (-want +got):\n%s", n, diff)
		}
		if out := fixture.Run(t, root, "git", "status", "--porcelain"); len(out) > 0 {
			t.Errorf("killed before change %d: not committed: %s", n, out)
		}
	}
}
