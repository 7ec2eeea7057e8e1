// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Home is a package that declarations end in, or from which they are seen.
type Home string

// The packages of a migration, and two more ways to look at them.
const (
	OldPackage      Home = "old"
	NewPackage      Home = "new"
	SharedPackage   Home = "shared"
	InternalPackage Home = "internal"
	// Leftover is what is left of a kind that moves, in the old version.
	Leftover Home = "moved"
	// Importer is any package that imports the old version.
	Importer Home = "elsewhere"
)

// PackageOf is the home whose package a viewer's code stands in.
func (l *Layout) PackageOf(viewer Home) Home {
	if viewer == Leftover || viewer == NewPackage && l.InPlace() {
		return OldPackage
	}
	return viewer
}

// NameOf is the name by which a viewer finds one of the declaration's objects.
func (l *Layout) NameOf(d *split.Declaration, name string, viewer Home) string {
	switch former, isFormer := l.former[d]; {
	case isFormer && l.follows(viewer):
		return former.name
	case d.Anchor && l.anchors[name] != "" && (viewer == NewPackage || viewer == Importer):
		return l.anchors[name]
	case l.renamed[d] != "" && name == d.Name:
		return l.renamed[d]
	case l.copies[name] != "" && l.HomeOf(d, viewer) == NewPackage:
		return l.copies[name]
	}
	return name
}

// SamePackage reports whether a viewer sees what is in another home without an import.
func (l *Layout) SamePackage(viewer, at Home) bool { return l.PackageOf(viewer) == l.PackageOf(at) }

// ImportPath is the import path of a package.
func (l *Layout) ImportPath(h Home) string { return l.Project.Workspace.ImportPath(l.Dir(h)) }

// HomeOf is the package in which a viewer finds a declaration.
func (l *Layout) HomeOf(d *split.Declaration, viewer Home) Home {
	if former, ok := l.former[d]; ok {
		if l.follows(viewer) {
			return former.home
		}
		return OldPackage
	}
	inOld := viewer == OldPackage || viewer == Leftover
	switch l.DestinationOf(d) {
	case split.Anchor:
		if viewer == NewPackage {
			return NewPackage
		}
		return OldPackage
	case split.New:
		if remains := l.RemainsOf(d); inOld && remains != RemainsNamed && remains != RemainsNothing {
			return OldPackage // it has its own
		}
		return NewPackage
	case split.Shared:
		return l.homeOfShared(d, viewer)
	case split.Stay:
	}
	return OldPackage
}

// follows reports whether a viewer uses new names where the old version has an old one.
func (l *Layout) follows(viewer Home) bool {
	return viewer == NewPackage || viewer == Importer && l.onlyImporters
}

func (l *Layout) homeOfShared(d *split.Declaration, viewer Home) Home {
	visible := ast.IsExported(d.Name) || l.Request.Unexported == request.UnexportedExport
	switch {
	case l.IsDuplicated(d) && viewer == Leftover && l.Request.Old != request.OldKeep &&
		ast.IsExported(d.Name):
		return NewPackage // with the types of the fields
	case l.IsDuplicated(d) && viewer == NewPackage:
		return NewPackage
	case l.IsDuplicated(d):
		return OldPackage
	case !visible && !l.hidden[d]:
		return InternalPackage
	}
	return l.sharedHome()
}

// sharedHome is the package of shared code that others may see.
func (l *Layout) sharedHome() Home {
	switch l.Request.Shared {
	case request.SharedNewest:
		return NewPackage
	case request.SharedOld:
		return OldPackage
	}
	return SharedPackage
}

// GoesTo reports whether a declaration's code is written into a package of the migration.
func (l *Layout) GoesTo(d *split.Declaration, to Home) bool {
	if l.onlyImporters || l.reused[d] {
		return false
	}
	switch l.DestinationOf(d) {
	case split.Anchor:
		return to == NewPackage && (!l.Exists(NewPackage) || l.needed[d])
	case split.New:
		return to == NewPackage
	case split.Shared:
		return to == l.HomeOf(d, to)
	case split.Stay:
	}
	return false
}

// viewers are the packages that hold a declaration's code.
func (l *Layout) viewers(d *split.Declaration) []Home {
	var found []Home
	for _, h := range []Home{NewPackage, SharedPackage, InternalPackage} {
		if l.GoesTo(d, h) {
			found = append(found, h)
		}
	}
	if len(l.Remaining(d)) > 0 {
		found = append(found, l.ViewerIn(d))
	}
	return found
}

// codeIn is the code of a declaration that stands in the package of one of its viewers.
func (l *Layout) codeIn(d *split.Declaration, viewer Home) []split.Part {
	if l.PackageOf(viewer) == OldPackage {
		return l.Remaining(d)
	}
	return d.Parts
}

// ViewerIn is how code of a declaration that stays in the old version looks at others.
func (l *Layout) ViewerIn(d *split.Declaration) Home {
	if d != nil && l.DestinationOf(d) == split.New {
		return Leftover
	}
	return OldPackage
}

// AsOf is what a declaration is called where it goes, if that is another name.
func (l *Layout) AsOf(d *split.Declaration) string {
	names := make([]string, 0, len(d.Names))
	for _, name := range d.Names {
		names = append(names, l.NameOf(d, name, Importer))
	}
	if slices.Equal(names, d.Names) {
		return ""
	}
	return strings.Join(names, ", ")
}
