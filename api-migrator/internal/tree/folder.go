// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package tree reads and writes files below one folder, which may come from a stranger: no path, and no symbolic link,
// leads out of it.
package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// maxText and maxManifest are the sizes in bytes of the largest files that Paths lists. The schema of a pod template
// alone takes more than half a megabyte, so a manifest with one CRD can be larger than maxText.
const (
	maxText     = 1 << 20
	maxManifest = 16 << 20
)

// largest is the size of the largest file of a name that Paths lists.
func largest(name string) int64 {
	if slices.Contains([]string{".yaml", ".yml", ".json", ".tpl"}, filepath.Ext(name)) {
		return maxManifest
	}
	return maxText
}

// Folder is a tree of files, by its path. Paths in it have slashes and begin there.
type Folder string

// Paths lists the files that people write, sorted: no links, nothing large, nothing that belongs to git or to other
// projects.
func (f Folder) Paths() (paths []string, err error) {
	err = filepath.WalkDir(string(f), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && IsForeign(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > largest(name) {
			return err
		}
		at, err := filepath.Rel(string(f), name)
		paths = append(paths, filepath.ToSlash(at))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	return paths, nil
}

// IsForeign recognises folders that belong to git, to other projects, or to an apply that was killed.
func IsForeign(folder string) bool {
	return slices.Contains([]string{".git", "vendor", "node_modules", ".api-migrator"}, folder)
}

// Exists reports whether there is something at a path, a broken link too.
func (f Folder) Exists(path string) bool {
	_, err := os.Lstat(f.Local(path))
	return err == nil
}

// Read returns the text of a file; isText is false for what is none.
func (f Folder) Read(path string) (text string, isText bool, err error) {
	content, err := os.ReadFile(f.Local(path))
	if err != nil {
		return "", false, fmt.Errorf("read file: %w", err)
	}
	return string(content), bytes.IndexByte(content, 0) < 0 && utf8.Valid(content), nil
}

// Local is a path as the operating system knows it.
func (f Folder) Local(path string) string {
	return filepath.Join(string(f), filepath.FromSlash(path))
}

// Write calls f with the tree as a root: nothing that f does to it leads out of the tree, also where someone puts a
// link into the way after Inside has looked. Links that stay within the tree are followed, so Inside has to be asked
// before.
func (f Folder) Write(do func(root *os.Root) error) error {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return fmt.Errorf("open tree: %w", err)
	}
	return errors.Join(do(root), root.Close())
}

// MakeFolder makes a folder of a tree with its parents, and lists those that were not there, outermost first.
func MakeFolder(root *os.Root, folder string) (made []string, err error) {
	if info, err := root.Stat(folder); err == nil && info.IsDir() {
		return nil, nil
	}
	if parent := filepath.Dir(folder); parent != folder && parent != "." {
		if made, err = MakeFolder(root, parent); err != nil {
			return made, err
		}
	}
	if err := root.Mkdir(folder, 0o755); err != nil {
		return made, err
	}
	return append(made, folder), nil
}
