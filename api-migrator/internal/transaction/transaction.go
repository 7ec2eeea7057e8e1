// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package transaction replaces the files of a tree: all of them, or after an error none; or in steps, each of which
// becomes a commit. If the process dies, the next one finishes the work. It knows nothing of what the files say.
//
// The transaction stages the new contents in a folder, stagingFolder, in the root of the tree, and puts them in place
// from there. What if the process dies?
//
//   - While the folder is filled, there is no journal yet. The tree is untouched, and the next transaction removes the
//     folder.
//   - A rename puts the journal into place, so it is complete or absent. From then on the next process continues,
//     whatever has been done. It compares contents: a file that has its new content is done, one that has its old
//     content is still to do, and any other was changed by someone else, so nothing more is done. A journal that no
//     process of this user has written is refused (note.go).
//   - Between two files, or while files are put back after an error, each file has its old or its new content, since a
//     rename puts it into place or one removal deletes it. Before a file is put back, its new content is in the folder
//     again. The next process continues forward.
//   - After the last file, the next process finds nothing to do. The journal is removed first, the rest of the folder
//     after it.
//
// The file system decides what has reached the disk: this is about processes, not about power cuts.
//
// Every change goes through os.Root (change), after checkPaths has looked: nothing is written outside of the tree,
// whatever links someone puts in the way.
package transaction

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// Step is a part of the edits. In a transaction with commits it becomes one, with its message.
type Step struct {
	Message string
	Edits   []Edit
}

// Edit replaces one file. A nil content stands for an absent file.
type Edit struct {
	File          string
	Before, After []byte
}

// Options say how a transaction is carried out.
type Options struct {
	// Commits makes a commit of each step.
	Commits bool
	// Hook is called before each change of the tree or of the folder; tests die there.
	Hook func()
}

// Transaction is one that has been staged.
type Transaction struct {
	root    string
	journal journal
	// the old contents, to put them back; nil in a transaction that another process has staged
	before map[string][]byte
	hook   func()
}

// journal is what a transaction is about to do, as hashes; the contents are in the same folder.
type journal struct {
	Plan    string       `json:"plan"` // the hash of the document that asks for the edits
	Commits bool         `json:"commits"`
	Steps   []stagedStep `json:"steps"`
}

type stagedStep struct {
	Message string       `json:"message"` // of its commit
	Edits   []stagedEdit `json:"edits"`
}

type stagedEdit struct {
	File   string `json:"file"`
	Before string `json:"before"` // the content's hash; empty without a file
	After  string `json:"after"`
	Staged string `json:"staged"` // the new content's name in the folder; empty without one
}

// Stage writes the folder, the journal last. The document, such as a plan, is what asks for the edits: only the same
// document resumes the transaction.
func Stage(root string, document []byte, steps []Step, options Options) (t *Transaction, err error) {
	t = &Transaction{root: root, hook: options.Hook, before: map[string][]byte{}}
	t.journal = journal{Plan: Hash(document), Commits: options.Commits}
	files := []stagedFile{{".gitignore", []byte(stagedMark)}, {stagedPlan, document}}
	for _, step := range steps {
		staged := stagedStep{Message: step.Message}
		for _, edit := range step.Edits {
			t.before[edit.File] = edit.Before
			one := stagedEdit{File: edit.File, Before: Hash(edit.Before), After: Hash(edit.After)}
			if edit.After != nil {
				one.Staged = strconv.Itoa(len(files) - 1)
				files = append(files, stagedFile{one.Staged, edit.After})
			}
			staged.Edits = append(staged.Edits, one)
		}
		t.journal.Steps = append(t.journal.Steps, staged)
	}
	if err := CheckPaths(t.root, t.journal.files()); err != nil {
		return nil, err
	}
	if err := t.clear(); err != nil {
		return nil, err
	}
	if err := t.change(func(root *os.Root) error { return root.Mkdir(stagingFolder, 0o755) }); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if err := t.fill(files); err != nil {
		return nil, errors.Join(err, t.clear())
	}
	return t, nil
}

