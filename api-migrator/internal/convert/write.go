// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Write creates and changes the plan's files: all of them, or after an error none. What is there meanwhile is not
// written over. Where the module lacks a library, the error is Missing.
func (p *Plan) Write() error {
	if p.Missing != nil {
		return p.Missing
	}
	return tree.Folder(p.root).Write(p.write)
}

func (p *Plan) write(root *os.Root) (err error) {
	var undo []func()
	defer func() {
		if err == nil {
			return
		}
		for _, one := range slices.Backward(undo) {
			one()
		}
	}()
	for _, file := range p.Files {
		if err := tree.Folder(p.root).Inside(file.Path); err != nil {
			return err
		}
		target := filepath.FromSlash(file.Path)
		folders, err := tree.MakeFolder(root, filepath.Dir(target))
		for _, name := range folders {
			undo = append(undo, func() { root.Remove(name) }) //nolint:errcheck // the first error is told
		}
		if err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if file.Changed {
			if err = swap(root, target, file.before, file.Content); err == nil {
				undo = append(undo, func() { swap(root, target, file.Content, file.before) }) //nolint:errcheck // the same
			}
		} else {
			err = fill(root, target, file.Content, func() {
				undo = append(undo, func() { root.Remove(target) }) //nolint:errcheck // the same
			})
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
	}
	return nil
}

// fill creates a file. created is called once it is there, empty.
func fill(root *os.Root, name, content string, created func()) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	created()
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

// swap changes a file that is still what it was. Readers see the old content or the new one.
func swap(root *os.Root, name, before, after string) error {
	content, err := root.ReadFile(name)
	if err != nil {
		return err
	}
	if string(content) != before {
		return errors.New("it has changed meanwhile")
	}
	info, err := root.Stat(name)
	if err != nil {
		return err
	}
	next := name + ".api-migrator"
	made := false
	if err = fill(root, next, after, func() { made = true }); err == nil {
		err = root.Chmod(next, info.Mode().Perm())
	}
	if err == nil {
		err = root.Rename(next, name)
	}
	if err != nil && made {
		err = errors.Join(err, root.Remove(next))
	}
	return err
}

// Patch is what Write does, as a patch that git apply takes.
func (p *Plan) Patch() (string, error) {
	var out strings.Builder
	for _, file := range p.Files {
		if file.Changed {
			change, err := crd.Patch(file.Path, file.Path, file.before, file.Content)
			if err != nil {
				return "", err
			}
			out.WriteString(change)
			continue
		}
		lines := strings.SplitAfter(strings.TrimSuffix(file.Content, "\n"), "\n")
		fmt.Fprintf(&out, "diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n",
			file.Path, file.Path, file.Path, len(lines))
		fmt.Fprintf(&out, "+%s\n", strings.Join(lines, "+"))
	}
	return out.String(), nil
}
