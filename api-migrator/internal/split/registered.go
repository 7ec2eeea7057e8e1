// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Registered is the type of an argument such as &T{}.
func (g *Graph) Registered(file *project.File, argument ast.Expr) *Declaration {
	address, ok := argument.(*ast.UnaryExpr)
	if !ok || address.Op != token.AND {
		return nil
	}
	literal, ok := address.X.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	ident, ok := literal.Type.(*ast.Ident)
	if !ok {
		return nil
	}
	return g.Owner(file.Info.Uses[ident])
}

// RegisteredAlone is T where a statement is a call that needs all its arguments, one of which is &T{}, such as
// scheme.AddTypeDefaultingFunc(&T{}, …); nil for other statements, such as scheme.AddKnownTypes(gv, &T{}, …).
func (g *Graph) RegisteredAlone(file *project.File, statement *ast.ExprStmt) *Declaration {
	call, ok := statement.X.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if signature, ok := file.Info.TypeOf(call.Fun).(*types.Signature); !ok || signature.Variadic() {
		return nil
	}
	for _, argument := range call.Args {
		if d := g.Registered(file, argument); d != nil {
			return d
		}
	}
	return nil
}