// Unfinished returns the transaction that a process has not finished in a tree; nil without one.
func Unfinished(root string) (*Transaction, error) {
	t := &Transaction{root: root}
	if err := CheckPaths(root, []string{stagingFolder, path.Join(stagingFolder, stagedJournal)}); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(t.at(stagedJournal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if err := t.checkNoted(content); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &t.journal); err != nil {
		return nil, hint.Errorf("git status", "%s is not readable: %v", t.at(stagedJournal), err)
	}
	return t, CheckPaths(root, t.journal.files())
}

// CheckFinished refuses a tree with an unfinished transaction.
func CheckFinished(root string) error {
	t, err := Unfinished(root)
	if err != nil || t == nil {
		return err
	}
	done, all := 0, 0
	for _, step := range t.journal.Steps {
		for _, edit := range step.Edits {
			all++
			if content, err := tree.ReadIfThere(root, edit.File); err == nil && Hash(content) == edit.After {
				done++
			}
		}
	}
	return hint.Errorf(t.again(), "an apply ended before it was done: %d of %d files are in place", done, all)
}

// again is the command that resumes the transaction.
func (t *Transaction) again() string {
	return "api-migrator apply -C " + shell.Quote(t.root) + " " + shell.Quote(t.at(stagedPlan))
}

// check refuses to go on where someone else has changed a file, or one of the folder.
func (t *Transaction) check() error {
	for _, step := range t.journal.Steps {
		for _, edit := range step.Edits {
			done, err := t.isInPlace(edit)
			if err != nil {
				return err
			}
			if !done {
				if err := t.checkStaged(edit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkStaged refuses a new content that is not the journal't.
func (t *Transaction) checkStaged(edit stagedEdit) error {
	if edit.Staged == "" {
		return nil
	}
	content, err := tree.ReadIfThere(t.root, path.Join(stagingFolder, edit.Staged))
	if err != nil {
		return err
	}
	if Hash(content) != edit.After {
		return hint.Errorf("git status", "%s is not the content that %s was to get: put the files back as they "+
			"were, remove the folder %s, and apply the plan again",
			t.at(edit.Staged), edit.File, t.at(""))
	}
	return nil
}

// isInPlace reports whether a file has its new content. One that does not have its old content either is an error.
func (t *Transaction) isInPlace(edit stagedEdit) (bool, error) {
	content, err := tree.ReadIfThere(t.root, edit.File)
	if err != nil {
		return false, err
	}
	switch Hash(content) {
	case edit.After:
		return true, nil
	case edit.Before:
		return false, nil
	default:
		return false, hint.Errorf("git diff HEAD -- "+shell.Quote(t.target(edit)),
			"%s was changed while it was waiting to be changed: put it back as it was, or remove the folder %s and "+
				"the migration stays as it is", edit.File, t.at(""))
	}
}

// putInPlace gives one file its new content, keeping its mode. It lists the folders that it made, outermost first.
func (t *Transaction) putInPlace(edit stagedEdit) (made []string, err error) {
	if err := CheckPaths(t.root, []string{edit.File}); err != nil {
		return nil, err
	}
	if done, err := t.isInPlace(edit); err != nil || done {
		return nil, err
	}
	if err := t.checkStaged(edit); err != nil {
		return nil, err
	}
	target := filepath.FromSlash(edit.File)
	if edit.Staged == "" {
		return nil, t.remove(target)
	}
	err = t.change(func(root *os.Root) (err error) {
		if made, err = tree.MakeFolder(root, filepath.Dir(target)); err != nil {
			return err
		}
		if info, err := root.Stat(target); err == nil {
			return root.Chmod(staged(edit.Staged), info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		return made, err
	}
	return made, t.rename(staged(edit.Staged), target)
}

// Run carries the staged transaction out. Without commits, the files are put back after an error; with them, the
// commits that were made stay.
func (t *Transaction) Run(ctx context.Context) error {
	if t.journal.Commits {
		return t.runInCommits(ctx)
	}
	return t.forward()
}

// forward puts every file in place. After an error it puts the old contents back.
func (t *Transaction) forward() error {
	var tried []triedEdit
	var made []string
	for _, step := range t.journal.Steps {
		for _, edit := range step.Edits {
			one := triedEdit{stagedEdit: edit}
			if info, err := os.Stat(t.target(edit)); err == nil {
				one.mode = info.Mode().Perm()
			}
			tried = append(tried, one)
			folders, err := t.putInPlace(edit)
			made = append(made, folders...)
			if err == nil {
				continue
			}
			return t.back(fmt.Errorf("replace %s: %w", edit.File, err), tried, made)
		}
	}
	return t.end()
}

// Resume finishes a transaction that another process has staged, with commits if either process asks for them.
func (t *Transaction) Resume(ctx context.Context, document []byte, commits bool) error {
	if Hash(document) != t.journal.Plan {
		return hint.Errorf(t.again(), "an apply of another plan ended before it was done")
	}
	if commits || t.journal.Commits {
		return t.runInCommits(ctx)
	}
	if err := t.check(); err != nil {
		return err
	}
	for _, step := range t.journal.Steps {
		for _, edit := range step.Edits {
			if _, err := t.putInPlace(edit); err != nil {
				return &hint.Error{Err: fmt.Errorf("replace %s: %w", edit.File, err), Try: t.again()}
			}
		}
	}
	return t.end()
}

// triedEdit is an edit with the mode that its file had; 0 without a file.
type triedEdit struct {
	stagedEdit
	mode fs.FileMode
}

// back undoes what was tried, and says why. If not even that can be done, the journal stays.
func (t *Transaction) back(why error, tried []triedEdit, made []string) error {
	for _, edit := range tried {
		done, err := t.isInPlace(edit.stagedEdit)
		if err != nil || !done || edit.Before == edit.After {
			continue // it was not reached, or someone else has changed it
		}
		if err := t.putBack(edit, t.before[edit.File]); err != nil {
			return errors.Join(why, fmt.Errorf("put back %s: %w", edit.File, err))
		}
	}
	err := tree.Folder(t.root).Write(func(root *os.Root) error {
		for _, folder := range slices.Backward(made) {
			root.Remove(folder) //nolint:errcheck // one that is not empty stays
		}
		return nil
	})
	return errors.Join(why, err, t.end())
}

// putBack makes one file what it was. Its new content goes back into the folder first, whence the next apply takes it
// if this one dies.
func (t *Transaction) putBack(edit triedEdit, old []byte) error {
	target := filepath.FromSlash(edit.File)
	if edit.Staged != "" {
		content, err := os.ReadFile(t.target(edit.stagedEdit))
		if err != nil {
			return err
		}
		if err := t.write(edit.Staged, content); err != nil {
			return err
		}
	}
	if old == nil {
		return t.remove(target)
	}
	err := t.change(func(root *os.Root) error {
		return errors.Join(root.WriteFile(staged(stagedBack), old, 0o644), root.Chmod(staged(stagedBack), edit.mode))
	})
	if err != nil {
		return err
	}
	return t.rename(staged(stagedBack), target)
}

// Hash is the hash of a content as plans and journals have it; empty for an absent file.
func Hash(content []byte) string {
	if content == nil {
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
