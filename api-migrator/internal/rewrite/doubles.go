// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// isDouble reports whether a generated file is a double of interfaces that are changed: it is changed like them. A
// double of generated code, such as a client's interface, stays as that code stays.
func (s *importers) isDouble(pkg *project.Package, file *project.File) bool {
	if source.DoubleMaker(file.Source) == "" || !s.Consumes(file) ||
		slices.ContainsFunc(file.Syntax.Imports, func(spec *ast.ImportSpec) bool { return file.PackageName(spec) == "." }) {
		return false
	}
	declaredIn := s.interfacesOf(pkg, file)
	return len(declaredIn) > 0 && !slices.ContainsFunc(declaredIn, func(f *project.File) bool {
		return f.Generated || !s.Consumes(f)
	})
}

// interfacesOf finds the files of the interfaces with types of the old version that the types of a file implement.
func (s *importers) interfacesOf(pkg *project.Package, file *project.File) []*project.File {
	var found []*project.File
	eachType(file, func(double types.Object) {
		for _, other := range s.Project.Packages {
			for _, in := range other.Files {
				if in.Test && other != pkg {
					continue
				}
				eachType(in, func(one types.Object) {
					contract, ok := one.Type().Underlying().(*types.Interface)
					if ok && s.namesOld(contract) && types.Implements(types.NewPointer(double.Type()), contract) {
						found = append(found, in)
					}
				})
			}
		}
	})
	return found
}

// eachType calls do for the types that a file declares, as far as they are known.
func eachType(file *project.File, do func(types.Object)) {
	for _, decl := range file.Syntax.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if declared, ok := spec.(*ast.TypeSpec); ok {
				if object := file.Info.Defs[declared.Name]; object != nil {
					do(object)
				}
			}
		}
	}
}

// namesOld reports whether a method of an interface has a type of the old version.
func (s *importers) namesOld(contract *types.Interface) bool {
	for method := range contract.Methods() {
		if strings.Contains(types.TypeString(method.Type(), nil), s.Old.Package.Path+".") {
			return true
		}
	}
	return false
}
