// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// groupVersions are the two names by which versions call their group and version.
var groupVersions = map[string]string{"SchemeGroupVersion": "GroupVersion", "GroupVersion": "SchemeGroupVersion"}

// findAnchors says how code that moves finds the anchors of a new version that exists: by their names, as its own group
// and version, or as copies of those that it lacks.
func (l *decision) findAnchors() {
	if !l.Exists(NewPackage) {
		return
	}
	var use func(user *split.Declaration, parts []split.Part)
	use = func(user *split.Declaration, parts []split.Part) {
		for _, part := range parts {
			l.EachUse(part.File, part.Nodes(), func(ident *ast.Ident, d *split.Declaration) {
				switch other := groupVersions[ident.Name]; {
				case !d.Anchor || l.declares(NewPackage, []string{ident.Name}) || l.needed[d] || l.anchors[ident.Name] != "":
				case other != "" && l.declares(NewPackage, []string{other}):
					l.anchors[ident.Name] = other
				case d.AddsToScheme():
					l.Block(l.Project.Place(ident.Pos()), "%s moves and uses %s, which %s lacks: declare it there first",
						user.Name, ident.Name, l.Dir(NewPackage))
				default:
					l.needed[d] = true
					use(d, d.Parts)
				}
			})
		}
	}
	for _, d := range l.Graph.Declarations {
		if l.GoesTo(d, NewPackage) && !d.Anchor {
			use(d, d.Parts)
		}
	}
	for name, other := range groupVersions { // for importers
		if !l.declares(NewPackage, []string{name}) && l.declares(NewPackage, []string{other}) {
			l.anchors[name] = other
		}
	}
}

// Lacks reports whether a version that exists has no such anchor.
func (l *Layout) Lacks(d *split.Declaration) bool {
	return d.Anchor && l.Exists(NewPackage) && !l.needed[d] &&
		!l.declares(NewPackage, []string{l.NameOf(d, d.Name, NewPackage)})
}

// anchorsFit reports whether the new version, which exists, declares all anchors that a statement uses, with the same
// types.
func (l *Layout) anchorsFit(file *project.File, statement ast.Stmt) bool {
	fit := true
	l.EachUse(file, []ast.Node{statement}, func(ident *ast.Ident, d *split.Declaration) {
		if !d.Anchor {
			return
		}
		there := l.graphs[NewPackage].Package.Types.Scope().Lookup(l.NameOf(d, ident.Name, NewPackage))
		fit = fit && there != nil &&
			types.TypeString(there.Type(), nil) == types.TypeString(file.Info.Uses[ident].Type(), nil)
	})
	return fit
}

// leaveImporters finds the files that go on using the old version: those of other versions of a CRD that stays, those of
// a new version that exists, and those that name a kind in both versions, since they treat the versions differently.
func (l *decision) leaveImporters() {
	if l.Request.Succeeds() {
		l.leaveVersions()
	}
	if !l.Exists(NewPackage) {
		return
	}
	for _, pkg := range l.Project.Packages {
		kind := l.kindOfNew(pkg)
		for _, file := range pkg.Files {
			if pkg == l.Old.Package || !source.Imports(file.Syntax, l.Old.Package.Path) || !l.Request.Consumes(file.Path) {
				continue
			}
			old, there := l.movedIn(file)
			switch {
			case pkg == l.graphs[NewPackage].Package:
				l.left[file] = true
				if old != "" && !l.onlyImporters {
					l.Note(file.Path, "goes on using %s of %s, since it is code of %s: look through it", old, l.Old.Version, l.Version)
				}
			case there != "" && l.onlyImporters:
				l.left[file] = true
				l.Note(file.Path, "left as it is, since it names %s of both versions: look through it", there)
			case old != "" && kind != "":
				l.left[file] = true
				l.Note(file.Path, "left as it is, since it names %s of %s, and its package names %s of %s, such as to copy objects: look "+
					"through it", old, l.Old.Name(), kind, l.Request.To)
			}
		}
	}
}

// kindOfNew is a kind of another group that a package names and that has moved there before; empty without one. Code that
// has objects of both groups may copy them, while the versions of one group have the same objects.
func (l *decision) kindOfNew(pkg *project.Package) string {
	if !l.Request.Succeeds() || !l.onlyImporters {
		return ""
	}
	var named []string
	for _, file := range pkg.Files {
		for ident, object := range file.Info.Uses {
			if object.Pkg() != nil && object.Pkg().Path() == l.graphs[NewPackage].Package.Path && l.InFile(file, ident) {
				named = append(named, object.Name())
			}
		}
	}
	kinds := l.KindsAndLists()
	if i := slices.IndexFunc(kinds, func(kind string) bool { return slices.Contains(named, kind) }); i >= 0 {
		return kinds[i]
	}
	return ""
}

