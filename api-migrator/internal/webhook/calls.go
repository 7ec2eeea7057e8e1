// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// kindOf is the kind that moves and that an expression is a value of; empty for other types. isKnown is false where the
// type may be that of a kind, and no compiler tells: an interface or a type parameter.
func (r *reader) kindOf(file *project.File, expr ast.Expr) (kind string, isKnown bool) {
	if expr == nil {
		return "", false
	}
	of := named(file.Info.TypeOf(expr))
	if of == nil || types.IsInterface(of.Type()) {
		return "", false
	}
	if of.Pkg() == nil || of.Pkg().Path() != r.Old.Package.Path {
		return "", true
	}
	for _, name := range r.Request.Kinds {
		if of.Name() == name {
			return name, true
		}
	}
	return "", true
}

// named is the type that a value or a pointer is of; nil if that has no name.
func named(t types.Type) *types.TypeName {
	if t == nil {
		return nil
	}
	t = types.Unalias(t)
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	if of, ok := t.(*types.Named); ok {
		return of.Obj()
	}
	return nil
}

// eachCall calls do for each call of a function or method of controller-runtime, which may be a variable there.
func eachCall(file *project.File, decl ast.Decl, do func(call *ast.CallExpr, name string)) {
	ast.Inspect(decl, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		function := call.Fun
		if instance, ok := function.(*ast.IndexExpr); ok {
			function = instance.X
		}
		var name *ast.Ident
		switch function := function.(type) {
		case *ast.SelectorExpr:
			name = function.Sel
		case *ast.Ident:
			name = function
		default:
			return true
		}
		if object := file.Info.Uses[name]; object != nil && object.Pkg() != nil &&
			strings.HasPrefix(project.Unvendored(object.Pkg().Path())+"/", "sigs.k8s.io/controller-runtime/") {
			do(call, object.Name())
		}
		return true
	})
}

// textOf is the value of a constant expression.
func textOf(file *project.File, expr ast.Expr) (string, bool) {
	value := file.Info.Types[expr].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}
