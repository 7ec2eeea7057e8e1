// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Followers are the test files that move.
func (l *Layout) Followers() []*project.File {
	var moving []*project.File
	for _, file := range l.Old.Package.Files {
		if file.Test && !file.Generated && l.testsWhatMoved(file) {
			moving = append(moving, file)
		}
	}
	for {
		together := slices.DeleteFunc(slices.Clone(moving),
			func(file *project.File) bool { return l.heldBack(file, moving) })
		if len(together) == len(moving) {
			return moving
		}
		moving = together
	}
}

// testsWhatMoved reports whether all that a file mentions is in the new version, and something of it no longer in the
// old one.
func (l *Layout) testsWhatMoved(file *project.File) bool {
	all, left := true, false
	l.EachUse(file, []ast.Node{file.Syntax}, func(_ *ast.Ident, d *split.Declaration) {
		at := l.HomeOf(d, NewPackage)
		all = all && (at != OldPackage || l.DestinationOf(d) == split.Shared)
		left = left || at == NewPackage && l.HomeOf(d, OldPackage) == NewPackage
	})
	return all && left
}

// heldBack reports whether a test file shares helpers with one that stays.
func (l *Layout) heldBack(file *project.File, moving []*project.File) bool {
	uses := func(from, to *project.File) bool {
		for ident, object := range from.Info.Uses {
			if object.Pkg() != nil && object.Parent() == object.Pkg().Scope() && l.isIn(ident.Pos(), from) &&
				l.isIn(object.Pos(), to) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(l.Old.Package.Files, func(other *project.File) bool {
		return other.Test && !slices.Contains(moving, other) && (uses(file, other) || uses(other, file))
	})
}

func (l *Layout) isIn(pos token.Pos, file *project.File) bool {
	return l.Project.Fset.Position(pos).Filename == l.Project.Fset.Position(file.Syntax.Package).Filename
}