// leaveVersions leaves the other versions of kinds that get a CRD of their own: their code converts objects of the old
// CRD, and no CRD converts to another one.
func (l *decision) leaveVersions() {
	for _, version := range l.OtherVersions() {
		noted := false
		for _, pkg := range l.Project.Packages {
			for _, file := range pkg.Files {
				if pkg.Dir != version.Package.Dir || !source.Imports(file.Syntax, l.Old.Package.Path) || !l.Request.Consumes(file.Path) {
					continue
				}
				l.left[file] = true
				if !noted {
					l.Note(file.Path, "goes on using %s, as all of %s does: API servers convert objects of the old CRD between its versions "+
						"as long as there are any. The operator has to serve that conversion until then", l.Old.Name(), version.Name())
				}
				noted = true
			}
		}
	}
}

// OtherVersions are those of the kinds' CRDs besides the ones that the kinds move from and to.
func (l *Layout) OtherVersions() []*project.Version {
	return slices.DeleteFunc(l.Project.Versions(), func(v *project.Version) bool {
		return v.Group != l.Old.Group || v.Package.Dir == l.Dir(OldPackage) || v.Package.Dir == l.Dir(NewPackage) ||
			!slices.ContainsFunc(l.Request.Kinds, func(kind string) bool { return v.HasAll([]string{kind}) })
	})
}

// movedIn names something that moves and that a file uses in the old version, and what it uses in both.
func (l *Layout) movedIn(file *project.File) (old, both string) {
	inOld, inNew := map[string]bool{}, map[string]bool{}
	for ident, object := range file.Info.Uses {
		if object.Pkg() == nil || object.Parent() != object.Pkg().Scope() || !l.InFile(file, ident) {
			continue
		}
		if object.Pkg().Path() == l.graphs[NewPackage].Package.Path {
			inNew[object.Name()] = true
		} else if d := l.Graph.Owner(object); d != nil && l.DestinationOf(d) == split.New {
			inOld[object.Name()] = true
		}
	}
	for _, d := range l.Graph.Declarations {
		for _, name := range d.Names {
			if inOld[name] && old == "" {
				old = name
			}
			if inOld[name] && inNew[name] && both == "" {
				both = name
			}
		}
	}
	return old, both
}

// noteMeanings finds the constants, variables and functions that importers find in the new version from now on, and that
// it declares otherwise than the old one. Types differ as well, but the compiler looks at those.
func (l *decision) noteMeanings() {
	for _, pkg := range l.Project.Packages {
		for _, file := range pkg.Files {
			if pkg == l.Old.Package || file.Generated || !source.Imports(file.Syntax, l.Old.Package.Path) || !l.Consumes(file) {
				continue
			}
			noted := map[*split.Declaration]bool{}
			l.EachUse(file, []ast.Node{file.Syntax}, func(ident *ast.Ident, d *split.Declaration) {
				if _, isFormer := l.former[d]; isFormer || d.What == "type" || d.Anchor || noted[d] ||
					l.HomeOf(d, NewPackage) != NewPackage || l.isSame(d, NewPackage) {
					return
				}
				noted[d] = true
				there := l.graphs[NewPackage].Package.Types.Scope().Lookup(ident.Name)
				if there == nil {
					return
				}
				l.Note(l.Project.Place(ident.Pos()), "%s is declared otherwise in %s, at %s, which the code uses from now on: "+
					"compare the two", ident.Name, l.Version, l.Project.Place(there.Pos()))
			})
		}
	}
}

// checkImports refuses a circle with code that is there already: a conversion, say.
func (l *decision) checkImports(crossings map[border][]crossing) {
	if !l.Exists(NewPackage) {
		return
	}
	there := l.graphs[NewPackage].Package
	for _, one := range []struct {
		in   *project.Package
		path string
		need border
		says string
	}{
		{there, l.Old.Package.Path, border{OldPackage, NewPackage}, "imports the old version, which would need the new one " +
			"(%s): use --old keep and --shared shared"},
		{l.Old.Package, there.Path, border{NewPackage, OldPackage}, "imports the new version, which would need the old one " +
			"(%s): use --assign or --shared shared"},
	} {
		if len(crossings[one.need]) == 0 {
			continue
		}
		if at := importOf(one.in, one.path); at.IsValid() {
			l.Block(l.Project.Place(at), one.says, crossings[one.need][0].used.Name)
		}
	}
}

// importOf is where code of a package, other than tests, imports a path.
func importOf(pkg *project.Package, path string) token.Pos {
	for _, file := range pkg.Files {
		if specs := source.ImportSpecs(file.Syntax, path); len(specs) > 0 && !file.Test {
			return specs[0].Pos()
		}
	}
	return token.NoPos
}

// KindsAndLists are what the new version calls the types of the kinds that move and of their lists.
func (l *Layout) KindsAndLists() (names []string) {
	for _, name := range l.Request.Kinds {
		kind, _ := l.Old.Kind(name)
		for name := range strings.FieldsSeq(kind.Name + " " + kind.List) {
			names = append(names, cmp.Or(l.copies[name], name))
		}
	}
	return names
}
