// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// runInCommits puts the files of one step in place, commits them, and continues with the next step. Commits stay: after
// an error, or when the process dies, the next process continues. Git tells which steps have been committed.
func (t *Transaction) runInCommits(ctx context.Context) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := t.checkOthersClean(ctx); err != nil {
		return err
	}
	for _, step := range t.journal.Steps {
		for _, edit := range step.Edits {
			if _, err := t.putInPlace(edit); err != nil {
				return &hint.Error{Err: fmt.Errorf("replace %s: %w", edit.File, err), Try: t.again()}
			}
		}
		if err := t.commit(ctx, step); err != nil {
			return &hint.Error{Err: fmt.Errorf("commit %q: %w", step.Message, err), Try: t.again()}
		}
	}
	return t.end()
}

// commit commits the files of a step, unless that has been done. Files that git ignores stay out.
func (t *Transaction) commit(ctx context.Context, step stagedStep) error {
	var names bytes.Buffer
	for _, edit := range step.Edits {
		names.WriteString(edit.File + "\x00")
	}
	ignored, err := git.RunWith(ctx, t.root, &names, "check-ignore", "-z", "--stdin")
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
	changed, err := git.Run(ctx, t.root, literally("status", "--porcelain", "--untracked-files=all")...)
	if err != nil || len(changed) == 0 {
		return err
	}
	t.beforeChange()
	// Unlike add, this takes a removed file whose removal is in the index already.
	if _, err := git.RunWith(ctx, t.root, strings.NewReader(strings.Join(files, "\x00")), "update-index", "--add",
		"--remove", "-z", "--stdin"); err != nil {
		return err
	}
	t.beforeChange()
	_, err = git.Run(ctx, t.root, literally("commit", "-q", "-m", step.Message)...)
	return err
}

// checkOthersClean refuses uncommitted changes of files that the transaction does not change.
func (t *Transaction) checkOthersClean(ctx context.Context) error {
	changed, err := git.Changed(ctx, t.root)
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, step := range t.journal.Steps {
		for _, edit := range step.Edits {
			ours[edit.File] = true
		}
	}
	for _, name := range changed {
		if ours[name] {
			continue
		}
		content, err := tree.ReadIfThere(t.root, name)
		if err != nil {
			return err
		}
		if Hash(content) != t.journal.Plan { // the document itself may have changed
			return hint.Errorf("git stash push -- "+shell.Quote(name),
				"the tree has uncommitted changes: %s", name)
		}
	}
	return nil
}
