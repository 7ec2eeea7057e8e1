// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"path"
	"slices"
)

// Change is everything that upgrading files of a folder does to them and to what refers to them. It is decided before
// anything is written.
type Change struct {
	Files []FileChange
	Notes []Note
}

// FileChange is what happens to one file. Paths have slashes and begin at the folder.
type FileChange struct {
	OldPath, NewPath string
	Before, After    string
	// Refers: it is no CRD, but names a renamed file.
	Refers bool
}

// Note is something that a person should know.
type Note struct {
	// Place is a file, with the line where it is about one.
	Place string
	Text  string
}

func (n Note) String() string { return n.Place + ": " + n.Text }

// Folder is what a Change has to know of the folder.
type Folder interface {
	// Paths lists the files that may refer to others.
	Paths() ([]string, error)
	Exists(path string) bool
	// Read returns a file's text; isText is false for what is none.
	Read(path string) (text string, isText bool, err error)
}

// ClashError is the error where a file would get the name of another one.
type ClashError struct {
	Old, New string
	// Other would get the name too; empty where a file has it already.
	Other string
}

func (e *ClashError) Error() string {
	if e.Other == "" {
		return fmt.Sprintf("%s would be called %s, which exists", e.Old, e.New)
	}
	return fmt.Sprintf("%s and %s describe one resource, and both would be called %s", e.Other, e.Old, e.New)
}

// Upgrade decides about one file. With a RefusedError its outcome is there all the same, to be looked at.
func (c *Change) Upgrade(ctx context.Context, at, text string, naming Naming, options Options) error {
	upgraded, err := Upgrade(ctx, at, text, options)
	if upgraded == nil {
		return err
	}
	for _, note := range upgraded.Notes {
		c.Notes = append(c.Notes, Note{Place: at, Text: note})
	}
	c.Files = append(c.Files, FileChange{OldPath: at, NewPath: naming.Name(at, upgraded),
		Before: text, After: upgraded.Text})
	return err
}

// Finish checks the new names, and decides about what refers to renamed files. Files that stay as they are leave the
// list.
func (c *Change) Finish(folder Folder) error {
	if err := c.checkNames(folder); err != nil {
		return err
	}
	if err := c.references(folder); err != nil {
		return err
	}
	c.Files = slices.DeleteFunc(c.Files, func(f FileChange) bool {
		return f.OldPath == f.NewPath &&
			f.Before == f.After
	})
	return nil
}

// checkNames refuses a new name that another file has, or gets.
func (c *Change) checkNames(folder Folder) error {
	for i, file := range c.Files {
		if file.NewPath == file.OldPath {
			continue
		}
		if folder.Exists(file.NewPath) {
			return &ClashError{Old: file.OldPath, New: file.NewPath}
		}
		for _, other := range c.Files[:i] {
			if other.NewPath == file.NewPath {
				return &ClashError{Old: file.OldPath, New: file.NewPath, Other: other.OldPath}
			}
		}
	}
	return nil
}

// references changes what refers to renamed files.
func (c *Change) references(folder Folder) error {
	var renames []Rename
	for _, file := range c.Files {
		if file.OldPath != file.NewPath {
			renames = append(renames, Rename{Old: file.OldPath, New: file.NewPath})
		}
	}
	if len(renames) == 0 {
		return nil
	}
	paths, err := folder.Paths()
	if err != nil {
		return fmt.Errorf("look for references: %w", err)
	}
	for i := range renames {
		same := 0
		for _, at := range paths {
			if path.Base(at) == path.Base(renames[i].Old) {
				same++
			}
		}
		renames[i].Unique = same == 1
	}
	for _, at := range paths {
		if err := c.referencesIn(folder, at, renames); err != nil {
			return err
		}
	}
	return nil
}

func (c *Change) referencesIn(folder Folder, at string, renames []Rename) error {
	i := slices.IndexFunc(c.Files, func(f FileChange) bool { return f.OldPath == at })
	if i >= 0 {
		rewritten, notes := References(at, c.Files[i].After, renames)
		c.Files[i].After = rewritten
		c.Notes = append(c.Notes, notes...)
		return nil
	}
	text, isText, err := folder.Read(at)
	if err != nil {
		return fmt.Errorf("look for references: %w", err)
	}
	if !isText {
		return nil
	}
	rewritten, notes := References(at, text, renames)
	c.Notes = append(c.Notes, notes...)
	if rewritten != text {
		c.Files = append(c.Files, FileChange{OldPath: at, NewPath: at, Before: text, After: rewritten, Refers: true})
	}
	return nil
}
