// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/token"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// layers are the packages of a migration; each may import those before it.
var layers = []home{homeInternal, homeShared, homeNew, homeOld}

// border is the need of one package for another.
type border struct{ from, to home }

// crossing is code that makes the need.
type crossing struct {
	at         token.Pos
	user, used *split.Declaration
}

// checkBorders refuses what cannot compile: packages must not need each other in a circle, and unexported fields and
// methods are not seen from another package. Code in a shared package must not need a version even without a circle.
func (s *surgery) checkBorders() {
	crossings := s.crossings()
	for i, from := range layers {
		for _, to := range layers[i+1:] {
			refused := from != homeNew && to == homeOld || from != homeNew && to == homeNew &&
				s.request.Shared != SharedNewest
			if !refused && !leads(crossings, to, from, map[home]bool{}) {
				continue
			}
			for _, one := range crossings[border{from, to}] {
				s.refuse(from, to, one)
			}
		}
	}
	followers := s.followers()
	for _, file := range s.old.Package.Files {
		viewer := homeOld
		if slices.Contains(followers, file) {
			viewer = homeNew
		}
		if !file.Generated {
			s.checkMembers(file, viewer)
		}
	}
}

func (s *surgery) refuse(from, to home, c crossing) {
	place, user, used := s.project.Place(c.at), c.user.Name, c.used.Name
	switch {
	case from == homeNew:
		s.blocker(place, "%s moves, but uses %s, which stays, while the old version needs the new one: change one of "+
			"them, or use --assign, --shared shared or --old keep", user, used)
	case to == homeShared:
		s.blocker(place, "%s would be in the internal package and use %s in the shared one, which uses the internal "+
			"one: export %s first, or use --unexported export", user, used, user)
	case to == homeNew && s.request.Shared == SharedNewest:
		s.blocker(place, "%s would be in the internal package and use %s in the new version's, which uses the "+
			"internal one: use --unexported export", user, used)
	default:
		s.blocker(place, "%s is shared, but uses %s, which belongs to a version: change one of them, or use --assign",
			user, used)
	}
}

// crossings are the uses of a package by another.
func (s *surgery) crossings() map[border][]crossing {
	found := map[border][]crossing{}
	add := func(from, to home, c crossing) {
		if from, to = s.packageOf(from), s.packageOf(to); from != to {
			found[border{from, to}] = append(found[border{from, to}], c)
		}
	}
	for _, d := range s.graph.Declarations {
		if remains := s.remainsOf(d); remains == remainsNamed || remains == remainsDefined {
			add(homeOld, s.homeOf(d, elsewhere), crossing{d.Pos(), d, d})
		}
		for _, from := range s.viewers(d) {
			for _, part := range s.codeIn(d, from) {
				dropped := s.droppedIn(part.File, from)
				s.eachUse(part.File, part.Nodes(), func(ident *ast.Ident, used *split.Declaration) {
					at := s.project.Offset(ident.Pos())
					if slices.ContainsFunc(dropped, func(e source.Edit) bool { return e.From <= at && at < e.To }) {
						return
					}
					add(from, s.homeOf(used, from), crossing{ident.Pos(), d, used})
				})
			}
		}
	}
	return found
}

// leads reports whether one package needs another, directly or not.
func leads(crossings map[border][]crossing, from, to home, seen map[home]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	return slices.ContainsFunc(layers, func(next home) bool {
		return !seen[next] && len(crossings[border{from, next}]) > 0 && leads(crossings, next, to, seen)
	})
}

// checkMembers looks for unexported fields and methods that would be used across packages.
func (s *surgery) checkMembers(file *project.File, viewer home) {
	for ident, object := range file.Info.Uses {
		if !s.in(file, ident) {
			continue // what is known of one file is known of all of its package
		}
		if object.Pkg() == nil || object.Pkg().Path() != s.old.Package.Path || object.Exported() ||
			object.Parent() != nil {
			continue // fields and methods have no scope
		}
		owner, user := s.at(object.Pos()), s.at(ident.Pos())
		if owner == nil || owner == user {
			continue
		}
		viewers := []home{viewer}
		if user != nil && !file.Test {
			viewers = s.viewers(user)
		}
		for _, viewer := range viewers {
			if !s.seen(viewer, s.homeOf(owner, viewer)) {
				s.blocker(s.project.Place(ident.Pos()), "%s of %s is unexported and is used from another package "+
					"afterwards: export it first", object.Name(), owner.Name)
				break
			}
		}
	}
}

// at is the declaration whose source contains a position. A test's copy of the package has been parsed again, so
// that files and offsets are compared, not positions.
func (s *surgery) at(pos token.Pos) *split.Declaration {
	wanted := s.project.Fset.Position(pos)
	for _, d := range s.graph.Declarations {
		for _, part := range d.Parts {
			for _, node := range part.Nodes() {
				from, to := s.project.Fset.Position(node.Pos()), s.project.Fset.Position(node.End())
				if from.Filename == wanted.Filename && from.Offset <= wanted.Offset && wanted.Offset < to.Offset {
					return d
				}
			}
		}
	}
	return nil
}
