// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// OwnerComparison compares the apiVersion of an owner reference with the old version. Owner references keep the
// apiVersion that they were written with, and new ones have the new version: such a comparison has to accept both.
type OwnerComparison struct {
	Expr  *ast.BinaryExpr
	Owner ast.Expr // the apiVersion of the reference
	// Anchor is the old version's GroupVersion or SchemeGroupVersion, whose String is compared, maybe by a variable.
	Anchor *split.Declaration
}

// OwnerComparisons finds the comparisons of a file that are about kinds that move. A comparison of anything else than
// a field APIVersion of an OwnerReference is not among them: where its apiVersion comes from is not known. Neither is
// one in code that names the new version already, because that code treats the versions differently.
func (s *Reader) OwnerComparisons(pkg *project.Package, file *project.File) (found []OwnerComparison) {
	if s.InPlace() || len(s.Successions) > 0 {
		return nil // the owners are other objects
	}
	for _, decl := range file.Syntax.Decls {
		if s.namesNew(file, decl) {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			comparison, ok := node.(*ast.BinaryExpr)
			if !ok || comparison.Op != token.EQL && comparison.Op != token.NEQ {
				return true
			}
			for _, sides := range [][2]ast.Expr{{comparison.X, comparison.Y}, {comparison.Y, comparison.X}} {
				anchor := s.anchorOf(pkg, file, sides[1])
				if anchor != nil && isOwnerVersion(file, sides[0]) && !s.isAboutStaying(file, comparison) {
					found = append(found, OwnerComparison{Expr: comparison, Owner: sides[0], Anchor: anchor})
				}
			}
			return true
		})
	}
	return found
}

// namesNew reports whether code has the apiVersion of the new version in a string, or in a variable that holds one.
func (s *Reader) namesNew(file *project.File, code ast.Node) (found bool) {
	ast.Inspect(code, func(node ast.Node) bool {
		if expr, ok := node.(ast.Expr); ok {
			text, _ := s.valueOf(file, expr)
			found = found || text == s.Group+"/"+s.Version
		}
		return !found
	})
	return found
}

// isOwnerVersion recognises the field APIVersion of an OwnerReference, read without a call, so that reading it twice
// means the same.
func isOwnerVersion(file *project.File, expr ast.Expr) bool {
	field, ok := ast.Unparen(expr).(*ast.SelectorExpr)
	if !ok || field.Sel.Name != "APIVersion" {
		return false
	}
	of := NamedIn(file.Info.TypeOf(field.X))
	if of == nil || of.Name() != "OwnerReference" || of.Pkg() == nil ||
		project.Unvendored(of.Pkg().Path()) != project.MetaPackage {
		return false
	}
	calls := false
	ast.Inspect(field, func(node ast.Node) bool {
		_, call := node.(*ast.CallExpr)
		_, literal := node.(*ast.FuncLit)
		receives, _ := node.(*ast.UnaryExpr)
		calls = calls || call || literal || receives != nil && receives.Op == token.ARROW
		return !calls
	})
	return !calls
}

// anchorOf is the anchor whose String an expression is: v1.GroupVersion.String(), or a variable that holds it and never
// changes.
func (s *Reader) anchorOf(pkg *project.Package, file *project.File, expr ast.Expr) *split.Declaration {
	switch expr := ast.Unparen(expr).(type) {
	case *ast.CallExpr:
		method, ok := expr.Fun.(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "String" {
			return nil
		}
		anchor, ok := ast.Unparen(method.X).(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		d := s.Graph.Owner(file.Info.Uses[anchor.Sel])
		if d == nil || s.DestinationOf(d) != split.Anchor || d.Name != "GroupVersion" && d.Name != "SchemeGroupVersion" {
			return nil
		}
		return d
	case *ast.Ident:
		variable, ok := file.Info.Uses[expr].(*types.Var)
		if !ok || variable.IsField() {
			return nil
		}
		in, value := initialOf(pkg, variable)
		if value == nil || changes(pkg, variable) {
			return nil
		}
		if _, again := ast.Unparen(value).(*ast.Ident); again {
			return nil // a variable that holds another one
		}
		return s.anchorOf(pkg, in, value)
	}
	return nil
}

// isSame reports whether two objects are one, also where a test has its own copy of the package.
func isSame(a, b types.Object) bool {
	return a == b || a != nil && b != nil && a.Pkg() != nil && b.Pkg() != nil && a.Name() == b.Name() &&
		a.Pkg().Path() == b.Pkg().Path() && a.Parent() == a.Pkg().Scope() && b.Parent() == b.Pkg().Scope()
}

// initialOf is the value that a variable of a package begins with, and the file that says so; nil where it is not one
// expression.
func initialOf(pkg *project.Package, variable *types.Var) (in *project.File, value ast.Expr) {
	for _, file := range pkg.Files {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				for i, name := range node.Names {
					if len(node.Values) == len(node.Names) && isSame(file.Info.Defs[name], variable) {
						in, value = file, node.Values[i]
					}
				}
			case *ast.AssignStmt:
				for i, left := range node.Lhs {
					name, ok := left.(*ast.Ident)
					if ok && len(node.Rhs) == len(node.Lhs) && isSame(file.Info.Defs[name], variable) {
						in, value = file, node.Rhs[i]
					}
				}
			}
			return value == nil
		})
	}
	return in, value
}

