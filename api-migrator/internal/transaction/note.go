// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// A journal in a tree says which files to replace, and a repository can contain one, which would replace whatever its
// author names. So a transaction notes the hash of its journal in the user's own folder, and no other journal is
// followed.
//
// Resume cannot have the document computed again: the tree that it was made for is partly replaced by then. It compares
// the document, each file and each staged content with the hashes in the journal, which the note vouches for.

// noteOf is the file that holds the hash of the journal of the tree in root.
func noteOf(root string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place to note what is applied: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return "", fmt.Errorf("find root: %w", err)
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(state, "api-migrator", "applies", hex.EncodeToString(sum[:])), nil
}

// note records the hash of the journal before the journal is in its place. A process that dies in between leaves a
// note without a journal, which means nothing.
func (t *Transaction) note(journal []byte) error {
	name, err := noteOf(t.root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("note what is applied: %w", err)
	}
	t.beforeChange()
	if err := os.WriteFile(name, []byte(Hash(journal)), 0o600); err != nil {
		return fmt.Errorf("note what is applied: %w", err)
	}
	return nil
}

// checkNoted refuses a journal that no process of this user has written.
func (t *Transaction) checkNoted(journal []byte) error {
	name, err := noteOf(t.root)
	if err != nil {
		return err
	}
	noted, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what is applied: %w", err)
	}
	if string(noted) != Hash(journal) {
		return hint.Errorf("git status --ignored",
			"%s was not written by an apply of yours, and is not followed: it may have come with the repository. "+
				"Remove the folder, and put files back as they were where they have changed", t.at(""))
	}
	return nil
}

// forget removes the note of a journal that is gone.
func (t *Transaction) forget() error {
	name, err := noteOf(t.root)
	if err != nil {
		return err
	}
	t.beforeChange()
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what was applied: %w", err)
	}
	return nil
}

// CheckPaths refuses edits of files that are not within the tree.
func CheckPaths(root string, files []string) error {
	for _, file := range files {
		if err := tree.Folder(root).Inside(file); err != nil {
			return err
		}
	}
	return nil
}

// files are those that the journal names.
func (j journal) files() (files []string) {
	for _, step := range j.Steps {
		for _, edit := range step.Edits {
			files = append(files, edit.File)
		}
	}
	return files
}
