// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
)

// stepKind says which step of a migration a file belongs to. After each step, in this order, the code compiles: the new
// version needs what is shared; the old one refers to both; and users of the new names mix values of both versions,
// which is possible as soon as the old version's shared types are the new ones.
type stepKind int

const (
	stepShared stepKind = iota
	stepNew
	stepOld
	stepImporters
	stepManifests
	stepRest
)

// step is a part of the edits that makes a commit.
type step struct {
	message string
	files   []string
}

// stepOf tells by the folder: generated code goes with its package, and each file has one content that it ends with.
func (s *surgery) stepOf(file string) stepKind {
	switch folder := path.Dir(file); {
	case folder == s.dirs[homeShared] || folder == s.dirs[homeInternal]:
		return stepShared
	case folder == s.dirs[homeOld]: // a kind that is renamed stays there, too
		return stepOld
	case folder == s.dirs[homeNew]:
		return stepNew
	case path.Ext(file) == ".go":
		return stepImporters
	case slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(file)):
		return stepManifests
	default:
		return stepRest
	}
}

// joinSteps makes one step of those that do not compile alone. Where old names go, their users change with them. Code
// that embeds a manifest by its name has to change with that name.
func (s *surgery) joinSteps(steps map[string]stepKind) {
	first := stepManifests
	for file, kind := range steps {
		if s.request.Old == OldRemove && kind == stepOld {
			steps[file] = stepImporters
		}
	}
	for file, kind := range steps {
		if s.files[file].withManifests && path.Ext(file) == ".go" {
			first = min(first, kind)
		}
	}
	for file, kind := range steps {
		if first <= kind && kind <= stepManifests {
			steps[file] = stepManifests
		}
	}
}

// inSteps orders the edits by steps.
func (o *Outcome) inSteps() []step {
	kinds := strings.Join(o.Plan.Request.Kinds, ", ")
	called := kinds // from now on
	if o.Plan.Request.ToKind != "" {
		called = o.Plan.Request.ToKind
	}
	from, to := o.Plan.Request.From, o.Plan.Request.To
	messages := map[stepKind]string{
		stepShared:    "Share code with " + to,
		stepNew:       "Add " + called + " in " + to,
		stepOld:       "Deprecate " + kinds + " in " + from,
		stepImporters: "Use " + called + " of " + to,
		stepManifests: "Define " + called + " in " + to,
		stepRest:      "List " + called + " in " + to,
	}
	var steps []step
	for kind := stepShared; kind <= stepRest; kind++ {
		one := step{message: messages[kind]}
		for _, edit := range o.Plan.Edits {
			if o.steps[edit.File] == kind {
				one.files = append(one.files, edit.File)
			}
		}
		if len(one.files) > 0 {
			steps = append(steps, one)
		}
	}
	return steps
}

// forwardInCommits puts the files of one step in place, commits them, and goes on with the next. What has been
// committed stays: after an error, or when the process dies, the next apply goes on. Which steps have been committed is
// read from git, not remembered.
func (s *staging) forwardInCommits(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.checkOthersClean(ctx); err != nil {
		return err
	}
	for _, step := range s.journal.Steps {
		for _, edit := range step.Edits {
			if _, err := s.place(edit); err != nil {
				return &hint.Error{Err: fmt.Errorf("replace %s: %w", edit.File, err), Try: s.again()}
			}
		}
		if err := s.commit(ctx, step); err != nil {
			return &hint.Error{Err: fmt.Errorf("commit %q: %w", step.Message, err), Try: s.again()}
		}
	}
	return s.end()
}

// commit commits the files of a step, unless that has been done. Files that git ignores stay out.
func (s *staging) commit(ctx context.Context, step stagedStep) error {
	var names bytes.Buffer
	for _, edit := range step.Edits {
		names.WriteString(edit.File + "\x00")
	}
	ignored, err := gitWith(ctx, s.root, &names, "check-ignore", "-z", "--stdin")
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return err
	}
	without := strings.Split(string(ignored), "\x00")
	var files []string
	for _, edit := range step.Edits {
		if !slices.Contains(without, edit.File) {
			files = append(files, edit.File)
		}
	}
	if len(files) == 0 {
		return nil
	}
	literally := func(args ...string) []string {
		return slices.Concat([]string{"--literal-pathspecs"}, args, []string{"--"}, files)
	}
	changed, err := git(ctx, s.root, literally("status", "--porcelain", "--untracked-files=all")...)
	if err != nil || len(changed) == 0 {
		return err
	}
	s.about()
	// Unlike add, this takes a removed file whose removal is in the index already.
	if _, err := gitWith(ctx, s.root, strings.NewReader(strings.Join(files, "\x00")), "update-index", "--add",
		"--remove", "-z", "--stdin"); err != nil {
		return err
	}
	s.about()
	_, err = git(ctx, s.root, literally("commit", "-q", "-m", step.Message)...)
	return err
}

// checkOthersClean refuses changes of files that the migration does not change.
func (s *staging) checkOthersClean(ctx context.Context) error {
	out, err := git(ctx, s.root, "diff", "--name-only", "--relative", "-z", "HEAD")
	if err != nil {
		return err
	}
	ours := map[string]bool{"": true}
	for _, step := range s.journal.Steps {
		for _, edit := range step.Edits {
			ours[edit.File] = true
		}
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if !ours[name] {
			return hint.Errorf("git stash push -- "+hint.Quote(name),
				"the tree has uncommitted changes: %s", name)
		}
	}
	return nil
}

// checkIdentity refuses to begin where git would not know the author.
func checkIdentity(ctx context.Context, root string) error {
	if _, err := git(ctx, root, "var", "GIT_COMMITTER_IDENT"); err != nil {
		return hint.Errorf("git config --global user.email you@example.com", "git does not know who commits")
	}
	return nil
}
