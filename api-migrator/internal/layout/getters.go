// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// getterOf is the method of the new version that stands in the place of one of the old version, such as CacheV1beta2 for
// CacheV1 of a clientset, and V1beta2 for V1 of informers, and the type that has it; without a name if there is none.
// Informers of a group have a method for each of its versions, so that the method before that one changes for another
// group.
func (c *clients) getterOf(file *project.File, getter *ast.SelectorExpr, pkg *types.Package) (ClientUse, types.Type) {
	group, ok := strings.CutSuffix(getter.Sel.Name, exported(c.Old.Version))
	if !ok || c.Request.ToKind != "" {
		return ClientUse{}, nil
	}
	becomes := ClientUse{Selector: getter, Method: group + exported(c.Version)}
	if c.Group == c.Old.Group {
		return becomes, file.Info.TypeOf(getter.X)
	}
	other := c.groupName()
	before := calledBefore(getter)
	switch {
	case !token.IsIdentifier(other), group == "" && before == nil:
		return ClientUse{}, nil
	case group == "":
		becomes.Group = other
		return becomes, resultOf(file.Info.TypeOf(before.X), other, pkg)
	}
	becomes.Method = other + exported(c.Version)
	return becomes, file.Info.TypeOf(getter.X)
}

// groupName is what generators of clients call the new group in names of methods: as its package says, or by its first
// label.
func (c *clients) groupName() string {
	const marker = "+groupGoName="
	if there := c.graphs[NewPackage]; there != nil {
		for _, file := range there.Package.Files {
			if name, ok := strings.CutPrefix(source.PackageMarker(file.Syntax, marker), marker); ok {
				return exported(name)
			}
		}
	}
	return exported(GroupLabel(c.Group, ""))
}

// calledBefore is the method of whose result a selector is a name.
func calledBefore(selector *ast.SelectorExpr) *ast.SelectorExpr {
	if selector == nil {
		return nil
	}
	call, ok := selector.X.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, _ := call.Fun.(*ast.SelectorExpr)
	return method
}

// resultOf is what a method of a type returns; nil if there is none, or if it returns more.
func resultOf(of types.Type, method string, pkg *types.Package) types.Type {
	function, ok := lookUp(of, method, pkg).(*types.Func)
	if ok && function.Signature().Results().Len() == 1 {
		return function.Signature().Results().At(0).Type()
	}
	return nil
}

// lookUp is the field or the method of a type; nil without it.
func lookUp(of types.Type, name string, pkg *types.Package) types.Object {
	if of == nil {
		return nil
	}
	object, _, _ := types.LookupFieldOrMethod(of, true, pkg, name)
	return object
}
