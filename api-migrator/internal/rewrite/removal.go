// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"path"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Removal reports what follows from code of the old version that is gone.
func Removal(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.reportRemoval()
	return s.Result, err
}

// GroupFile repeats group.go of the group's folder.
func GroupFile(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.createGroupFile()
	return s.Result, err
}

// reportRemoval says what follows from code of the old version that is gone.
func (s *editing) reportRemoval() error {
	if s.Request.Old != request.OldRemove {
		return nil
	}
	manifests, err := s.Project.Manifests()
	if err != nil {
		return err
	}
	for _, kind := range s.Request.Kinds {
		places := []string{s.Dir(layout.OldPackage)}
		for _, m := range manifests {
			if m.Group == s.Old.Group && m.Kind == kind {
				places = append(places, m.File)
			}
		}
		for _, place := range places[min(1, len(places)-1):] {
			s.Note(place, "controller-gen would drop version %s of %s, as no Go type defines it any more: keep it "+
				"in the manifest until no object needs it", s.Old.Version, kind)
		}
	}
	if len(s.Request.Kinds) == len(s.Old.Kinds) {
		s.Note(s.Dir(layout.OldPackage), "no kind is left in %s; what remains registers an empty version: %s",
			s.Old.Name(),
			strings.Join(s.left(), ", "))
	}
	return nil
}

// left names what the old version still declares.
func (s *editing) left() []string {
	var names []string
	for _, d := range s.Graph.Declarations {
		if len(s.Remaining(d)) > 0 {
			names = append(names, d.Names...)
		}
	}
	return names
}

// createGroupFile repeats group.go, which operator-sdk puts into a group's folder so that there is a package.
func (s *editing) createGroupFile() error {
	name := path.Join(path.Dir(s.Dir(layout.NewPackage)), "group.go")
	content, err := tree.ReadIfThere(s.Project.Root, path.Join(path.Dir(s.Dir(layout.OldPackage)), "group.go"))
	if err != nil || content == nil || s.Group == s.Old.Group {
		return err
	}
	file, _, err := source.Parse(content)
	existing, readErr := tree.ReadIfThere(s.Project.Root, name)
	if err != nil || readErr != nil || existing != nil || len(file.Decls) > 0 {
		return readErr
	}
	text := source.Word(s.FolderName(layout.OldPackage)).ReplaceAllString(string(content),
		source.Identifier(s.FolderName(layout.NewPackage)))
	s.Changes[name] = &changeset.Change{Content: []byte(text),
		Why: "the package of the group's folder, after that of the old one"}
	return nil
}
