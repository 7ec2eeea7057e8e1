// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"go/ast"
	"go/token"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// followTests moves those test files of the old version's package to the new one's that only test what has moved there.
// Files that use each other's helpers move together or stay.
func (s *surgery) followTests() error {
	for _, file := range s.followers() {
		q := s.qualifiersOf(s.old.Package.Types, file, "")
		clause := source.Replace(s.project.Fset, file.Syntax.Name, source.Identifier(s.version))
		edits := slices.Concat(s.references(file, homeNew, q), s.definitions(file), []source.Edit{clause})
		text := []byte(source.Splice(file.Source, 0, len(file.Source), edits))
		content, err := s.edited(file, text, q, nil)
		if err != nil {
			return err
		}
		s.files[s.fileOf(file, homeNew)] = &change{content: content, why: "tests what moves; from " + file.Path}
		s.files[file.Path] = &change{why: "tests what has moved"}
		if bytes.Contains(file.Source, []byte("testdata")) &&
			tree.Folder(s.project.Root).Exists(s.dirs[homeOld]+"/testdata") {
			s.finding(file.Path, "moves to %s, but its testdata stays in %s: move or copy what it reads",
				s.dirs[homeNew], s.dirs[homeOld])
		}
	}
	return nil
}

// followers are the test files that move.
func (s *surgery) followers() []*project.File {
	var moving []*project.File
	for _, file := range s.old.Package.Files {
		if file.Test && !file.Generated && s.testsWhatMoved(file) {
			moving = append(moving, file)
		}
	}
	for {
		together := slices.DeleteFunc(slices.Clone(moving),
			func(file *project.File) bool { return s.heldBack(file, moving) })
		if len(together) == len(moving) {
			return moving
		}
		moving = together
	}
}

// testsWhatMoved reports whether all that a file mentions is in the new version, and something of it no longer in the
// old one.
func (s *surgery) testsWhatMoved(file *project.File) bool {
	all, left := true, false
	s.eachUse(file, []ast.Node{file.Syntax}, func(_ *ast.Ident, d *split.Declaration) {
		at := s.homeOf(d, homeNew)
		all = all && at != homeOld
		left = left || at == homeNew && s.homeOf(d, homeOld) == homeNew
	})
	return all && left
}

// heldBack reports whether a test file shares helpers with one that stays.
func (s *surgery) heldBack(file *project.File, moving []*project.File) bool {
	uses := func(from, to *project.File) bool {
		for ident, object := range from.Info.Uses {
			if object.Pkg() != nil && object.Parent() == object.Pkg().Scope() && s.isIn(ident.Pos(), from) &&
				s.isIn(object.Pos(), to) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(s.old.Package.Files, func(other *project.File) bool {
		return other.Test && !slices.Contains(moving, other) && (uses(file, other) || uses(other, file))
	})
}

func (s *surgery) isIn(pos token.Pos, file *project.File) bool {
	return s.project.Fset.Position(pos).Filename == s.project.Fset.Position(file.Syntax.Package).Filename
}
