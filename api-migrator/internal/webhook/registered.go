// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"go/ast"
	"go/types"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// readRegistered finds handlers that are registered for a path by hand: with a server, or in a map of handlers by path,
// which other code goes through.
func (r *reader) readRegistered(file *project.File, decl ast.Decl) {
	eachCall(file, decl, func(call *ast.CallExpr, name string) {
		if name == "Register" && len(call.Args) == 2 {
			path, isKnown := textOf(file, call.Args[0])
			r.register(file, decl, call, path, isKnown, call.Args[1])
		}
	})
	ast.Inspect(decl, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || !isMapOfHandlers(file.Info.TypeOf(literal)) {
			return true
		}
		for _, element := range literal.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				path, isKnown := textOf(file, pair.Key)
				r.register(file, decl, pair, "/"+strings.TrimPrefix(path, "/"), isKnown, pair.Value)
			}
		}
		return true
	})
}

// isMapOfHandlers reports whether a type is a map of controller-runtime's handlers or webhooks by strings.
func isMapOfHandlers(t types.Type) bool {
	if t == nil {
		return false
	}
	of, ok := t.Underlying().(*types.Map)
	if !ok {
		return false
	}
	key, isBasic := of.Key().Underlying().(*types.Basic)
	value := named(of.Elem())
	return isBasic && key.Kind() == types.String && value != nil && value.Pkg() != nil &&
		project.Unvendored(value.Pkg().Path()) == "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
}

// register takes what a handler decodes, and the kind that it is about, as served at a path.
func (r *reader) register(file *project.File, decl ast.Decl, at ast.Node, path string, isKnown bool, handler ast.Expr) {
	var found []server
	ast.Inspect(handler, func(node ast.Node) bool {
		expr, ok := node.(ast.Expr)
		if !ok {
			return true
		}
		if kind, _ := r.kindOf(file, expr); kind != "" {
			for _, home := range r.homesOf(file, decl, map[string]bool{}) {
				found = append(found, server{kind: kind, at: home})
			}
		}
		if handler := named(file.Info.TypeOf(expr)); handler != nil {
			key := types.TypeString(handler.Type(), nil)
			found = append(found, r.decoders[key]...)
			r.linked[key] = isKnown
		}
		return true
	})
	for _, one := range found {
		if !isKnown {
			r.unclear = append(r.unclear, r.Project.Place(at.Pos()))
			return
		}
		one.before, one.after = path, path
		r.servers = append(r.servers, one)
	}
}
