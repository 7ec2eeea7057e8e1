// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// repeatRegistration does for the new version what a statement or an element of a list does for the old one's
// AddToScheme or SchemeBuilder. What would mean something else when it stands there twice is left to a person.
func (i *importer) repeatRegistration(selector *ast.SelectorExpr) {
	path, _ := astutil.PathEnclosingInterval(i.file.Syntax, selector.Pos(), selector.End())
	for n, node := range path[:len(path)-1] {
		parent := path[n+1]
		var done, over bool
		switch node := node.(type) {
		case ast.Stmt:
			header := false // of an if: the whole is the statement
			if around, ok := parent.(*ast.IfStmt); ok {
				header = around.Init == node
			}
			done, over = !header && isListed(parent, node) && i.repeatStatement(node, selector), !header
		case ast.Expr:
			list, ok := parent.(*ast.CompositeLit)
			if done = ok && i.isSlice(list); done {
				i.repeatElement(list, node, selector)
			}
			_, function := node.(*ast.FuncLit)
			_, pair := node.(*ast.KeyValueExpr)
			over = function || pair || ok
		default: // a declaration
			over = true
		}
		if done {
			return
		}
		if over {
			break
		}
	}
	i.Note(i.Project.Place(selector.Pos()), "registers the old version: register the new one next to it")
}

// registersNew reports whether the code registers the new version already with the same scheme or in the same list, as
// other kinds have moved there before. A second registration does no harm, but one that is missing does: anything that
// is not certain counts as missing.
func (i *importer) registersNew(selector *ast.SelectorExpr) bool {
	if !i.Exists(layout.NewPackage) {
		return false
	}
	there := i.ImportPath(layout.NewPackage)
	list, schemes := registration(i.file, selector)
	return slices.ContainsFunc(i.pkg.Files, func(file *project.File) bool {
		found := false
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			other, ok := node.(*ast.SelectorExpr)
			if !ok || found || file.Test != i.file.Test {
				return !found
			}
			object := file.Info.Uses[other.Sel]
			if object == nil || object.Pkg() == nil || object.Pkg().Path() != there ||
				object.Parent() != object.Pkg().Scope() || !split.AddsToScheme(object.Name()) {
				return true
			}
			otherList, otherSchemes := registration(file, other)
			found = list != nil && list == otherList ||
				slices.ContainsFunc(schemes, func(scheme types.Object) bool { return slices.Contains(otherSchemes, scheme) })
			return true
		})
		return found
	})
}

// registration is the call or the list that a version's AddToScheme or SchemeBuilder stands in, and the variables that
// are named there, such as the scheme.
func registration(file *project.File, selector *ast.SelectorExpr) (list ast.Node, variables []types.Object) {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, selector.Pos(), selector.End())
	for _, node := range path {
		_, isCall := node.(*ast.CallExpr)
		_, isList := node.(*ast.CompositeLit)
		if !isCall && !isList {
			continue
		}
		ast.Inspect(node, func(node ast.Node) bool {
			if node == selector {
				return false
			}
			if ident, ok := node.(*ast.Ident); ok {
				if variable, ok := file.Info.Uses[ident].(*types.Var); ok && !variable.IsField() && !split.AddsToScheme(variable.Name()) {
					variables = append(variables, variable)
				}
			}
			return true
		})
		return node, variables
	}
	return nil, nil
}

// isListed reports whether a statement stands among those of a block or of a case, and not in a header.
func isListed(parent ast.Node, statement ast.Stmt) bool {
	switch parent := parent.(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	case *ast.CommClause:
		return parent.Comm != statement
	}
	return false
}

func (i *importer) isSlice(list *ast.CompositeLit) bool {
	t := i.file.Info.TypeOf(list)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Slice)
	return ok
}

func (i *importer) repeatElement(list *ast.CompositeLit, element ast.Expr, selector *ast.SelectorExpr) {
	between := ",\n"
	if i.Line(list.Lbrace) == i.Line(list.Rbrace) {
		between = ", "
	}
	i.insert(element.End(), between+i.again(element, selector))
}

// repeatStatement keeps what follows from an error: none is overwritten, and none keeps the other version from being
// registered unnoticed.
func (i *importer) repeatStatement(statement ast.Stmt, selector *ast.SelectorExpr) bool {
	switch statement := statement.(type) {
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt:
	case *ast.IfStmt:
		if statement.Else != nil || !isErrorCheck(statement.Cond) {
			return false
		}
	case *ast.ReturnStmt:
		if len(statement.Results) != 1 || !i.fails(statement.Results[0], selector) {
			return false
		}
		i.insert(statement.Pos(), "if err := "+i.again(statement.Results[0], selector)+
			"; err != nil {\n\treturn err\n}\n")
		return true
	case *ast.AssignStmt:
		if len(statement.Lhs) != 1 || len(statement.Rhs) != 1 {
			return false
		}
		name, call := i.source(statement.Lhs[0]), statement.Rhs[0]
		switch {
		case name == "_" || statement.Tok == token.ASSIGN && i.appendsTo(name, call):
		case i.fails(call, selector):
			i.insert(statement.End(), "\nif "+name+" == nil {\n\t"+name+" = "+i.again(call, selector)+"\n}")
			return true
		default:
			return false
		}
	default:
		return false
	}
	i.insert(statement.End(), "\n"+i.again(statement, selector))
	return true
}

// fails reports whether an expression is the call of what a selector names, and gives an error.
func (i *importer) fails(expr ast.Expr, selector *ast.SelectorExpr) bool {
	call, ok := expr.(*ast.CallExpr)
	return ok && call.Fun.Pos() == selector.Pos() &&
		types.Identical(i.file.Info.TypeOf(call), types.Universe.Lookup("error").Type())
}

// appendsTo reports whether an expression is append(name, …).
func (i *importer) appendsTo(name string, expr ast.Expr) bool {
	call, ok := expr.(*ast.CallExpr)
	return ok && i.source(call.Fun) == "append" && len(call.Args) > 1 && i.source(call.Args[0]) == name
}

// isErrorCheck reports whether a condition is of the form err != nil.
func isErrorCheck(condition ast.Expr) bool {
	comparison, ok := condition.(*ast.BinaryExpr)
	if !ok || comparison.Op != token.NEQ {
		return false
	}
	value, ok := comparison.Y.(*ast.Ident)
	return ok && value.Name == "nil"
}

// again is a piece of code with the new version's package in a selector.
func (i *importer) again(node ast.Node, selector *ast.SelectorExpr) string {
	at := source.Replace(i.Project.Fset, selector.X, i.q.name(layout.NewPackage))
	return source.Splice(i.file.Source, i.Project.Offset(node.Pos()), i.Project.Offset(node.End()), []source.Edit{at})
}

func (i *importer) source(node ast.Node) string {
	return string(i.file.Source[i.Project.Offset(node.Pos()):i.Project.Offset(node.End())])
}

func (i *importer) insert(pos token.Pos, text string) {
	at := i.Project.Offset(pos)
	i.edits = append(i.edits, source.Insert(at, text))
}
