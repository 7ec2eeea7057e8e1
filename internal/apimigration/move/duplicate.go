// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// side says which kinds a piece of code is about.
type side struct{ moving, staying bool }

// isDuplicated reports whether each version has its own of a declaration.
func (s *surgery) isDuplicated(d *split.Declaration) bool {
	return s.placed[d].Destination == split.Shared && s.request.Shared == SharedDuplicate
}

// duplicated chooses between the two versions of what a selector names: the new one where the code around is about
// kinds that move, and no others. The code around is the file, or else the declaration, or else the statement.
func (i *importer) duplicated(selector *ast.SelectorExpr) home {
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
			return homeNew
		case about.staying || node == i.file.Syntax:
			return homeOld
		}
		break // in a file about both, it is about none
	}
	i.finding(i.project.Place(selector.Pos()),
		"%s is in both versions, and the code around does not say which is meant: it stays the old one's",
		selector.Sel.Name)
	return homeOld
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
		d := i.graph.Owner(namedIn(i.file.Info.TypeOf(expression)))
		if selector, ok := expression.(*ast.SelectorExpr); ok && i.owner(selector) != nil {
			d = i.owner(selector)
		}
		if d != nil {
			found.moving = found.moving || i.placed[d].Destination == split.New
			found.staying = found.staying || i.placed[d].Destination == split.Stay
		}
		return true
	})
	i.sides[node] = found
	return found
}

// namedIn is the type that others, such as pointers and lists, are made of.
func namedIn(t types.Type) types.Object {
	for {
		switch of := types.Unalias(t).(type) {
		case *types.Named:
			return of.Obj()
		case interface{ Elem() types.Type }:
			t = of.Elem()
		default:
			return nil
		}
	}
}
