// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// signature is an exported name of which a part of the type is another Go type afterwards.
type signature struct {
	name string
	pos  token.Pos
}

// noteSignatures lists what a package exports with types of the new version instead of the old one. Code of other
// programs that uses it with the old types does not compile any more, because each version has types of its own.
func (s *importers) noteSignatures(found []signature) {
	if len(found) == 0 {
		return
	}
	names := make([]string, 0, len(found))
	for _, one := range found {
		names = append(names, one.name)
	}
	s.Note(s.Project.Place(found[0].pos), "programs of others that use %s with types of %s do not compile any more: "+
		"each version has types of its own", strings.Join(slices.Compact(names), ", "), s.Old.Name())
}

// isForOthers reports whether code outside of the project can import a package.
func isForOthers(pkg *project.Package) bool {
	return pkg.Name != "main" && !slices.Contains(strings.Split(pkg.Path, "/"), "internal")
}

// signatures are those of a file that have changed.
func (i *importer) signatures() (found []signature) {
	if i.file.Test || i.file.Generated || !isForOthers(i.pkg) {
		return nil
	}
	add := func(owner string, name *ast.Ident, node ast.Node) {
		if name.IsExported() && i.hasChanged(node) {
			found = append(found, signature{strings.TrimPrefix(owner+"."+name.Name, "."), name.Pos()})
		}
	}
	for _, decl := range i.file.Syntax.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if owner, ok := receiver(decl); ok {
				add(owner, decl.Name, decl.Type)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if spec.Type != nil {
							add("", name, spec.Type)
						}
					}
				case *ast.TypeSpec:
					i.eachMember(spec, add)
				}
			}
		}
	}
	return found
}

// eachMember calls add for each field or method that a type declares, or for the type if it has neither.
func (i *importer) eachMember(spec *ast.TypeSpec, add func(owner string, name *ast.Ident, node ast.Node)) {
	var members *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		members = of.Fields
	case *ast.InterfaceType:
		members = of.Methods
	default:
		add("", spec.Name, spec.Type)
		return
	}
	for _, member := range members.List {
		if len(member.Names) == 0 { // it is embedded
			add("", spec.Name, member.Type)
		}
		for _, name := range member.Names {
			if spec.Name.IsExported() {
				add(spec.Name.Name, name, member.Type)
			}
		}
	}
}

// receiver is the type of which a function is a method; false if that type is not exported.
func receiver(decl *ast.FuncDecl) (name string, ok bool) {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return "", true
	}
	ast.Inspect(decl.Recv.List[0].Type, func(node ast.Node) bool {
		if ident, isName := node.(*ast.Ident); isName && name == "" {
			name = ident.Name
		}
		return name == ""
	})
	return name, ast.IsExported(name)
}

// hasChanged reports whether a piece of code names a type of which each version has its own, and which is the new
// version's now.
func (i *importer) hasChanged(node ast.Node) (changed bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && i.moved[selector] {
			d := i.owner(selector)
			changed = changed || d.What == "type" && i.RemainsOf(d) != layout.RemainsNamed
		}
		return !changed
	})
	return changed
}
