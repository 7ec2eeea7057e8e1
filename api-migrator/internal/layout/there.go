// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// present is what the packages of a migration declare before it: the new version, if other kinds have moved there
// earlier, and the shared packages.
type present struct {
	graphs map[Home]*split.Graph
	// reused are declarations that have a package to go to which declares the same already.
	reused map[*split.Declaration]bool
	// twins are shared declarations of which each version has its own.
	twins map[*split.Declaration]bool
	// former are old names of what another package declares.
	former map[*split.Declaration]formerName
	// needed are anchors that code which moves uses, and that the new version lacks. anchors are those that it calls
	// otherwise.
	needed  map[*split.Declaration]bool
	anchors map[string]string
	// left are importers that go on using the old version whatever the request says.
	left map[*project.File]bool
	// clientUses are what becomes of uses of generated clients, by file.
	clientUses map[*project.File][]ClientUse
	// clientsLag: packages stay on the old version because of clients that are generated for it.
	clientsLag bool
	// onlyImporters: the new version has all the kinds already.
	onlyImporters bool
}

// formerName is where a declaration's old name leads.
type formerName struct {
	home Home
	name string
}

// lookAround reads the packages that exist already.
func (l *decision) lookAround() {
	l.present = present{graphs: map[Home]*split.Graph{}, reused: map[*split.Declaration]bool{},
		twins: map[*split.Declaration]bool{}, former: map[*split.Declaration]formerName{},
		needed: map[*split.Declaration]bool{}, anchors: map[string]string{}, left: map[*project.File]bool{},
		clientUses: map[*project.File][]ClientUse{}}
	if l.InPlace() {
		return
	}
	into := l.Project.Version(l.Request.To)
	for h, dir := range l.dirs {
		at := slices.IndexFunc(l.Project.Packages, func(p *project.Package) bool {
			return p.Dir == dir && !strings.HasSuffix(p.Name, "_test")
		})
		if at >= 0 && h != OldPackage && (h != NewPackage || into != nil) {
			l.graphs[h] = split.NewGraph(l.Project.Packages[at])
		}
	}
	l.onlyImporters = into != nil && l.Request.ToKind == "" && into.HasAll(l.Request.Kinds)
	for _, d := range l.Graph.Declarations {
		if home, name, ok := l.formerName(d); ok {
			l.former[d] = formerName{home, name}
		}
	}
}

// Destinations are the packages that code goes to.
func Destinations() []Home { return []Home{NewPackage, SharedPackage, InternalPackage} }

// Exists reports whether a package was there before the migration, with declarations that stay as they are.
func (l *Layout) Exists(h Home) bool { return l.graphs[h] != nil }

// Present is what a package declared before the migration; nil if it was not there.
func (l *Layout) Present(h Home) *split.Graph { return l.graphs[h] }

// MovesOnlyImporters reports whether the new version has the kinds already, so that the importers alone are left.
func (l *Layout) MovesOnlyImporters() bool { return l.onlyImporters }

// Consumes reports whether a file outside the old version's package is to use the new names.
func (l *Layout) Consumes(file *project.File) bool {
	return l.Request.Consumes(file.Path) && !l.left[file]
}

// HasFollowers reports whether importers are to follow to the new version later: those that the request leaves, and those
// that use generated clients.
func (l *Layout) HasFollowers() bool {
	return l.clientsLag || !slices.Equal(l.Request.Consumers, []string{request.ConsumersAll})
}

// PackageName is the name that a package of the migration has or gets.
func (l *Layout) PackageName(h Home) string {
	if l.Exists(h) {
		return l.graphs[h].Package.Name
	}
	if h == NewPackage {
		return source.Identifier(l.Version)
	}
	return path.Base(l.Dir(h))
}

// formerName finds out whether a declaration is an old name that an earlier move has left: an alias, a constant, a
// deprecated variable, or a function that only calls another.
func (l *Layout) formerName(d *split.Declaration) (home Home, name string, ok bool) {
	part := d.Parts[0]
	var target ast.Expr
	if function, isFunction := part.Decl.(*ast.FuncDecl); isFunction {
		target = forwarded(function)
	} else if len(part.Specs) == 1 {
		switch spec := part.Specs[0].(type) {
		case *ast.TypeSpec:
			if spec.Assign.IsValid() {
				target = spec.Type
			}
		case *ast.ValueSpec:
			if len(spec.Values) == 1 && len(spec.Names) == 1 &&
				(d.What == "const" || source.IsDeprecated(source.DocOf(d.Node()))) {
				target = spec.Values[0]
			}
		}
	}
	selector, isSelector := target.(*ast.SelectorExpr)
	if !isSelector {
		return "", "", false
	}
	ident, isIdent := selector.X.(*ast.Ident)
	if !isIdent {
		return "", "", false
	}
	imported, isPackage := part.File.Info.Uses[ident].(*types.PkgName)
	for h, graph := range l.graphs {
		if isPackage && graph.Package.Path == imported.Imported().Path() {
			return h, selector.Sel.Name, true
		}
	}
	return "", "", false
}

