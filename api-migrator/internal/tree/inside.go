// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// Inside refuses a path to which nothing may be written, because the repository may come from anyone: one that leaves
// the tree, that belongs to git, whose hooks run, or that leads over a symbolic link. A path that does not exist yet is
// not refused.
//
// It looks at the tree as it is now. That nothing leads out of the tree, even where a link is put into the way between
// this check and the write, is for os.Root to see to (Folder.Write). os.Root alone would not do: it follows links that
// stay within the tree, and so into .git.
func (f Folder) Inside(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, `\`) {
		return hint.Errorf("git status", "%q is not a path within %s", name, string(f))
	}
	elements := strings.Split(name, "/")
	for i, element := range elements {
		if strings.EqualFold(element, ".git") {
			return hint.Errorf("git status", "%s belongs to git", name)
		}
		part := path.Join(elements[:i+1]...)
		switch info, err := os.Lstat(f.Local(part)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at %s: %w", name, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return hint.Errorf("ls -l "+shell.Quote(f.Local(part)),
				"%s leads over the symbolic link %s, through which nothing is written", name, part)
		}
	}
	return nil
}
