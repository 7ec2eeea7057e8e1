// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/layout"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/progress"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/rewrite"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// try makes the edits in a copy of the tree, generates code there, and type-checks the whole. Errors of types become
// blockers, unless they were there before; counts says in which files they matter. (A loader's overlay would not do:
// controller-tools reads files from the disk.)
func try(ctx context.Context, l *layout.Layout, all *edits, counts func(file string) bool) error {
	progress.Step(ctx, "trying the plan in a copy: copying, and generating code")
	folder, err := os.MkdirTemp("", "api-migrator-*")
	if err != nil {
		return fmt.Errorf("make copy: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is temporary
	shadow := l.Project.Workspace.In(folder)
	if err := tree.Copy(l.Project.Root, shadow.Root); err != nil {
		return fmt.Errorf("make copy: %w", err)
	}
	if err := shadow.Adopt(l.Project.Workspace); err != nil {
		return fmt.Errorf("make copy: %w", err)
	}
	for name, change := range all.Changes {
		if err := tree.Put(shadow.Root, name, change.Content); err != nil {
			return fmt.Errorf("edit copy: %w", err)
		}
	}
	generated, err := rewrite.Generate(ctx, l, shadow)
	if err != nil {
		return err
	}
	all.Changes.Add(generated.Changes)
	after, err := project.LoadWorkspace(progress.With(ctx, func(step string) {
		progress.Step(ctx, "trying the plan in a copy: %s", step)
	}), shadow)
	if err != nil {
		return err
	}
	if problem := after.NewProblem(l.Project, counts); problem != nil {
		hint := ""
		if hasGeneratedImporters(l) && !slices.Equal(l.Request.Consumers, []string{request.ConsumersNone}) {
			hint = "; generated code knows the old version alone until it is generated again: --consumers none leaves the " +
				"code that uses it as it is"
		}
		all.Block("", "afterwards the code does not compile: %s%s", problem.Text, hint)
	}
	return nil
}

// hasGeneratedImporters reports whether generated files, which are not changed, use the old version.
func hasGeneratedImporters(l *layout.Layout) bool {
	return slices.ContainsFunc(l.Project.Packages, func(p *project.Package) bool {
		return p != l.Old.Package && slices.ContainsFunc(p.Files, func(f *project.File) bool {
			return f.Generated && path.Base(f.Path) != project.DeepCopyFile && source.Imports(f.Syntax, l.Old.Package.Path)
		})
	})
}

// checkLinks refuses files that are links, and files behind one: what is written to them, in the copy too, would end in
// another place.
func checkLinks(l *layout.Layout, all *edits) {
	names := slices.Collect(maps.Keys(all.Changes))
	for _, dir := range l.Dirs() {
		names = append(names, path.Join(dir, project.DeepCopyFile))
	}
	for _, name := range names {
		for at := name; at != "."; at = path.Dir(at) {
			if info, err := os.Lstat(filepath.Join(l.Project.Root, filepath.FromSlash(at))); err == nil &&
				info.Mode()&fs.ModeSymlink != 0 {
				all.Block(at, "is a symbolic link: replace it by the file, or move its code first")
			}
		}
	}
}
