// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"encoding/json"
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

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// How a test binary is told to be the process that dies: its folder, before which change, and whether it commits.
const (
	dieIn      = "API_MIGRATOR_TEST_DIE_IN"
	dieBefore  = "API_MIGRATOR_TEST_DIE_BEFORE"
	dieCommits = "API_MIGRATOR_TEST_DIE_COMMITS"
)

// small is an outcome with each kind of edit, in two steps, and the tree before and after.
func small(t *testing.T, root string) (o *Outcome, before, after map[string]string) {
	t.Helper()
	before = map[string]string{"a.go": "old a", "gone.go": "old gone", "kept.go": "kept", "w.yaml": "old w"}
	after = map[string]string{"a.go": "new a", "kept.go": "kept", "new/deep/b.go": "new b",
		"same.go": "new a", "w.yaml": "new w"}
	o = &Outcome{
		Root: root, Plan: &Plan{Format: Format}, Before: map[string][]byte{}, After: map[string][]byte{},
		steps: map[string]stepKind{"w.yaml": stepManifests, "new/deep/b.go": stepNew},
	}
	for _, file := range []string{"a.go", "gone.go", "new/deep/b.go", "same.go", "w.yaml"} {
		o.Plan.Edits = append(o.Plan.Edits, Edit{File: file})
		if content, ok := before[file]; ok {
			o.Before[file] = []byte(content)
		}
		if content, ok := after[file]; ok {
			o.After[file] = []byte(content)
		}
	}
	return o, before, after
}

// The process that dies. Run as a test of its own it has nothing to do.
func TestAProcessThatDies(t *testing.T) {
	root := os.Getenv(dieIn)
	if root == "" {
		return
	}
	left, err := strconv.Atoi(os.Getenv(dieBefore))
	if err != nil {
		t.Fatal(err)
	}
	o, _, _ := small(t, root)
	err = o.write(t.Context(), os.Getenv(dieCommits) != "", func() {
		if left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		left--
	})
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
		o, before, after := small(t, root)
		write(t, root, before)
		killed = dies(t, root, n, "")
		now := withoutStaging(filesOf(t, root))
		problem := CheckFinished(root)
		switch {
		case problem != nil:
			begun++
			wantProblem(t, problem, "an apply ended before it was done")
		case cmp.Equal(now, before):
			untouched++
		case cmp.Equal(now, after):
			finished++
		default:
			t.Errorf("killed before change %d: a mixed tree that no journal tells of: %v", n, now)
		}
		if err := applyAgain(t, o, false); err != nil {
			t.Fatalf("killed before change %d: %v", n, err)
		}
		if diff := cmp.Diff(after, withoutStaging(filesOf(t, root))); diff != "" {
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
		o, before, after := small(t, root)
		write(t, root, before)
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
		write(t, root, map[string]string{"w.yaml": before["w.yaml"]})
		if cmp.Equal(withoutStaging(filesOf(t, root)), before) {
			back++
		}
		if !killed {
			checkModes(t, root, modes)
		}
		if err := applyAgain(t, o, false); err != nil {
			t.Fatalf("killed before change %d: %v", n, err)
		}
		if diff := cmp.Diff(after, withoutStaging(filesOf(t, root))); diff != "" {
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

// applyAgain does what a second apply does, but for making the plan again.
func applyAgain(t *testing.T, o *Outcome, commits bool) error {
	t.Helper()
	begun, err := left(o.Root)
	if err != nil {
		return err
	}
	if begun != nil {
		return begun.resume(t.Context(), o.Plan, false) // the journal says whether to commit
	}
	if content, err := tree.ReadIfThere(o.Root, "a.go"); err != nil || bytes.Equal(content, o.After["a.go"]) {
		return err
	}
	return o.write(t.Context(), commits, nil)
}

func withoutStaging(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, stagingFolder+"/") })
	return files
}

func TestWhatSomebodyChangedMeanwhileIsNotOverwritten(t *testing.T) {
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
			o, before, _ := small(t, root)
			write(t, root, before)
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
			write(t, root, change)
			now := filesOf(t, root)
			wantProblem(t, applyAgain(t, o, false), "was changed while it was waiting")
			if diff := cmp.Diff(now, filesOf(t, root)); diff != "" {
				t.Errorf("a refused apply changed the tree:\n%s", diff)
			}
		})
	}
}

func TestTheFolderOfSomebodyElseIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"without a mark":     {stagingFolder + "/notes": "mine"},
		"with an empty mark": {stagingFolder + "/notes": "mine", stagingFolder + "/.gitignore": ""},
		"with half a mark":   {stagingFolder + "/notes": "mine", stagingFolder + "/.gitignore": "# "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			o, before, _ := small(t, root)
			write(t, root, before)
			write(t, root, files)
			want := filesOf(t, root)
			wantProblem(t, o.write(t.Context(), false, nil), "it is in the way")
			if diff := cmp.Diff(want, filesOf(t, root)); diff != "" {
				t.Errorf("the tree has changed:\n%s", diff)
			}
		})
	}
}

func TestAStagedContentThatSomebodyChangedIsNotPutInPlace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	o, before, _ := small(t, root)
	write(t, root, before)
	s, err := o.stage(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	steps := s.journal.Steps
	last := steps[len(steps)-1].Edits
	write(t, root, map[string]string{stagingFolder + "/" + last[len(last)-1].Staged: "new"})
	want := filesOf(t, root)
	wantProblem(t, applyAgain(t, o, false), "is not the content that w.yaml was to get")
	if diff := cmp.Diff(want, filesOf(t, root)); diff != "" {
		t.Errorf("a refused apply changed the tree:\n%s", diff)
	}
}

func TestFilesThatGitDoesNotKnowAreNotOverwritten(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	run(t, root, "git", "init", "-q")
	write(t, root, map[string]string{"known.go": "", "unknown.go": "", "api/" + deepcopyFile: ""})
	run(t, root, "git", "add", "known.go")
	run(t, root, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "before")
	plan := &Plan{Edits: []Edit{{File: "known.go", Before: "1"}, {File: "new.go"},
		{File: "api/" + deepcopyFile, Before: "1"}}}
	if err := checkClean(t.Context(), root, plan); err != nil {
		t.Error(err)
	}
	plan.Edits = append(plan.Edits, Edit{File: "unknown.go", Before: "1"})
	wantProblem(t, checkClean(t.Context(), root, plan), "git does not know unknown.go")
}

