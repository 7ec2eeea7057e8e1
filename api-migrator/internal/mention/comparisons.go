// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Comparison compares what an owner reference or an admission request says with the old version. Owner references keep
// the apiVersion that they were written with, new ones have the new version, and API servers send requests in the
// version that the rule of a webhook names: such a comparison has to accept both.
type Comparison struct {
	// Expr is the comparison; nil if Old is an expression of a case, whose switch has the subject.
	Expr *ast.BinaryExpr
	// Subject is what is compared. It is read without a call, so that reading it twice means the same.
	Subject ast.Expr
	// Old says the old version.
	Old ast.Expr
	New Again // Old for the new version
}

// Comparisons finds, by file, the comparisons of a package that are about kinds that move, in files that use the new
// names. A comparison of anything else than an owner reference or an admission request is not among them: where its
// version comes from is not known. Where the group changes, a comparison of the version alone is not among them either,
// because it goes with one of the group; nor is one in code that names the new version already, because that code
// treats the versions differently. In the old version's own package New is a text, since the package cannot import the
// new one.
func (s *Reader) Comparisons(pkg *project.Package) map[*project.File][]Comparison {
	isOwn := pkg == s.Old.Package
	if s.Renaming != nil || isOwn && s.MovesOnlyImporters() {
		return nil // the code around them names the kind, and only its author can tell which one, or the package stays
	}
	if known, ok := s.compared[pkg]; ok {
		return known
	}
	all := map[*project.File][]Comparison{}
	for _, file := range pkg.Files {
		if file.Generated || isOwn && file.Test || !isOwn && !s.Consumes(file) {
			continue
		}
		reader := codeReader{Reader: s, pkg: pkg, file: file}
		for _, decl := range file.Syntax.Decls {
			if isOwn && !s.isConcerned(file, decl) {
				continue
			}
			if found := reader.comparisonsIn(decl); len(found) > 0 {
				all[file] = append(all[file], found...)
			}
		}
	}
	s.compared[pkg] = all
	return all
}

// codeReader reads the code of one file.
type codeReader struct {
	*Reader
	pkg  *project.Package
	file *project.File
}

func (r codeReader) comparisonsIn(decl ast.Decl) (found []Comparison) {
	ast.Inspect(decl, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BinaryExpr:
			if node.Op == token.EQL || node.Op == token.NEQ {
				found = append(found, r.binary(node)...)
			}
		case *ast.SwitchStmt:
			if node.Tag != nil && r.subjectOf(node.Tag) != subjectOther {
				found = append(found, r.cases(node)...)
			}
		}
		return true
	})
	if len(found) > 0 && r.namesNew(decl) {
		return nil
	}
	return found
}

func (r codeReader) binary(comparison *ast.BinaryExpr) (found []Comparison) {
	for _, sides := range [][2]ast.Expr{{comparison.X, comparison.Y}, {comparison.Y, comparison.X}} {
		if r.subjectOf(sides[0]) == subjectOther || !isRead(r.file, sides[0]) {
			continue
		}
		said, ok := r.oldIn(sides[1])
		if ok && !r.isAboutStaying(comparison) && !r.isOfStaying(sides[0]) && (!said.bare || r.isVersionOfMoved(sides[0], comparison)) {
			found = append(found, Comparison{Expr: comparison, Subject: sides[0], Old: sides[1], New: said.again})
		}
	}
	return found
}

func (r codeReader) cases(around *ast.SwitchStmt) (found []Comparison) {
	for _, clause := range around.Body.List {
		for _, expr := range clause.(*ast.CaseClause).List {
			if said, ok := r.oldIn(expr); ok && !said.bare {
				found = append(found, Comparison{Subject: around.Tag, Old: expr, New: said.again})
			}
		}
	}
	return found
}

// namesNew reports whether code says the new version: in a text, in a variable that holds one, in the fields of a
// GroupVersionKind and its like, or by the GroupVersion of its package.
func (r codeReader) namesNew(code ast.Node) (found bool) {
	ast.Inspect(code, func(node ast.Node) bool {
		if expr, ok := node.(ast.Expr); ok {
			text, _ := r.valueOf(r.file, expr)
			found = found || r.isNewAnchor(expr) || text == r.Group+"/"+r.Version || text == r.Version && r.Version != r.Old.Version
		}
		return !found
	})
	return found
}

// isNewAnchor reports whether an expression is the group and version of the new version's package.
func (r codeReader) isNewAnchor(expr ast.Expr) bool {
	ident, ok := expr.(*ast.Ident)
	if !ok || r.InPlace() {
		return false
	}
	object, ok := r.file.Info.Uses[ident].(*types.Var)
	return ok && object.Pkg() != nil && object.Pkg().Path() == r.ImportPath(layout.NewPackage) &&
		strings.HasSuffix(object.Name(), "GroupVersion")
}

// conditionAround is the condition that a comparison is a part of.
func conditionAround(file *project.File, comparison *ast.BinaryExpr) ast.Node {
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
	return condition
}

