// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// side says which kinds a piece of code is about.
type side struct{ moving, staying bool }

// duplicated chooses between the two versions of what a selector names: the new one where the code around is about
// kinds that move, and no others. The code around is the file, or else the declaration, or else the statement.
func (i *importer) duplicated(selector *ast.SelectorExpr) layout.Home {
	path, _ := astutil.PathEnclosingInterval(i.file.Syntax, selector.Pos(), selector.End())
	around := []ast.Node{i.file.Syntax}
	if len(path) > 1 {
		around = append(around, path[len(path)-2])
	}
	for _, node := range path {
		if statement, ok := node.(ast.Stmt); ok {
			around = append(around, statement)
			break
		}
	}
	for _, node := range around {
		switch about := i.about(node); {
		case about.moving && about.staying:
			continue
		case about.moving:
			return layout.NewPackage
		case about.staying || node == i.file.Syntax:
			return layout.OldPackage
		}
		break // in a file about both, it is about none
	}
	i.Note(i.Project.Place(selector.Pos()),
		"%s is in both versions, and the code around does not say which is meant: it stays the old one's",
		selector.Sel.Name)
	return layout.OldPackage
}

// about looks for the kinds that code deals with, by name or by the types of its expressions.
func (i *importer) about(node ast.Node) side {
	if known, ok := i.sides[node]; ok {
		return known
	}
	var found side
	ast.Inspect(node, func(node ast.Node) bool {
		expression, ok := node.(ast.Expr)
		if !ok {
			return true
		}
		d := i.Graph.Owner(mention.NamedIn(i.file.Info.TypeOf(expression)))
		if selector, ok := expression.(*ast.SelectorExpr); ok && i.owner(selector) != nil {
			d = i.owner(selector)
		}
		if d != nil {
			found.moving = found.moving || i.DestinationOf(d) == split.New
			found.staying = found.staying || i.DestinationOf(d) == split.Stay
		}
		return true
	})
	i.sides[node] = found
	return found
}
