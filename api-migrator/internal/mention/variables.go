// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// assignments are what a package does to its variables of types that can say a version, by keyOf them.
type assignments struct {
	initial map[any]placed
	// changed are variables that the package assigns to again, of which it changes a field, or takes the address.
	changed map[any]bool
}

// placed is an expression and the file that it stands in.
type placed struct {
	file *project.File
	expr ast.Expr
}

// keyOf is the same for one object of a package, also where a test has its own copy of the package.
func keyOf(object types.Object) any {
	if object.Pkg() != nil && object.Parent() == object.Pkg().Scope() {
		return object.Pkg().Path() + "." + object.Name()
	}
	return object
}

// assignmentsIn reads a package once.
func (s *Reader) assignmentsIn(pkg *project.Package) *assignments {
	if known, ok := s.assigned[pkg]; ok {
		return known
	}
	a := &assignments{initial: map[any]placed{}, changed: map[any]bool{}}
	s.assigned[pkg] = a
	for _, file := range pkg.Files {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			a.read(file, node)
			return true
		})
	}
	return a
}

func (a *assignments) read(file *project.File, node ast.Node) {
	switch node := node.(type) {
	case *ast.ValueSpec:
		for i, name := range node.Names {
			a.begin(file, name, i, len(node.Names), node.Values)
		}
	case *ast.AssignStmt:
		for i, left := range node.Lhs {
			if name, ok := left.(*ast.Ident); ok {
				a.begin(file, name, i, len(node.Lhs), node.Rhs)
			}
			a.change(file, left)
		}
	case *ast.RangeStmt:
		a.change(file, node.Key)
		a.change(file, node.Value)
	case *ast.UnaryExpr:
		if node.Op == token.AND {
			a.change(file, node.X)
		}
	}
}

// begin takes what a variable begins with. Of a call with several results, that is the call, for the first variable.
func (a *assignments) begin(file *project.File, name *ast.Ident, i, names int, values []ast.Expr) {
	variable := file.Info.Defs[name]
	switch {
	case variable == nil || !carriesVersion(variable.Type()):
	case len(values) == names:
		a.initial[keyOf(variable)] = placed{file, values[i]}
	case len(values) == 1 && i == 0:
		a.initial[keyOf(variable)] = placed{file, values[0]}
	}
}

// change takes the variable that an expression is, or is a field of.
func (a *assignments) change(file *project.File, expr ast.Expr) {
	for {
		switch of := ast.Unparen(expr).(type) {
		case *ast.SelectorExpr:
			if variable, ok := file.Info.Uses[of.Sel].(*types.Var); ok && !variable.IsField() && carriesVersion(variable.Type()) {
				a.changed[keyOf(variable)] = true // of another package
			}
			expr = of.X
			continue
		case *ast.Ident:
			if variable := file.Info.Uses[of]; variable != nil && carriesVersion(variable.Type()) {
				a.changed[keyOf(variable)] = true
			}
		}
		return
	}
}

// heldBy is what a variable of a package holds, and never anything else; no expression where that is not certain.
// Another package can change an exported variable.
func (s *Reader) heldBy(pkg *project.Package, variable *types.Var) placed {
	isExported := variable.Exported() && variable.Pkg() != nil && variable.Parent() == variable.Pkg().Scope()
	in := s.assignmentsIn(pkg)
	held := in.initial[keyOf(variable)]
	if _, another := ast.Unparen(held.expr).(*ast.Ident); another || variable.IsField() || isExported ||
		in.changed[keyOf(variable)] {
		return placed{}
	}
	return held
}

// heldByExported is what an exported variable of a package of the project holds, and the package; no expression if any
// code of the project may change it, or if another variable is declared with it.
func (s *Reader) heldByExported(variable *types.Var) (held placed, in *project.Package) {
	if variable.Pkg() == nil || !variable.Exported() || variable.Parent() != variable.Pkg().Scope() {
		return placed{}, nil
	}
	key := keyOf(variable)
	for _, pkg := range s.Project.Packages {
		read := s.assignmentsIn(pkg)
		if read.changed[key] {
			return placed{}, nil
		}
		if initial, ok := read.initial[key]; ok && in == nil {
			held, in = initial, pkg
		}
	}
	if in == nil {
		return placed{}, nil
	}
	path, _ := astutil.PathEnclosingInterval(held.file.Syntax, held.expr.Pos(), held.expr.End())
	for _, node := range path {
		if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Names) == 1 {
			return held, in
		}
	}
	return placed{}, nil
}

// usesOf are the uses of an object in a package, in the order of the files.
func usesOf(pkg *project.Package, object types.Object) (uses []placed) {
	key := keyOf(object)
	for _, file := range pkg.Files {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok && name.Name == object.Name() {
				if used := file.Info.Uses[name]; used != nil && keyOf(used) == key {
					uses = append(uses, placed{file, name})
				}
			}
			return true
		})
	}
	return uses
}