// isAboutStaying reports whether the condition around a comparison names kinds that stay, and none that moves.
func (r codeReader) isAboutStaying(comparison *ast.BinaryExpr) bool {
	condition, stays := conditionAround(r.file, comparison), false
	r.eachText(condition, func(text string) { stays = stays || r.isStaying(text) || r.staysAsResource(text) })
	return stays && !r.namesMoved(condition)
}

// isOfStaying reports whether the function around compares the kind of an owner with kinds that stay, and with none that
// moves. subject is the owner's apiVersion.
func (r codeReader) isOfStaying(subject ast.Expr) bool {
	field, ok := ast.Unparen(subject).(*ast.SelectorExpr)
	if !ok || !isOwnerVersion(r.file, field) {
		return false
	}
	owner, stays, moves := r.textOf(r.file, field.X), false, false
	path, _ := astutil.PathEnclosingInterval(r.file.Syntax, subject.Pos(), subject.End())
	for _, around := range path {
		if _, isFunction := around.(*ast.FuncDecl); !isFunction {
			continue
		}
		ast.Inspect(around, func(node ast.Node) bool {
			comparison, ok := node.(*ast.BinaryExpr)
			if !ok {
				return true
			}
			for _, sides := range [][2]ast.Expr{{comparison.X, comparison.Y}, {comparison.Y, comparison.X}} {
				kind, isField := ast.Unparen(sides[0]).(*ast.SelectorExpr)
				text, isKnown := known(r.file, sides[1])
				if isField && isKnown && kind.Sel.Name == "Kind" && r.textOf(r.file, kind.X) == owner {
					stays, moves = stays || r.isStaying(text), moves || r.Moves(text)
				}
			}
			return true
		})
	}
	return stays && !moves
}

// namesMoved reports whether code names a kind that moves, or its resource.
func (r codeReader) namesMoved(code ast.Node) (moves bool) {
	isResource := func(text string) bool {
		return slices.ContainsFunc(r.manifestsOfGroup(),
			func(m project.Manifest) bool { return m.Plural == text && r.Moves(m.Kind) })
	}
	r.eachText(code, func(text string) { moves = moves || text != "" && (r.Moves(text) || isResource(text)) })
	return moves
}

// isVersionOfMoved reports whether a version that stands without its group is compared in a condition that names the
// group, or a kind that moves.
func (r codeReader) isVersionOfMoved(compared ast.Expr, comparison *ast.BinaryExpr) bool {
	field, ok := ast.Unparen(compared).(*ast.SelectorExpr)
	if !ok || field.Sel.Name != "Version" {
		return false
	}
	condition := conditionAround(r.file, comparison)
	found := r.namesMoved(condition)
	r.eachText(condition, func(text string) { found = found || text == r.Old.Group })
	return found
}

func (r codeReader) eachText(code ast.Node, do func(text string)) {
	ast.Inspect(code, func(node ast.Node) bool {
		if expr, ok := node.(ast.Expr); ok {
			if text, ok := known(r.file, expr); ok {
				do(text)
			}
		}
		return true
	})
}

// IsSettled reports whether an expression that says the old version gets lost in comparisons that accept both versions:
// it is compared itself, or it is the value of a variable that is used there alone.
func (s *Reader) IsSettled(pkg *project.Package, file *project.File, use ast.Expr) bool {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, use.Pos(), use.End())
	for _, node := range path {
		if expr, ok := node.(ast.Expr); ok && s.isAccepted(pkg, file, expr) {
			return true
		}
		switch node := node.(type) {
		case *ast.ValueSpec:
			return len(node.Names) == 1 && s.isComparedOnly(pkg, file.Info.Defs[node.Names[0]])
		case *ast.AssignStmt:
			name, ok := node.Lhs[0].(*ast.Ident)
			return ok && len(node.Lhs) == 1 && s.isComparedOnly(pkg, file.Info.Defs[name])
		case ast.Stmt, ast.Decl, *ast.FuncLit:
			return false
		}
	}
	return false
}

// isAccepted reports whether an expression is one side of a comparison that accepts both versions.
func (s *Reader) isAccepted(pkg *project.Package, file *project.File, expr ast.Expr) bool {
	return slices.ContainsFunc(s.Comparisons(pkg)[file], func(one Comparison) bool {
		return ast.Unparen(one.Old) == expr || one.Old == expr
	})
}

// isComparedOnly reports whether a variable or constant is used in comparisons that accept both versions, and otherwise
// in some that are about kinds that stay.
func (s *Reader) isComparedOnly(pkg *project.Package, object types.Object) bool {
	switch held := object.(type) {
	case *types.Var:
		if s.heldBy(pkg, held).expr == nil {
			return false
		}
	case *types.Const:
		if held.Exported() {
			return false
		}
	default:
		return false
	}
	uses := usesOf(pkg, object)
	accepted := func(use placed) bool { return s.isAccepted(pkg, use.file, use.expr) }
	return slices.ContainsFunc(uses, accepted) && !slices.ContainsFunc(uses, func(use placed) bool {
		return !accepted(use) && !s.isInConditionOnStaying(use.file, use.expr)
	})
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