// forwarded is the function that another one calls, with go:fix inline above it; nil if it does anything else.
func forwarded(function *ast.FuncDecl) ast.Expr {
	if function.Doc == nil || function.Body == nil || len(function.Body.List) != 1 ||
		!slices.ContainsFunc(function.Doc.List, func(c *ast.Comment) bool { return c.Text == "//go:fix inline" }) {
		return nil
	}
	var expr ast.Expr
	switch statement := function.Body.List[0].(type) {
	case *ast.ExprStmt:
		expr = statement.X
	case *ast.ReturnStmt:
		if len(statement.Results) == 1 {
			expr = statement.Results[0]
		}
	}
	if call, ok := expr.(*ast.CallExpr); ok {
		return call.Fun
	}
	return nil
}

// placeFormer places an old name.
func (l *Layout) placeFormer(placement split.Placement) split.Placement {
	former := l.former[placement.Declaration]
	placement.Destination, placement.Guess = split.Stay, false
	placement.Reason = "an old name of " + l.PackageName(former.home) + "." + former.name
	if l.onlyImporters && former.home == NewPackage {
		placement.Destination = split.New
	} else if l.onlyImporters {
		placement.Destination = split.Shared
	}
	return placement
}

// placeForImporters places what the new version has already for importers, and leaves to them what it does not have.
func (l *Layout) placeForImporters(placement split.Placement) split.Placement {
	d := placement.Declaration
	placement.Guess = false
	switch {
	case placement.Destination != split.New && placement.Destination != split.Shared:
	case !l.declares(NewPackage, d.Names):
		placement.Destination, placement.Reason = split.Stay, "only the old version has it"
	case placement.Destination == split.Shared:
		l.twins[d] = true
		placement.Reason = "each version has its own"
	default:
		placement.Reason = "the new version has it already"
	}
	return placement
}

// declares reports whether a package that exists declares all of some names.
func (l *Layout) declares(h Home, names []string) bool {
	return l.Exists(h) && !slices.ContainsFunc(names, func(name string) bool {
		return name != "_" && l.graphs[h].Package.Types.Scope().Lookup(name) == nil
	})
}

// findTwins finds the shared declarations that the new version has as well, word for word: each version keeps its own,
// and so it does with what uses them.
func (l *decision) findTwins() {
	if l.onlyImporters || !l.Exists(NewPackage) || l.Request.Shared != request.SharedPackage {
		return
	}
	isShared := func(d *split.Declaration) bool { return l.DestinationOf(d) == split.Shared && !l.twins[d] }
	for _, d := range l.Graph.Declarations {
		if isShared(d) && l.isSame(d, NewPackage) {
			l.twins[d] = true
		}
	}
	for more := true; more; {
		more = false
		for _, d := range l.Graph.Declarations {
			if !isShared(d) {
				continue
			}
			for _, part := range d.Parts {
				l.EachUse(part.File, part.Nodes(), func(_ *ast.Ident, used *split.Declaration) {
					if l.twins[used] && !l.twins[d] {
						l.twins[d], more = true, true
					}
				})
			}
		}
	}
}

// reuse finds what need not be copied since the package declares the same already, and refuses what it declares
// otherwise.
func (l *decision) reuse() {
	for _, h := range Destinations() {
		if !l.Exists(h) {
			continue
		}
		for _, d := range l.Graph.Declarations {
			if !l.GoesTo(d, h) || l.needed[d] {
				continue
			}
			if l.isSame(d, h) {
				l.reused[d] = true
				continue
			}
			for _, name := range d.Names {
				name = l.NameOf(d, name, h)
				if there := l.graphs[h].Package.Types.Scope().Lookup(name); there != nil && name != "_" {
					l.Block(l.Project.Place(d.Pos()), "%s is to be copied to %s, which has another %s at %s: rename one of them "+
						"first, or make them the same", name, l.Dir(h), name, l.Project.Place(there.Pos()))
				}
			}
		}
	}
}
