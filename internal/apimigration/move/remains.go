// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// remains is what the old version's package has of a declaration afterwards.
type remains string

const (
	remainsWhole   remains = "whole"   // its code
	remainsWrapped remains = "wrapped" // a kind's code, whose fields are of the new version's types
	remainsDefined remains = "defined" // a kind: a type defined as the new version's, and its methods
	remainsNamed   remains = "named"   // its names: aliases, constants, functions that call the other package's
	remainsNothing remains = "nothing"
)

// remainsOf decides what the old version has of a declaration.
//
// A kind must never be an alias of the new version's: a scheme would have two GroupVersionKinds for one Go type, and
// clients could not tell which is meant.
func (s *surgery) remainsOf(d *split.Declaration) remains {
	switch s.placed[d].Destination {
	case split.Shared:
		switch {
		case s.request.Shared == SharedDuplicate:
			return remainsWhole
		case s.request.Old == OldRemove || !ast.IsExported(d.Name):
			return remainsNothing
		}
		return remainsNamed
	case split.New:
		return s.remainsOfMoved(d)
	case split.Stay, split.Anchor:
	}
	return remainsWhole
}

func (s *surgery) remainsOfMoved(d *split.Declaration) remains {
	switch {
	case s.request.Old == OldKeep || s.kept[d]:
		return remainsWhole
	case s.request.Old == OldRemove:
		return remainsNothing
	case d.Name == "_": // an assertion, which each version makes
		return remainsWhole
	case s.isKind(d) && s.request.Old == OldAlias:
		return remainsDefined
	case s.isKind(d) || s.isList(d):
		return remainsWrapped
	case !slices.ContainsFunc(d.Names, ast.IsExported):
		return remainsNothing
	case !s.bound[d]:
		return remainsNamed
	}
	return remainsWhole
}

func (s *surgery) isKind(d *split.Declaration) bool {
	return d.What == "type" && slices.Contains(s.request.Kinds, d.Name)
}

func (s *surgery) isList(d *split.Declaration) bool {
	return d.What == "type" && slices.ContainsFunc(s.old.Kinds, func(k project.Kind) bool {
		return k.List == d.Name && slices.Contains(s.request.Kinds, k.Name)
	})
}

// remaining are the pieces of a declaration's code that stay in the old version.
func (s *surgery) remaining(d *split.Declaration) []split.Part {
	switch s.remainsOf(d) {
	case remainsWhole, remainsWrapped:
		return d.Parts
	case remainsDefined:
		return d.Parts[1:]
	case remainsNamed, remainsNothing:
	}
	return nil
}

// leaves reports whether a piece of code registers kinds that the old version does not have any more, and nothing else.
func (s *surgery) leaves(file *project.File, node ast.Node) bool {
	gone, others := false, false
	s.eachUse(file, []ast.Node{node}, func(_ *ast.Ident, d *split.Declaration) {
		switch at := s.placed[d].Destination; {
		case at == split.New && s.remainsOf(d) == remainsNothing:
			gone = true
		case at != split.Anchor:
			others = true
		}
	})
	return gone && !others
}

// reportRemoval says what follows from code of the old version that is gone.
func (s *surgery) reportRemoval() error {
	if s.request.Old != OldRemove {
		return nil
	}
	manifests, err := s.project.Manifests()
	if err != nil {
		return err
	}
	for _, kind := range s.request.Kinds {
		places := []string{s.dirs[homeOld]}
		for _, m := range manifests {
			if m.Group == s.old.Group && m.Kind == kind {
				places = append(places, m.File)
			}
		}
		for _, place := range places[min(1, len(places)-1):] {
			s.finding(place, "controller-gen would drop version %s of %s, as no Go type defines it any more: keep it "+
				"in the manifest until no object needs it", s.old.Version, kind)
		}
	}
	if len(s.request.Kinds) == len(s.old.Kinds) {
		s.finding(s.dirs[homeOld], "no kind is left in %s; what remains registers an empty version: %s", s.old.Name(),
			strings.Join(s.left(), ", "))
	}
	return nil
}

// left names what the old version still declares.
func (s *surgery) left() []string {
	var names []string
	for _, d := range s.graph.Declarations {
		if len(s.remaining(d)) > 0 {
			names = append(names, d.Names...)
		}
	}
	return names
}

// homeOf is the package in which a viewer finds a declaration.
func (s *surgery) homeOf(d *split.Declaration, viewer home) home {
	inOld := viewer == homeOld || viewer == homeMoved
	switch s.placed[d].Destination {
	case split.Anchor:
		if viewer == homeNew {
			return homeNew
		}
		return homeOld
	case split.New:
		if remains := s.remainsOf(d); inOld && remains != remainsNamed && remains != remainsNothing {
			return homeOld // it has its own
		}
		return homeNew
	case split.Shared:
		return s.homeOfShared(d, viewer)
	case split.Stay:
	}
	return homeOld
}

func (s *surgery) homeOfShared(d *split.Declaration, viewer home) home {
	visible := ast.IsExported(d.Name) || s.request.Unexported == UnexportedExport
	switch {
	case s.request.Shared == SharedDuplicate && viewer == homeMoved && s.request.Old != OldKeep &&
		ast.IsExported(d.Name):
		return homeNew // with the types of the fields
	case s.request.Shared == SharedDuplicate && viewer == homeNew:
		return homeNew
	case s.request.Shared == SharedDuplicate:
		return homeOld
	case s.hidden[d]:
		return homeNew
	case !visible:
		return homeInternal
	case s.request.Shared == SharedNewest:
		return homeNew
	}
	return homeShared
}

// goesTo reports whether a declaration's code is written into a package that is created.
func (s *surgery) goesTo(d *split.Declaration, to home) bool {
	switch s.placed[d].Destination {
	case split.New, split.Anchor:
		return to == homeNew
	case split.Shared:
		return to == s.homeOf(d, to)
	case split.Stay:
	}
	return false
}

// viewers are the packages that hold a declaration's code.
func (s *surgery) viewers(d *split.Declaration) []home {
	var found []home
	for _, h := range []home{homeNew, homeShared, homeInternal} {
		if s.goesTo(d, h) {
			found = append(found, h)
		}
	}
	if len(s.remaining(d)) > 0 {
		found = append(found, s.viewerIn(d))
	}
	return found
}

// codeIn is the code of a declaration that stands in the package of one of its viewers.
func (s *surgery) codeIn(d *split.Declaration, viewer home) []split.Part {
	if s.packageOf(viewer) == homeOld {
		return s.remaining(d)
	}
	return d.Parts
}

// viewerIn is how code of a declaration that stays in the old version looks at others.
func (s *surgery) viewerIn(d *split.Declaration) home {
	if d != nil && s.placed[d].Destination == split.New {
		return homeMoved
	}
	return homeOld
}
