// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// subject is what a value that says a version was taken from.
type subject int

const (
	subjectOther subject = iota
	subjectOwner
	subjectRequest
)

// schemaPackage has GroupVersion and its like.
const schemaPackage = "k8s.io/apimachinery/pkg/runtime/schema"

// subjectOf recognises the apiVersion of an OwnerReference, the kind and the resource of an AdmissionRequest, what code
// parses or takes of them, and variables that hold one of these and never change.
func (r codeReader) subjectOf(expr ast.Expr) subject {
	switch expr := ast.Unparen(expr).(type) {
	case *ast.StarExpr:
		return r.subjectOf(expr.X)
	case *ast.SelectorExpr:
		switch field := r.file.Info.Uses[expr.Sel]; {
		case field == nil || field.Pkg() == nil:
		case isOwnerVersion(r.file, expr):
			return subjectOwner
		case isRequested(r.file, expr):
			return subjectRequest
		case expr.Sel.Name == "Version" && isGroupVersion(r.file.Info.TypeOf(expr.X)):
			return r.subjectOf(expr.X)
		}
	case *ast.CallExpr:
		if len(expr.Args) == 1 && r.file.Info.Types[expr.Fun].IsType() {
			return r.subjectOf(expr.Args[0])
		}
		method, ok := expr.Fun.(*ast.SelectorExpr)
		if !ok {
			return subjectOther
		}
		parses := []string{"ParseGroupVersion", "FromAPIVersionAndKind"}
		switch function := r.file.Info.Uses[method.Sel]; {
		case function == nil || function.Pkg() == nil || project.Unvendored(function.Pkg().Path()) != schemaPackage:
		case slices.Contains(parses, function.Name()) && len(expr.Args) > 0:
			return r.subjectOf(expr.Args[0])
		case function.Name() == "GroupVersion":
			return r.subjectOf(method.X)
		}
	case *ast.Ident:
		variable, ok := r.file.Info.Uses[expr].(*types.Var)
		if !ok {
			return subjectOther
		}
		if held := r.heldBy(r.pkg, variable); held.expr != nil {
			return codeReader{r.Reader, r.pkg, held.file}.subjectOf(held.expr)
		}
	}
	return subjectOther
}

// isOwnerVersion recognises the field APIVersion of an OwnerReference.
func isOwnerVersion(file *project.File, field *ast.SelectorExpr) bool {
	of := NamedIn(file.Info.TypeOf(field.X))
	return field.Sel.Name == "APIVersion" && of != nil && of.Name() == "OwnerReference" && of.Pkg() != nil &&
		project.Unvendored(of.Pkg().Path()) == project.MetaPackage
}

// isRequested recognises the fields of an AdmissionRequest that say what the request is about, also where another type
// embeds the request.
func isRequested(file *project.File, field *ast.SelectorExpr) bool {
	return slices.Contains([]string{"Kind", "Resource", "RequestKind", "RequestResource"}, field.Sel.Name) &&
		isGroupVersion(file.Info.TypeOf(field)) &&
		strings.HasPrefix(project.Unvendored(file.Info.Uses[field.Sel].Pkg().Path()), "k8s.io/api/admission/")
}

// isGroupVersion recognises GroupVersion, GroupVersionKind and GroupVersionResource, and pointers to them.
func isGroupVersion(t types.Type) bool {
	if t == nil {
		return false
	}
	of := NamedIn(t)
	if _, isStruct := structOf(t); of == nil || of.Pkg() == nil || !isStruct {
		return false
	}
	in := project.Unvendored(of.Pkg().Path())
	return strings.HasPrefix(of.Name(), "GroupVersion") && (in == schemaPackage || in == project.MetaPackage)
}

// isRead reports whether an expression only reads: it has no call but conversions and parts of what it reads, so that
// reading it twice means the same.
func isRead(file *project.File, expr ast.Expr) bool {
	reads := true
	ast.Inspect(expr, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			method, ok := node.Fun.(*ast.SelectorExpr)
			reads = reads && (file.Info.Types[node.Fun].IsType() || ok && method.Sel.Name == "GroupVersion" &&
				isGroupVersion(file.Info.TypeOf(method.X)))
		case *ast.FuncLit:
			reads = false
		case *ast.UnaryExpr:
			reads = reads && node.Op != token.ARROW
		}
		return reads
	})
	return reads
}
