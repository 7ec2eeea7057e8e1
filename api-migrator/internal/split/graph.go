// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package split decides where each declaration of a version's package belongs when some of its kinds move to a new
// version: with the kinds, with the ones that stay, or in a package that both share.
//
// It is pure: it reads a type-checked package and returns values with reasons. Its invariants: a kind that was not
// named never moves; what is shared refers to nothing of a version; the result depends on the sources alone.
package split

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Declaration is what moves as one: a type with its methods, a function, or the names of one const or var spec.
// Constants that count with iota, or repeat the expression above them, are one declaration.
type Declaration struct {
	// Name is the first name that is not "_"; "_" if there is none.
	Name  string
	Names []string
	What  string // type, func, const, var
	// Parts are the pieces of source: the declaration first, then methods by file and place.
	Parts []Part
	// Anchor: each version has its own, such as SchemeGroupVersion.
	Anchor bool
	refs   map[*Declaration]bool
}

// Part is a piece of source.
type Part struct {
	File *project.File
	Decl ast.Decl
	// Specs are those of Decl that are meant; none means the whole.
	Specs []ast.Spec
}

func (d *Declaration) isValue() bool { return d.What == "const" || d.What == "var" }

// File is where the declaration stands.
func (d *Declaration) File() *project.File { return d.Parts[0].File }

// Pos is where the declaration stands.
func (d *Declaration) Pos() token.Pos {
	if specs := d.Parts[0].Specs; len(specs) > 0 {
		return specs[0].Pos()
	}
	return d.Parts[0].Decl.Pos()
}

// Graph holds the declarations of a package and which of them mention which.
type Graph struct {
	Package *project.Package
	// Declarations stand in the order of files and places.
	Declarations []*Declaration
	// Inits are the init functions, which are split by statement.
	Inits  []Part
	owners map[types.Object]*Declaration
}

// anchors are the names with which every version registers itself, if they are not those of types.
var anchors = map[string]bool{
	"SchemeGroupVersion": true, "GroupVersion": true, "SchemeBuilder": true,
	"localSchemeBuilder": true, "AddToScheme": true,
	"Install": true, "GroupName": true, "Resource": true, "Kind": true, "addKnownTypes": true,
	"RegisterDefaults": true, "addDefaultingFuncs": true, "GroupKind": true,
}

// Registers reports whether it is one of the names with which every version registers itself, and not a helper of them.
func (d *Declaration) Registers() bool {
	return d.What != "type" && slices.ContainsFunc(d.Names, func(name string) bool { return anchors[name] })
}

// AddsToScheme reports whether it puts kinds into a scheme.
func (d *Declaration) AddsToScheme() bool { return AddsToScheme(d.Name) }

// AddsToScheme reports whether what a version declares under a name puts kinds into a scheme.
func AddsToScheme(name string) bool {
	return slices.Contains([]string{"AddToScheme", "Install", "SchemeBuilder", "RegisterDefaults"}, name)
}

// Node is the syntax of a declaration: its own in a group, or all of it.
func (d *Declaration) Node() ast.Node {
	part := d.Parts[0]
	if general, ok := part.Decl.(*ast.GenDecl); ok && general.Lparen.IsValid() && len(part.Specs) > 0 {
		return part.Specs[0]
	}
	return part.Decl
}

// NewGraph reads a package. Tests and generated files declare nothing that moves, but for those that register kinds.
func NewGraph(pkg *project.Package) *Graph {
	g := &Graph{Package: pkg, owners: map[types.Object]*Declaration{}}
	var methods []Part
	for _, file := range pkg.Files {
		if file.Test || file.Generated && !file.Registers() {
			continue
		}
		for _, decl := range file.Syntax.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				g.addGeneral(file, decl)
			case *ast.FuncDecl:
				part := Part{File: file, Decl: decl}
				switch {
				case decl.Recv != nil:
					methods = append(methods, part)
				case decl.Name.Name == "init":
					g.Inits = append(g.Inits, part)
				default:
					g.add("func", []*ast.Ident{decl.Name}, part)
				}
			}
		}
	}
	for _, method := range methods {
		if owner := g.receiver(method); owner != nil {
			owner.Parts = append(owner.Parts, method)
		}
	}
	for _, d := range g.Declarations {
		d.refs = map[*Declaration]bool{}
	}
	for _, d := range g.Declarations {
		for _, part := range d.Parts {
			g.refer(d, part)
		}
	}
	return g
}