func TestWhatGitSaysOfATreeIsSaid(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	wantProblem(t, checkClean(t.Context(), root, &Plan{}), "is not in a git repository")
	if err := os.WriteFile(filepath.Join(root, ".git"), []byte("no repository"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, checkClean(t.Context(), root, &Plan{}), "invalid gitfile format")
}

func TestCommandsWithPathsCanBeCopied(t *testing.T) {
	t.Parallel()
	s := &staging{root: "/a b/it's"}
	if got, want := s.again(), `api-migrator apply -C '/a b/it'\''s' '/a b/it'\''s/.api-migrator/plan.yaml'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := inFolder("make -C %s generate", "", "a b"), "make -C 'a b' generate"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnotherPlanDoesNotFinishAnApply(t *testing.T) {
	t.Parallel()
	o, _, _ := small(t, t.TempDir())
	s, err := o.stage(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.resume(t.Context(), &Plan{Format: Format, Tree: "another"}, false), "another plan")
}

func TestAnApplyInCommitsThatIsKilledAnywhereGoesOn(t *testing.T) {
	t.Parallel()
	want := []string{
		"Share code with: M a.go D gone.go A same.go",
		"Add  in: A new/deep/b.go",
		"Define  in: M w.yaml",
	}
	// Before the journal is there, it is the same as without commits.
	for n, killed := 8, true; killed; n++ {
		root := t.TempDir()
		o, before, after := small(t, root)
		write(t, root, before)
		run(t, root, "git", "init", "-q")
		run(t, root, "git", "config", "user.name", "t")
		run(t, root, "git", "config", "user.email", "t@example.com")
		commit(t, root, "before")
		killed = dies(t, root, n, "yes")
		if err := applyAgain(t, o, true); err != nil {
			t.Fatalf("killed before change %d: %v", n, err)
		}
		if diff := cmp.Diff(after, withoutStaging(filesOf(t, root))); diff != "" {
			t.Errorf("killed before change %d, and applied again (-want +got):\n%s", n, diff)
		}
		if diff := cmp.Diff(want, commits(t, root)); diff != "" {
			t.Fatalf("killed before change %d: commits (-want +got):\n%s", n, diff)
		}
		if out := run(t, root, "git", "status", "--porcelain"); len(out) > 0 {
			t.Errorf("killed before change %d: not committed: %s", n, out)
		}
	}
}

// commits lists all commits but the first: subject and files.
func commits(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	for hash := range strings.FieldsSeq(string(run(t, root, "git", "rev-list", "--reverse", "HEAD"))) {
		subject := strings.TrimSpace(string(run(t, root, "git", "show", "-s", "--format=%s", hash)))
		if subject == "before" {
			continue
		}
		files := strings.Join(strings.Fields(string(run(t, root, "git", "show", "--format=", "--name-status",
			"--no-renames", hash))), " ")
		list = append(list, subject+": "+files)
	}
	return list
}

func TestEveryCommitOfAMigrationCompiles(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	run(t, dir, "git", "config", "user.name", "An Author")
	run(t, dir, "git", "config", "user.email", "author@example.com")
	plan := planned(t, dir, memcachedRequest)
	appendTo(t, filepath.Join(dir, "PROJECT"), "\n")
	_, err := ApplyInCommits(t.Context(), dir, plan)
	wantProblem(t, err, "uncommitted changes: PROJECT")
	run(t, dir, "git", "checkout", "-q", "PROJECT")
	if done, err := ApplyInCommits(t.Context(), dir, plan); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	if out := run(t, dir, "git", "status", "--porcelain", "--ignored"); len(out) > 0 {
		t.Errorf("left behind: %s", out)
	}
	if out := string(run(t, dir, "git", "log", "-1", "--format=%an <%ae>")); out != "An Author <author@example.com>\n" {
		t.Errorf("the author is %s", out)
	}
	subjects := compiling(t, dir, dir, filepath.Join(dir, "api"))
	want := []string{
		"before", "an API of its own",
		"Share code with cache.example.com/v1beta2",
		"Add Memcached in cache.example.com/v1beta2",
		"Deprecate Memcached in cache.example.com/v1",
		"Use Memcached of cache.example.com/v1beta2",
		"Define Memcached in cache.example.com/v1beta2",
		"List Memcached in cache.example.com/v1beta2",
	}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
}

// compiling checks that every commit compiles, and returns the subjects.
func compiling(t *testing.T, dir string, modules ...string) []string {
	t.Helper()
	var subjects []string
	for hash := range strings.FieldsSeq(string(run(t, dir, "git", "rev-list", "--reverse", "HEAD"))) {
		run(t, dir, "git", "checkout", "-q", hash)
		for _, module := range modules {
			if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
				run(t, module, "go", "vet", "./...")
			}
		}
		subjects = append(subjects, strings.TrimSpace(string(run(t, dir, "git", "show", "-s", "--format=%s", hash))))
	}
	return subjects
}

func TestUsersOfNamesThatGoAreInTheSameCommit(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "kubebuilder")
	run(t, dir, "git", "config", "user.name", "t")
	run(t, dir, "git", "config", "user.email", "t@example.com")
	const embeds = "package config\n\nimport _ \"embed\"\n\n//go:embed crd/bases/old_v1_crd.yaml\nvar crd " +
		"[]byte\n\nvar _ = crd\n"
	run(t, dir, "git", "mv", "config/crd/bases/cache.example.com_memcacheds.yaml", "config/crd/bases/old_v1_crd.yaml")
	write(t, dir, map[string]string{"config/crd.go": embeds})
	commit(t, dir, "embedded")
	request := memcachedRequest
	request.Old, request.CRDName = OldRemove, "canonical"
	if done, err := ApplyInCommits(t.Context(), dir, planned(t, dir, request)); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	want := []string{
		"before", "embedded", "Share code with cache.example.com/v1beta2", "Add Memcached in cache.example.com/v1beta2",
		"Define Memcached in cache.example.com/v1beta2", "List Memcached in cache.example.com/v1beta2",
	}
	if diff := cmp.Diff(want, compiling(t, dir, dir)); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if content := filesOf(t, dir)["config/crd.go"]; !strings.Contains(content, "cache.example.com_memcacheds.yaml") {
		t.Errorf("the name of the manifest is the old one:\n%s", content)
	}
}

// hostile is a tree with a plan and the folder of an apply that this user did not start: its journal replaces files of
// the user.
func hostile(t *testing.T) (root, profile string, plan *Plan) {
	t.Helper()
	home := t.TempDir()
	root, profile = filepath.Join(home, "src", "project"), filepath.Join(home, ".profile")
	write(t, home, map[string]string{".profile": "mine", "src/project/go.mod": "module example.com/x\n"})
	if err := os.MkdirAll(filepath.Join(root, ".git", "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	plan = &Plan{Format: Format, Edits: []Edit{{File: "go.mod"}}}
	encoded, err := plan.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const payload = "#!/bin/sh\n"
	j := journal{Plan: hash(encoded), Steps: []stagedStep{{Message: "Innocent", Edits: []stagedEdit{
		{File: "../../.profile", Before: hash([]byte("mine")), After: hash([]byte(payload)), Staged: "1"},
		{File: ".git/hooks/post-checkout", After: hash([]byte(payload)), Staged: "2"},
	}}}}
	written, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, stagingFolder),
		map[string]string{".gitignore": stagedMark, stagedJournal: string(written), "1": payload, "2": payload})
	return root, profile, plan
}

func TestAJournalThatCameWithTheRepositoryIsNotFollowed(t *testing.T) {
	t.Parallel()
	root, profile, plan := hostile(t)
	before := filesOf(t, root)
	_, err := Apply(t.Context(), root, plan, true)
	wantProblem(t, err, "was not written by an apply of yours")
	wantProblem(t, CheckFinished(root), "was not written by an apply of yours")
	if content, err := os.ReadFile(profile); err != nil || string(content) != "mine" {
		t.Errorf("the file outside of the tree is %q (%v)", content, err)
	}
	if diff := cmp.Diff(before, filesOf(t, root)); diff != "" {
		t.Errorf("the tree was changed (-before +after):\n%s", diff)
	}
}

// Even a journal that is noted as ours, and a plan, lead nowhere but into the tree.
func TestNothingIsReplacedOutsideOfTheTreeNorInGit(t *testing.T) {
	t.Parallel()
	root, profile, plan := hostile(t)
	written, err := os.ReadFile(filepath.Join(root, stagingFolder, stagedJournal))
	if err != nil {
		t.Fatal(err)
	}
	s := &staging{root: root}
	if err := s.note(written); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.forget(); err != nil {
			t.Error(err)
		}
	})
	_, err = Apply(t.Context(), root, plan, true)
	wantProblem(t, err, "is not a path within")

	if err := os.RemoveAll(filepath.Join(root, stagingFolder)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../.profile", ".git/hooks/post-checkout"} {
		_, err = Apply(t.Context(), root, &Plan{Format: Format, Edits: []Edit{{File: file}}}, true)
		if err == nil {
			t.Errorf("a plan with %s was applied", file)
		}
		o := &Outcome{Root: root, Plan: &Plan{Format: Format, Edits: []Edit{{File: file}}},
			After: map[string][]byte{file: []byte("theirs")}}
		if err := o.write(t.Context(), false, nil); err == nil {
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

// Someone who may write in the tree can put a link into the way after it was looked at: nothing is written through it
// either.
func TestALinkThatIsPutInTheWayBetweenACheckAndAWriteIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"new", "new/deep", stagingFolder} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			root, outside := t.TempDir(), t.TempDir()
			o, before, _ := small(t, root)
			write(t, root, before)
			write(t, outside, map[string]string{"deep/mine": "mine", ".gitignore": stagedMark})
			swapped := false
			err := o.write(t.Context(), false, func() {
				at := filepath.Join(root, folder)
				if info, err := os.Lstat(at); err != nil || !info.IsDir() || swapped {
					return
				}
				swapped = true
				if err := errors.Join(os.Rename(at, at+".aside"), os.Symlink(outside, at)); err != nil {
					t.Error(err)
				}
			})
			if err == nil || !swapped {
				t.Errorf("error %v, swapped: %t", err, swapped)
			}
			if diff := cmp.Diff(map[string]string{"deep/mine": "mine", ".gitignore": stagedMark},
				filesOf(t, outside)); diff != "" {
				t.Errorf("the folder that the link leads to was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAFolderOfAnApplyThatIsALinkIsNotFollowed(t *testing.T) {
	t.Parallel()
	root, victim := t.TempDir(), t.TempDir()
	write(t, root, map[string]string{"go.mod": "module example.com/x\n"})
	write(t, victim, map[string]string{".gitignore": stagedMark, "precious": "mine"})
	if err := os.Symlink(victim, filepath.Join(root, stagingFolder)); err != nil {
		t.Fatal(err)
	}
	_, err := Apply(t.Context(), root, &Plan{Format: Format, Edits: []Edit{{File: "x.go"}}}, true)
	wantProblem(t, err, "symbolic link")
	if _, err := os.Stat(filepath.Join(victim, "precious")); err != nil {
		t.Error("a file in the folder that the link leads to was removed")
	}
}

func TestAPlanIsNotMadeWhereAnApplyIsHalfDone(t *testing.T) {
	t.Parallel()
	o, before, _ := small(t, t.TempDir())
	write(t, o.Root, before)
	write(t, o.Root, map[string]string{"go.mod": "module example.com/x\n"})
	if _, err := o.stage(false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := Make(t.Context(), o.Root, memcachedRequest)
	wantProblem(t, err, "an apply ended before it was done: 0 of 5 files")
	if problem := (*hint.Error)(nil); !errors.As(err, &problem) ||
		!strings.Contains(problem.Try, "apply -C "+o.Root) {
		t.Errorf("the hint is no command that goes on: %v", err)
	}
}
