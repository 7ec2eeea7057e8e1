// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

func TestFilesThatGitDoesNotKnowAreNotOverwritten(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	run(t, root, "git", "init", "-q")
	write(t, root, map[string]string{"known.go": "", "unknown.go": "", "api/" + project.DeepCopyFile: ""})
	run(t, root, "git", "add", "known.go")
	run(t, root, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "before")
	plan := &Plan{Edits: []Edit{{File: "known.go", Before: "1"}, {File: "new.go"},
		{File: "api/" + project.DeepCopyFile, Before: "1"}}}
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
	asked := memcachedRequest
	asked.Old, asked.CRDName = request.OldRemove, "canonical"
	if done, err := ApplyInCommits(t.Context(), dir, planned(t, dir, asked)); err != nil || !done {
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

func TestAPlanIsNotMadeWhereAnApplyIsHalfDone(t *testing.T) {
	t.Parallel()
	o := &Outcome{Root: t.TempDir(), Plan: &Plan{Format: Format, Edits: []Edit{{File: "a.go"}, {File: "b.go"}}},
		After: map[string][]byte{"a.go": []byte("new a"), "b.go": []byte("new b")}}
	write(t, o.Root, map[string]string{"go.mod": "module example.com/x\n"})
	if _, err := o.stage(false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := Make(t.Context(), o.Root, memcachedRequest)
	wantProblem(t, err, "an apply ended before it was done: 0 of 2 files")
	if problem := (*hint.Error)(nil); !errors.As(err, &problem) ||
		!strings.Contains(problem.Try, "apply -C "+o.Root) {
		t.Errorf("the hint is no command that goes on: %v", err)
	}
}

func TestPlansThatLeadOutOfTheTreeAreNotApplied(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"go.mod": "module example.com/x\n"})
	for _, file := range []string{"../../.profile", ".git/hooks/post-checkout"} {
		plan := &Plan{Format: Format, Edits: []Edit{{File: file}}}
		if _, err := Apply(t.Context(), root, plan, true); err == nil {
			t.Errorf("a plan with %s was applied", file)
		}
		o := &Outcome{Root: root, Plan: plan, After: map[string][]byte{file: []byte("theirs")}}
		if err := o.write(t.Context(), false, nil); err == nil {
			t.Errorf("%s was written", file)
		}
	}
}
