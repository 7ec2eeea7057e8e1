// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"bytes"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Tests moves those test files of the old version to the new one that only test what has moved.
func Tests(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.followTests()
	return s.Result, err
}

// followTests moves those test files of the old version's package to the new one's that only test what has moved there.
// Files that use each other's helpers move together or stay.
func (s *editing) followTests() error {
	for _, file := range s.Followers() {
		q := s.qualifiersOf(s.Old.Package.Types, file, "")
		clause := source.Replace(s.Project.Fset, file.Syntax.Name, s.PackageName(layout.NewPackage))
		edits := slices.Concat(s.references(file, layout.NewPackage, q), s.renamings(file), []source.Edit{clause})
		text := []byte(source.Splice(file.Source, 0, len(file.Source), edits))
		content, err := s.edited(file, text, q, nil)
		if err != nil {
			return err
		}
		if err := s.create(file, s.FileOf(file, layout.NewPackage), content, "tests what moves; from "); err != nil {
			return err
		}
		s.Changes[file.Path] = &changeset.Change{Why: "tests what has moved"}
		if bytes.Contains(file.Source, []byte("testdata")) &&
			tree.Folder(s.Project.Root).Exists(s.Dir(layout.OldPackage)+"/testdata") {
			s.Note(file.Path, "moves to %s, but its testdata stays in %s: move or copy what it reads",
				s.Dir(layout.NewPackage), s.Dir(layout.OldPackage))
		}
	}
	return nil
}
