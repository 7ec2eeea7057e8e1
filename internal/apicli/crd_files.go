// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
)

// maxReference is the size in bytes of the largest file in which references are looked for.
const maxReference = 1 << 20

// fileChange is what happens to one file. Paths have slashes and begin at the root.
type fileChange struct {
	oldPath, newPath string
	before, after    string
}

// change is everything that an upgrade does. It is decided before anything is written.
type change struct {
	root  string
	files []fileChange
	notes []string
}

// planUpgrade reads files and decides. With a crd.RefusedError, what would be written is returned all the same, to be looked at.
func planUpgrade(ctx context.Context, files []string, flags upgradeFlags) (*change, error) {
	c := &change{root: flags.dir}
	var refused error
	for _, file := range files {
		upgraded, err := c.upgrade(ctx, file, flags)
		if rejected := (*crd.RefusedError)(nil); errors.As(err, &rejected) {
			refused = errors.Join(refused, hinted(err, "api-migrator crd upgrade --diff "+file))
		} else if err != nil {
			return nil, err
		}
		c.notes = append(c.notes, upgraded.Notes...)
	}
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	if err := c.references(); err != nil {
		return nil, err
	}
	c.files = slices.DeleteFunc(c.files, func(f fileChange) bool { return f.oldPath == f.newPath && f.before == f.after })
	return c, refused
}

// upgrade decides about one file.
func (c *change) upgrade(ctx context.Context, file string, flags upgradeFlags) (*crd.Upgraded, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, hinted(fmt.Errorf("read manifest: %w", err), "ls")
	}
	if json.Valid(data) {
		return nil, hinted(fmt.Errorf("%s is JSON, and manifests are upgraded in YAML", file), "kubectl create --dry-run=client -o yaml -f "+file)
	}
	at, err := c.place(file)
	if err != nil {
		return nil, err
	}
	upgraded, err := crd.Upgrade(ctx, file, string(data), crd.Options{AddVersion: flags.toVersion, KeepStorage: flags.storage == "old"})
	if upgraded == nil {
		return nil, err
	}
	if slices.ContainsFunc(c.files, func(f fileChange) bool { return f.oldPath == at }) {
		return upgraded, err // named twice
	}
	c.files = append(c.files, fileChange{oldPath: at, newPath: crd.Naming(flags.name).Name(at, upgraded), before: string(data), after: upgraded.Text})
	return upgraded, err
}

// place is a file's path from the root.
func (c *change) place(file string) (string, error) {
	root, err := filepath.Abs(c.root)
	if err != nil {
		return "", fmt.Errorf("find folder: %w", err)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("find file: %w", err)
	}
	at, err := filepath.Rel(root, absolute)
	if err != nil || !filepath.IsLocal(at) {
		return "", hinted(fmt.Errorf("%s is not in the folder %s, in which references to it are changed", file, c.root),
			"api-migrator crd upgrade --dir "+filepath.Dir(file)+" "+file)
	}
	return filepath.ToSlash(at), nil
}

// checkNames refuses a new name that another file has, or gets.
func (c *change) checkNames() error {
	for i, file := range c.files {
		if file.newPath == file.oldPath {
			continue
		}
		hint := "api-migrator crd upgrade --name keep " + file.oldPath
		if _, err := os.Lstat(c.local(file.newPath)); err == nil {
			return hinted(fmt.Errorf("%s would be called %s, which exists", file.oldPath, file.newPath), hint)
		}
		for _, other := range c.files[:i] {
			if other.newPath == file.newPath {
				return hinted(fmt.Errorf("%s and %s describe one resource, and both would be called %s", other.oldPath, file.oldPath, file.newPath), hint)
			}
		}
	}
	return nil
}

func (c *change) local(path string) string { return filepath.Join(c.root, filepath.FromSlash(path)) }

// references changes what refers to renamed files.
func (c *change) references() error {
	var renames []crd.Rename
	for _, file := range c.files {
		if file.oldPath != file.newPath {
			renames = append(renames, crd.Rename{Old: file.oldPath, New: file.newPath})
		}
	}
	if len(renames) == 0 {
		return nil
	}
	paths, err := c.walk()
	if err != nil {
		return fmt.Errorf("look for references: %w", err)
	}
	for i := range renames {
		same := count(paths, func(path string) bool { return filepath.Base(path) == filepath.Base(renames[i].Old) })
		renames[i].Unique = same == 1
	}
	for _, path := range paths {
		if err := c.referencesIn(path, renames); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) referencesIn(path string, renames []crd.Rename) error {
	i := slices.IndexFunc(c.files, func(f fileChange) bool { return f.oldPath == path })
	if i >= 0 {
		rewritten, notes := crd.References(path, c.files[i].after, renames)
		c.files[i].after = rewritten
		c.notes = append(c.notes, notes...)
		return nil
	}
	data, err := os.ReadFile(c.local(path))
	if err != nil {
		return fmt.Errorf("look for references: %w", err)
	}
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return nil
	}
	rewritten, notes := crd.References(path, string(data), renames)
	c.notes = append(c.notes, notes...)
	if rewritten != string(data) {
		c.files = append(c.files, fileChange{oldPath: path, newPath: path, before: string(data), after: rewritten})
	}
	return nil
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

// walk lists the files that may refer to others: no links, nothing large, nothing that belongs to git or to other projects.
func (c *change) walk() (paths []string, err error) {
	err = filepath.WalkDir(c.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "vendor", "node_modules"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxReference {
			return err
		}
		at, err := filepath.Rel(c.root, path)
		paths = append(paths, filepath.ToSlash(at))
		return err
	})
	return paths, err
}

// show writes a patch.
func (c *change) show(out io.Writer) error {
	for _, file := range c.files {
		patch, err := crd.Patch(file.oldPath, file.newPath, file.before, file.after)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, patch); err != nil {
			return fmt.Errorf("show patch: %w", err)
		}
	}
	return nil
}

// write puts everything into files beside the old ones first, so that a full disk changes nothing, and then into their places.
func (c *change) write(out io.Writer) error {
	staged := make([]string, len(c.files))
	defer func() {
		for _, name := range staged {
			if name != "" {
				os.Remove(name)
			}
		}
	}()
	for i, file := range c.files {
		name, err := stage(c.local(file.oldPath), file.after)
		if err != nil {
			return fmt.Errorf("write %s: %w", file.oldPath, err)
		}
		staged[i] = name
	}
	for i, file := range c.files {
		if err := os.Rename(staged[i], c.local(file.newPath)); err != nil {
			return fmt.Errorf("write %s: %w", file.newPath, err)
		}
		staged[i] = ""
		if file.newPath == file.oldPath {
			fmt.Fprintf(out, "changed %s\n", file.oldPath)
			continue
		}
		if err := os.Remove(c.local(file.oldPath)); err != nil {
			return fmt.Errorf("remove %s, which is %s now: %w", file.oldPath, file.newPath, err)
		}
		fmt.Fprintf(out, "changed %s, now %s\n", file.oldPath, file.newPath)
	}
	return nil
}

// stage writes text into a new file beside another, with its permissions.
func stage(beside, text string) (name string, err error) {
	info, err := os.Stat(beside)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Dir(beside), "."+strings.TrimPrefix(filepath.Base(beside), ".")+".new-*")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Close()); err != nil {
		os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}
