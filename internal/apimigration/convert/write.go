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

	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// Write creates the plan's files: all of them, or after an error none. What is there meanwhile is not written over.
// Where the module lacks a library, the error is Missing.
func (p *Plan) Write() error {
	if p.Missing != nil {
		return p.Missing
	}
	return tree.Folder(p.root).Write(p.write)
}

func (p *Plan) write(root *os.Root) (err error) {
	var created []string
	defer func() {
		if err == nil {
			return
		}
		for _, name := range slices.Backward(created) {
			root.Remove(name) //nolint:errcheck // the first error is told
		}
	}()
	for _, file := range p.Files {
		if err := tree.Folder(p.root).Inside(file.Path); err != nil {
			return err
		}
		target := filepath.FromSlash(file.Path)
		folders, err := tree.MakeFolder(root, filepath.Dir(target))
		created = append(created, folders...)
		if err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		f, err := root.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
		created = append(created, target)
		_, err = f.WriteString(file.Content)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
	}
	return nil
}

// Patch is what Write does, as a patch that git apply takes.
func (p *Plan) Patch() string {
	var out strings.Builder
	for _, file := range p.Files {
		lines := strings.SplitAfter(strings.TrimSuffix(file.Content, "\n"), "\n")
		fmt.Fprintf(&out, "diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n",
			file.Path, file.Path, file.Path, len(lines))
		fmt.Fprintf(&out, "+%s\n", strings.Join(lines, "+"))
	}
	return out.String()
}
