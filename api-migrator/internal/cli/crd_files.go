// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// change is what an upgrade does to a folder.
type change struct {
	crd.Change
	folder tree.Folder
}

// planUpgrade reads files and decides. With a crd.RefusedError, what would be written is returned all the same, to be
// looked at.
func planUpgrade(ctx context.Context, files []string, flags upgradeFlags) (*change, error) {
	c := &change{folder: tree.Folder(flags.dir)}
	var refused error
	for _, file := range files {
		err := c.upgrade(ctx, file, flags)
		if rejected := (*crd.RefusedError)(nil); errors.As(err, &rejected) {
			refused = errors.Join(refused, hinted(err, "api-migrator crd upgrade --diff "+file))
		} else if err != nil {
			return nil, err
		}
	}
	err := c.Finish(c.folder)
	if clash := (*crd.ClashError)(nil); errors.As(err, &clash) {
		return nil, hinted(err, "api-migrator crd upgrade --name keep "+clash.Old)
	}
	if err != nil {
		return nil, err
	}
	return c, refused
}

// readManifest reads a file that the user has named.
func readManifest(file string) ([]byte, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return nil, hinted(fmt.Errorf("%s is a folder: name the files in it that have a %s", file, crd.Kind),
			"grep -rl 'kind: "+crd.Kind+"' "+shell.Quote(file))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, hinted(fmt.Errorf("read manifest: %w", err), "ls")
	}
	return data, nil
}

// upgrade decides about one file.
func (c *change) upgrade(ctx context.Context, file string, flags upgradeFlags) error {
	if target, err := os.Readlink(file); err == nil {
		return hinted(fmt.Errorf("%s is a link to %s, and would become a file", file, target), "readlink -f "+file)
	}
	data, err := readManifest(file)
	if err != nil {
		return err
	}
	at, err := c.place(file)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.Files, func(f crd.FileChange) bool { return f.OldPath == at }) {
		return nil // named twice
	}
	err = c.Upgrade(ctx, at, string(data), crd.Naming(flags.name),
		crd.Options{AddVersion: flags.toVersion, KeepStorage: flags.storage == "old"})
	if unfit := (*crd.UnfitError)(nil); errors.As(err, &unfit) {
		return hinted(err, unfit.Try(file))
	}
	return err
}

// place is a file's path from the root.
func (c *change) place(file string) (string, error) {
	root, err := filepath.Abs(string(c.folder))
	if err != nil {
		return "", fmt.Errorf("find folder: %w", err)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("find file: %w", err)
	}
	at, err := filepath.Rel(root, absolute)
	if err != nil || !filepath.IsLocal(at) {
		return "", hinted(fmt.Errorf("%s is not in the folder %s, in which references to it are changed", file,
			c.folder),
			"api-migrator crd upgrade --dir "+filepath.Dir(file)+" "+file)
	}
	return filepath.ToSlash(at), nil
}

// show writes a patch.
func (c *change) show(out io.Writer) error {
	for _, file := range c.Files {
		patch, err := crd.Patch(file.OldPath, file.NewPath, file.Before, file.After)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, patch); err != nil {
			return fmt.Errorf("show patch: %w", err)
		}
	}
	return nil
}

// write puts everything into files next to the old ones first, so that a full disk changes nothing, and then into their
// places.
func (c *change) write(out io.Writer) error {
	staged := make([]string, len(c.Files))
	defer func() {
		for _, name := range staged {
			if name != "" {
				os.Remove(name)
			}
		}
	}()
	for i, file := range c.Files {
		if err := errors.Join(c.folder.Inside(file.OldPath), c.folder.Inside(file.NewPath)); err != nil {
			return err
		}
		name, err := stage(c.folder.Local(file.OldPath), file.After)
		if err != nil {
			return fmt.Errorf("write %s: %w", file.OldPath, err)
		}
		staged[i] = name
	}
	for i, file := range c.Files {
		if err := os.Rename(staged[i], c.folder.Local(file.NewPath)); err != nil {
			return fmt.Errorf("write %s: %w", file.NewPath, err)
		}
		staged[i] = ""
		if file.NewPath == file.OldPath {
			fmt.Fprintf(out, "changed %s\n", file.OldPath)
			continue
		}
		if err := os.Remove(c.folder.Local(file.OldPath)); err != nil {
			return fmt.Errorf("remove %s, which is %s now: %w", file.OldPath, file.NewPath, err)
		}
		fmt.Fprintf(out, "changed %s, now %s\n", file.OldPath, file.NewPath)
	}
	return nil
}

// stage writes text into a new file next to another, with its permissions.
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
