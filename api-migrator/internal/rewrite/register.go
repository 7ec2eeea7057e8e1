// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// registrations are the edits that keep the old version from registering kinds that it does not have any more.
func (s *oldVersion) registrations(file *project.File) []source.Edit {
	edits := s.Unregistered(file, layout.OldPackage)
	for _, decl := range file.Syntax.Decls {
		function, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok || !layout.IsInit(function):
		case s.RegistersOnlyGone(file, function):
			edits = append(edits, source.Replacement(file.Source,
				source.SpanOf(s.Project.Fset, file.Syntax, function), ""))
		default:
			for _, statement := range function.Body.List {
				if s.Leaves(file, statement) {
					edits = append(edits, source.Remove(s.Project.Fset, file.Source, statement))
				}
			}
		}
	}
	return edits
}

// registerBeside are the edits that register the new kind next to the old one where a package has one list of its
// kinds.
func (s *oldVersion) registerBeside(file *project.File) []source.Edit {
	if !s.InPlace() {
		return nil
	}
	var edits []source.Edit
	add := func(elements []ast.Expr) {
		for i, element := range elements {
			d := s.Graph.Registered(file, element)
			if d == nil || s.CopyOf(d.Name) == "" {
				continue
			}
			between := ", "
			if i > 0 && s.Line(elements[i-1].Pos()) != s.Line(element.Pos()) || i+1 < len(elements) &&
				s.Line(elements[i+1].Pos()) != s.Line(element.Pos()) {
				between = ",\n"
			}
			at := s.Project.Offset(element.End())
			edits = append(edits, source.Insert(at, between+"&"+s.CopyOf(d.Name)+"{}"))
		}
	}
	for _, d := range s.Graph.Declarations {
		if !d.Anchor {
			continue
		}
		for _, part := range d.Parts {
			for _, node := range part.Nodes() {
				ast.Inspect(node, func(node ast.Node) bool {
					switch node := node.(type) {
					case *ast.CallExpr:
						if part.File == file {
							add(node.Args)
						}
					case *ast.CompositeLit:
						if part.File == file {
							add(node.Elts)
						}
					}
					return true
				})
			}
		}
	}
	return edits
}
