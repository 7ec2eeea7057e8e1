// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// layers are the packages of a migration; each may import those before it.
var layers = []Home{InternalPackage, SharedPackage, NewPackage, OldPackage}

// border is the need of one package for another.
type border struct{ from, to Home }

// crossing is code that makes the need.
type crossing struct {
	at         token.Pos
	user, used *split.Declaration
}

// checkBorders refuses what cannot compile: packages must not need each other in a circle, and unexported fields and
// methods are not seen from another package. Code in a shared package must not need a version even without a circle.
func (l *decision) checkBorders() {
	crossings := l.crossings()
	for i, from := range layers {
		for _, to := range layers[i+1:] {
			refused := from != NewPackage && to == OldPackage || from != NewPackage && to == NewPackage &&
				l.Request.Shared != request.SharedNewest
			if !refused && !leads(crossings, to, from, map[Home]bool{}) {
				continue
			}
			for _, one := range crossings[border{from, to}] {
				l.refuse(from, to, one)
			}
		}
	}
	l.checkImports(crossings)
	followers := l.Followers()
	for _, file := range l.Old.Package.Files {
		viewer := OldPackage
		if slices.Contains(followers, file) {
			viewer = NewPackage
		}
		if !file.Generated {
			l.checkMembers(file, viewer)
		}
	}
}

func (l *decision) refuse(from, to Home, c crossing) {
	place, user, used := l.Project.Place(c.at), c.user.Name, c.used.Name
	switch {
	case from == NewPackage:
		l.Block(place, "%s moves, but uses %s, which stays, while the old version needs the new one: change one of "+
			"them, or use --assign, --shared shared or --old keep", user, used)
	case from == InternalPackage && to == OldPackage && l.Request.Shared == request.SharedOld:
		l.Block(place, "%s would be in the internal package and use %s, which stays in the old version: use "+
			"--unexported export", user, used)
	case to == SharedPackage:
		l.Block(place, "%s would be in the internal package and use %s in the shared one, which uses the internal "+
			"one: export %s first, or use --unexported export", user, used, user)
	case to == NewPackage && l.Request.Shared == request.SharedNewest:
		l.Block(place, "%s would be in the internal package and use %s in the new version's, which uses the "+
			"internal one: use --unexported export", user, used)
	default:
		l.Block(place, "%s is shared, but uses %s, which belongs to a version: change one of them, or use --assign",
			user, used)
	}
}

// crossings are the uses of a package by another.
func (l *Layout) crossings() map[border][]crossing {
	found := map[border][]crossing{}
	add := func(from, to Home, c crossing) {
		if from, to = l.PackageOf(from), l.PackageOf(to); from != to {
			found[border{from, to}] = append(found[border{from, to}], c)
		}
	}
	for _, d := range l.Graph.Declarations {
		if remains := l.RemainsOf(d); remains == RemainsNamed || remains == RemainsDefined {
			add(OldPackage, l.HomeOf(d, Importer), crossing{d.Pos(), d, d})
		}
		for _, from := range l.viewers(d) {
			for _, part := range l.codeIn(d, from) {
				dropped := l.Unregistered(part.File, from)
				l.EachUse(part.File, part.Nodes(), func(ident *ast.Ident, used *split.Declaration) {
					at := l.Project.Offset(ident.Pos())
					if slices.ContainsFunc(dropped, func(e source.Edit) bool { return e.From <= at && at < e.To }) {
						return
					}
					add(from, l.HomeOf(used, from), crossing{ident.Pos(), d, used})
				})
			}
		}
	}
	return found
}

// leads reports whether one package needs another, directly or not.
func leads(crossings map[border][]crossing, from, to Home, seen map[Home]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	return slices.ContainsFunc(layers, func(next Home) bool {
		return !seen[next] && len(crossings[border{from, next}]) > 0 && leads(crossings, next, to, seen)
	})
}

// checkMembers looks for unexported fields and methods that would be used across packages.
func (l *decision) checkMembers(file *project.File, viewer Home) {
	for ident, object := range file.Info.Uses {
		if !l.InFile(file, ident) {
			continue // what is known of one file is known of all of its package
		}
		if object.Pkg() == nil || object.Pkg().Path() != l.Old.Package.Path || object.Exported() ||
			object.Parent() != nil {
			continue // fields and methods have no scope
		}
		owner, user := l.DeclarationAt(object.Pos()), l.DeclarationAt(ident.Pos())
		if owner == nil || owner == user {
			continue
		}
		viewers := []Home{viewer}
		if user != nil && !file.Test {
			viewers = l.viewers(user)
		}
		for _, viewer := range viewers {
			if !l.SamePackage(viewer, l.HomeOf(owner, viewer)) {
				l.Block(l.Project.Place(ident.Pos()), "%s of %s is unexported and is used from another package "+
					"afterwards: export it first", object.Name(), owner.Name)
				break
			}
		}
	}
}

// DeclarationAt is the declaration whose source contains a position. A test's copy of the package has been parsed
// again, so it compares files and offsets, not positions.
func (l *Layout) DeclarationAt(pos token.Pos) *split.Declaration {
	wanted := l.Project.Fset.Position(pos)
	for _, d := range l.Graph.Declarations {
		for _, part := range d.Parts {
			for _, node := range part.Nodes() {
				from, to := l.Project.Fset.Position(node.Pos()), l.Project.Fset.Position(node.End())
				if from.Filename == wanted.Filename && from.Offset <= wanted.Offset && wanted.Offset < to.Offset {
					return d
				}
			}
		}
	}
	return nil
}
