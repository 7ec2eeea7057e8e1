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

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestFilesThatGitDoesNotKnowAreNotOverwritten(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fixture.Run(t, root, "git", "init", "-q")
	fixture.Write(t, root, map[string]string{"known.go": "", "unknown.go": "", "api/" + project.DeepCopyFile: ""})
	fixture.Run(t, root, "git", "add", "known.go")
	fixture.Run(t, root, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "before")
	plan := &Plan{Edits: []Edit{{File: "known.go", Before: "1"}, {File: "new.go"},
		{File: "api/" + project.DeepCopyFile, Before: "1"}}}
	if err := checkClean(t.Context(), root, plan); err != nil {
		t.Error(err)
	}
	plan.Edits = append(plan.Edits, Edit{File: "unknown.go", Before: "1"})
	for ignored, want := range map[string]string{
		"":            "git add -- unknown.go",
		"unknown.*\n": "git add --force -- unknown.go",
	} {
		fixture.Write(t, root, map[string]string{".gitignore": ignored})
		err := checkClean(t.Context(), root, plan)
		fixture.WantProblem(t, err, "git does not know unknown.go")
		if problem := (*hint.Error)(nil); errors.As(err, &problem) {
			if problem.Try != want {
				t.Errorf("Try: %s, want %s", problem.Try, want)
			}
			if want == "git add --force -- unknown.go" { // git does what is proposed
				fixture.Run(t, root, "sh", "-c", problem.Try)
				fixture.Run(t, root, "git", "reset", "-q", "unknown.go")
			}
		}
	}
}

func TestWhatGitSaysOfATreeIsSaid(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fixture.WantProblem(t, checkClean(t.Context(), root, &Plan{}), "is not in a git repository")
	if err := os.WriteFile(filepath.Join(root, ".git"), []byte("no repository"), 0o600); err != nil {
		t.Fatal(err)
	}
	fixture.WantProblem(t, checkClean(t.Context(), root, &Plan{}), "invalid gitfile format")
}

// compiling checks that every commit of a migration compiles, and returns the subjects. Planning has compiled what was
// there before. A commit that changes nothing but PROJECT is compiled with the one before.
func compiling(t *testing.T, dir string, modules ...string) []string {
	t.Helper()
	var subjects []string
	commits := fixture.Run(t, dir, "git", "rev-list", "--reverse", beforeMigration+"..HEAD")
	for hash := range strings.FieldsSeq(commits) {
		subjects = append(subjects, strings.TrimSpace(fixture.Run(t, dir, "git", "show", "-s", "--format=%s", hash)))
		if fixture.Run(t, dir, "git", "show", "--format=", "--name-only", hash) == "PROJECT\n" {
			continue
		}
		fixture.Run(t, dir, "git", "checkout", "-q", hash)
		for _, module := range modules {
			fixture.Run(t, module, "go", "vet", "./...")
		}
	}
	return subjects
}

// beforeMigration is the tag of the last commit before a migration.
const beforeMigration = "before-migration"

func TestUsersOfNamesThatGoAreInTheSameCommit(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Run(t, dir, "git", "config", "user.name", "t")
	fixture.Run(t, dir, "git", "config", "user.email", "t@example.com")
	fixture.Run(t, dir, "git", "mv", "config/crd/bases/cache.example.com_memcacheds.yaml", "config/crd/bases/old_v1_crd.yaml")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/embedded-manifest.txtar"))
	fixture.Commit(t, dir, "embedded")
	asked := memcachedRequest
	asked.Old, asked.CRDName = request.OldRemove, "canonical"
	fixture.Run(t, dir, "git", "tag", beforeMigration)
	if err := made(t, dir, asked).write(t.Context(), true, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Share code with cache.example.com/v1beta2", "Add Memcached in cache.example.com/v1beta2",
		"Define Memcached in cache.example.com/v1beta2", "List Memcached in cache.example.com/v1beta2",
	}
	if diff := cmp.Diff(want, compiling(t, dir, dir)); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
	if content := fixture.Files(t, dir)["config/crd.go"]; !strings.Contains(content, "cache.example.com_memcacheds.yaml") {
		t.Errorf("the name of the manifest is the old one:\n%s", content)
	}
}

func TestAPlanIsNotMadeWhereAnApplyIsHalfDone(t *testing.T) {
	t.Parallel()
	o := &Outcome{Root: t.TempDir(), Plan: &Plan{Format: Format, Edits: []Edit{{File: "a.go"}, {File: "b.go"}}},
		After: map[string][]byte{"a.go": []byte("new a"), "b.go": []byte("new b")}}
	fixture.Write(t, o.Root, map[string]string{"go.mod": "module example.com/x\n"})
	if _, err := o.stage(false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := Make(t.Context(), o.Root, memcachedRequest)
	fixture.WantProblem(t, err, "an apply ended before it was done: 0 of 2 files")
	if problem := (*hint.Error)(nil); !errors.As(err, &problem) ||
		!strings.Contains(problem.Try, "apply -C "+o.Root) {
		t.Errorf("the hint is no command that goes on: %v", err)
	}
}

func TestPlansThatLeadOutOfTheTreeAreNotApplied(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fixture.Write(t, root, map[string]string{"go.mod": "module example.com/x\n"})
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