func (g *Graph) addGeneral(file *project.File, decl *ast.GenDecl) {
	switch decl.Tok {
	case token.TYPE:
		for _, spec := range decl.Specs {
			g.add("type", []*ast.Ident{spec.(*ast.TypeSpec).Name},
				Part{File: file, Decl: decl, Specs: []ast.Spec{spec}})
		}
	case token.CONST, token.VAR:
		if decl.Tok == token.CONST && counts(decl) {
			var names []*ast.Ident
			for _, spec := range decl.Specs {
				names = append(names, spec.(*ast.ValueSpec).Names...)
			}
			g.add("const", names, Part{File: file, Decl: decl, Specs: decl.Specs})
			return
		}
		for _, spec := range decl.Specs {
			g.add(decl.Tok.String(), spec.(*ast.ValueSpec).Names, Part{File: file, Decl: decl, Specs: []ast.Spec{spec}})
		}
	default: // imports
	}
}

// counts reports whether the constants of a group depend on their places in it.
func counts(decl *ast.GenDecl) bool {
	found := false
	for _, spec := range decl.Specs {
		if len(spec.(*ast.ValueSpec).Values) == 0 {
			return true
		}
		ast.Inspect(spec, func(node ast.Node) bool {
			ident, ok := node.(*ast.Ident)
			found = found || ok && ident.Name == "iota"
			return !found
		})
	}
	return found
}

func (g *Graph) add(what string, names []*ast.Ident, part Part) {
	d := &Declaration{Name: "_", What: what, Parts: []Part{part}}
	for _, ident := range names {
		if d.Name == "_" {
			d.Name = ident.Name
		}
		d.Names = append(d.Names, ident.Name)
		if object := part.File.Info.Defs[ident]; object != nil {
			g.owners[object] = d
		}
	}
	d.Anchor = d.Registers()
	g.Declarations = append(g.Declarations, d)
}

// receiver finds the type that a method belongs to.
func (g *Graph) receiver(method Part) *Declaration {
	function := method.File.Info.Defs[method.Decl.(*ast.FuncDecl).Name].(*types.Func)
	of := function.Signature().Recv().Type()
	if pointer, ok := of.(*types.Pointer); ok {
		of = pointer.Elem()
	}
	named, ok := types.Unalias(of).(*types.Named)
	if !ok {
		return nil
	}
	return g.owners[named.Origin().Obj()]
}

// Owner is the declaration of a package-level object, or nil.
func (g *Graph) Owner(object types.Object) *Declaration {
	if object == nil {
		return nil
	}
	if d := g.owners[object]; d != nil {
		return d
	}
	// A test's copy of the package has objects of its own: the name says which is meant.
	if object.Pkg() == nil || object.Pkg().Path() != g.Package.Path || object.Parent() != object.Pkg().Scope() {
		return nil
	}
	if plain := g.Package.Types.Scope().Lookup(object.Name()); plain != nil {
		return g.owners[plain]
	}
	return nil
}

// refer notes what a piece of source of a declaration uses by name. What an anchor registers for one type counts as
// used by the type, and not by the anchor: a version registers it if the version has the type.
func (g *Graph) refer(d *Declaration, part Part) {
	var look func(user *Declaration, node ast.Node)
	look = func(user *Declaration, node ast.Node) {
		ast.Inspect(node, func(inner ast.Node) bool {
			if statement, ok := inner.(*ast.ExprStmt); ok && d.Anchor && user == d {
				if alone := g.RegisteredAlone(part.File, statement); alone != nil {
					look(alone, statement)
					return false
				}
			}
			if ident, ok := inner.(*ast.Ident); ok {
				if other := g.Owner(part.File.Info.Uses[ident]); other != nil && other != user {
					user.refs[other] = true
				}
			}
			return true
		})
	}
	for _, node := range part.Nodes() {
		look(d, node)
	}
}

// Nodes are the syntax of the part.
func (p Part) Nodes() []ast.Node {
	if len(p.Specs) == 0 {
		return []ast.Node{p.Decl}
	}
	nodes := make([]ast.Node, 0, len(p.Specs))
	for _, spec := range p.Specs {
		nodes = append(nodes, spec)
	}
	return nodes
}

// reach collects what roots mention, directly or not. It stops at anchors and at what stop names.
func (g *Graph) reach(roots []*Declaration, stop map[*Declaration]bool) map[*Declaration]bool {
	found := map[*Declaration]bool{}
	queue := slices.Clone(roots)
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		if found[d] {
			continue
		}
		found[d] = true
		for other := range d.refs {
			if !other.Anchor && !stop[other] {
				queue = append(queue, other)
			}
		}
	}
	return found
}
