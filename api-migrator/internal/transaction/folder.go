// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

const (
	stagingFolder = ".api-migrator"
	stagedPlan    = "plan.yaml"
	stagedJournal = "journal.json"
	stagedBack    = "back" // an old content, on its way back
	// stagedMark is the .gitignore by which the folder is known as ours, and by which git leaves it out.
	stagedMark = "# api-migrator works here. It removes this folder by itself.\n*\n"
)

func (t *Transaction) at(name string) string { return filepath.Join(t.root, staged(name)) }

// staged is a file of the folder, by its path in the tree.
func staged(name string) string { return filepath.Join(stagingFolder, name) }

func (t *Transaction) target(edit stagedEdit) string {
	return filepath.Join(t.root, filepath.FromSlash(edit.File))
}

// beforeChange calls the hook.
func (t *Transaction) beforeChange() {
	if t.hook != nil {
		t.hook()
	}
}

// change makes one change of the tree or of the folder.
func (t *Transaction) change(do func(root *os.Root) error) error {
	t.beforeChange()
	return tree.Folder(t.root).Write(do)
}

// remove removes a file or an empty folder.
func (t *Transaction) remove(name string) error {
	return t.change(func(root *os.Root) error { return root.Remove(name) })
}

// rename gives a file another name.
func (t *Transaction) rename(from, to string) error {
	return t.change(func(root *os.Root) error { return root.Rename(from, to) })
}

// write writes a file of the folder.
func (t *Transaction) write(name string, content []byte) error {
	return t.change(func(root *os.Root) error { return root.WriteFile(staged(name), content, 0o644) })
}

// stagedFile is a file of the folder.
type stagedFile struct {
	name    string
	content []byte
}

// fill writes the files and the journal into the folder.
func (t *Transaction) fill(files []stagedFile) error {
	written, err := json.MarshalIndent(t.journal, "", "  ")
	if err != nil {
		return fmt.Errorf("encode journal: %w", err)
	}
	const unfinished = stagedJournal + ".new"
	for _, file := range append(files, stagedFile{unfinished, written}) {
		if err := t.write(file.name, file.content); err != nil {
			return fmt.Errorf("stage files: %w", err)
		}
	}
	if err := t.note(written); err != nil {
		return err
	}
	if err := t.rename(staged(unfinished), staged(stagedJournal)); err != nil {
		return fmt.Errorf("stage files: %w", err)
	}
	return nil
}

// end removes the journal, and then what is left of the folder.
func (t *Transaction) end() error {
	if err := t.remove(staged(stagedJournal)); err != nil {
		return fmt.Errorf("remove journal: %w", err)
	}
	if err := t.forget(); err != nil {
		return err
	}
	return t.clear()
}

// Clear removes a folder in which no journal was written: the process died before that.
func Clear(root string) error { return (&Transaction{root: root}).clear() }

// clear removes a folder without a journal. Its mark goes last, so that it is known as ours until it is gone.
func (t *Transaction) clear() error {
	mark, err := os.ReadFile(t.at(".gitignore"))
	switch {
	case errors.Is(err, fs.ErrNotExist): // no folder, or an empty one
		err := tree.Folder(t.root).Write(func(root *os.Root) error { return root.Remove(stagingFolder) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return hint.Errorf("ls -A "+shell.Quote(t.at("")),
				"%s is not a folder of api-migrator: it is in the way", t.at(""))
		}
		return nil
	case err != nil:
		return fmt.Errorf("look into folder: %w", err)
	}
	entries, err := os.ReadDir(t.at(""))
	if err != nil {
		return fmt.Errorf("look into folder: %w", err)
	}
	// A process that died while it wrote the mark had written nothing else.
	if half := len(entries) == 1 && isPrefix(string(mark), stagedMark); string(mark) != stagedMark && !half {
		return hint.Errorf("ls -A "+shell.Quote(t.at("")),
			"%s is not a folder of api-migrator: it is in the way", t.at(""))
	}
	for _, entry := range entries {
		if entry.Name() == ".gitignore" {
			continue
		}
		if err := t.remove(staged(entry.Name())); err != nil {
			return fmt.Errorf("empty folder: %w", err)
		}
	}
	if err := t.remove(staged(".gitignore")); err != nil {
		return fmt.Errorf("empty folder: %w", err)
	}
	return t.remove(stagingFolder)
}

// isPrefix reports whether a file was being written as whole when the process died.
func isPrefix(part, whole string) bool { return len(part) < len(whole) && whole[:len(part)] == part }