// changes reports whether a package assigns to a variable again, or takes its address. Another package can change an
// exported one.
func changes(pkg *project.Package, variable *types.Var) bool {
	found := variable.Exported() && variable.Pkg() != nil && variable.Parent() == variable.Pkg().Scope()
	for _, file := range pkg.Files {
		is := func(expr ast.Expr) bool {
			name, ok := ast.Unparen(expr).(*ast.Ident)
			return ok && isSame(file.Info.Uses[name], variable)
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.AssignStmt:
				found = found || slices.ContainsFunc(node.Lhs, is)
			case *ast.RangeStmt:
				found = found || node.Key != nil && is(node.Key) || node.Value != nil && is(node.Value)
			case *ast.UnaryExpr:
				found = found || node.Op == token.AND && is(node.X)
			}
			return !found
		})
	}
	return found
}

// isAboutStaying reports whether the condition around a comparison names kinds that stay, and none that moves.
func (s *Reader) isAboutStaying(file *project.File, comparison *ast.BinaryExpr) bool {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, comparison.Pos(), comparison.End())
	var condition ast.Node = comparison
	for _, node := range path {
		binary, ok := node.(*ast.BinaryExpr)
		if _, grouped := node.(*ast.ParenExpr); !grouped && (!ok || binary != comparison && binary.Op != token.LAND &&
			binary.Op != token.LOR) {
			break
		}
		condition = node
	}
	stays, moves := false, false
	ast.Inspect(condition, func(node ast.Node) bool {
		if expr, ok := node.(ast.Expr); ok {
			if name, ok := known(file, expr); ok {
				stays, moves = stays || s.isStaying(name), moves || s.Moves(name)
			}
		}
		return true
	})
	return stays && !moves
}

// IsSettled reports whether a use of an anchor gets lost in comparisons that accept both versions: it is compared
// itself, or it is the value of a variable that is used there alone. accepted are those of the whole package.
func (s *Reader) IsSettled(pkg *project.Package, file *project.File, use ast.Expr, accepted []OwnerComparison) bool {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, use.Pos(), use.End())
	for _, node := range path {
		switch node := node.(type) {
		case *ast.BinaryExpr:
			return isAccepted(accepted, node)
		case *ast.ValueSpec:
			return len(node.Names) == 1 && s.isComparedOnly(pkg, file.Info.Defs[node.Names[0]], accepted)
		case *ast.AssignStmt:
			name, ok := node.Lhs[0].(*ast.Ident)
			return ok && len(node.Lhs) == 1 && s.isComparedOnly(pkg, file.Info.Defs[name], accepted)
		case ast.Stmt, ast.Decl, *ast.FuncLit, *ast.CompositeLit:
			return false
		}
	}
	return false
}

func isAccepted(accepted []OwnerComparison, expr *ast.BinaryExpr) bool {
	return slices.ContainsFunc(accepted, func(one OwnerComparison) bool { return one.Expr == expr })
}

// isComparedOnly reports whether a variable is used in comparisons that accept both versions, and nowhere else.
func (s *Reader) isComparedOnly(pkg *project.Package, variable types.Object, accepted []OwnerComparison) bool {
	held, ok := variable.(*types.Var)
	if !ok || changes(pkg, held) {
		return false
	}
	used, compared := 0, 0
	for _, file := range pkg.Files {
		for name, object := range file.Info.Uses {
			if !isSame(object, held) || !s.InFile(file, name) {
				continue
			}
			used++
			if slices.ContainsFunc(accepted, func(one OwnerComparison) bool {
				return ast.Unparen(one.Expr.X) == ast.Expr(name) || ast.Unparen(one.Expr.Y) == ast.Expr(name)
			}) {
				compared++
			}
		}
	}
	return used > 0 && used == compared
}

// IsCompared reports whether a use of what says the version is compared with something, is a case of a switch, or a key
// of a map: what it is compared with decides which version is meant, and not the kind that the code around names.
func (s *Reader) IsCompared(file *project.File, use ast.Expr) bool {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, use.Pos(), use.End())
	var inner ast.Node = use
	for _, node := range path {
		if node == inner {
			continue
		}
		switch node := node.(type) {
		case *ast.BinaryExpr:
			return node.Op == token.EQL || node.Op == token.NEQ
		case *ast.CaseClause:
			expr, ok := inner.(ast.Expr)
			return ok && slices.Contains(node.List, expr)
		case *ast.KeyValueExpr:
			if node.Key == inner {
				return true
			}
		case *ast.CallExpr:
			if node.Fun != inner && !file.Info.Types[node.Fun].IsType() {
				return false // it is passed to a function
			}
		case ast.Stmt, ast.Decl, *ast.FuncLit:
			return false
		}
		inner = node
	}
	return false
}
