// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// builds says whether a piece of code names the old group and version by hand.
type builds int

const (
	buildsOther builds = iota
	// buildsMaybe: a part of it is computed.
	buildsMaybe
	buildsIt
)

// buildsOld recognises schema.GroupVersionKind{…} and its like with the old group and version, unless the kind or
// resource is one that stays.
func (s *Reader) buildsOld(file *project.File, literal *ast.CompositeLit) builds {
	of := NamedIn(file.Info.TypeOf(literal))
	if _, isStruct := structOf(file.Info.TypeOf(literal)); of == nil || !isStruct ||
		!strings.HasPrefix(of.Name(), "GroupVersion") {
		return buildsOther
	}
	return s.isOld(s.fieldsOf(file, literal))
}

// isOld judges the fields of a GroupVersionKind and its like; computed are those whose values are not known.
func (s *Reader) isOld(values map[string]string, computed map[string]bool) builds {
	kind, resource := values["Kind"], values["Resource"]
	ofMoved := kind != "" && s.Moves(kind) || resource != "" && s.movesAsResource(resource)
	ofNone := kind == "" && resource == ""
	switch {
	case kind != "" && !s.Moves(kind), s.staysAsResource(resource):
		return buildsOther
	case values["Group"] == s.Old.Group && values["Version"] == s.Old.Version:
		return buildsIt
	case computed["Group"] && values["Version"] == s.Old.Version && (ofMoved || ofNone),
		computed["Version"] && values["Group"] == s.Old.Group && (ofMoved || ofNone):
		return buildsMaybe
	}
	return buildsOther
}

// completesOld recognises schema.GroupKind{…}.WithVersion("v1") and its like.
func (s *Reader) completesOld(file *project.File, call *ast.CallExpr) builds {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "WithVersion" || len(call.Args) != 1 {
		return buildsOther
	}
	of := NamedIn(file.Info.TypeOf(method.X))
	if of == nil || of.Name() != "GroupKind" && of.Name() != "GroupResource" {
		return buildsOther
	}
	values, computed := map[string]string{}, map[string]bool{"Group": true}
	if literal, ok := method.X.(*ast.CompositeLit); ok {
		values, computed = s.fieldsOf(file, literal)
	}
	if value, ok := s.valueOf(file, call.Args[0]); ok {
		values["Version"] = value
	} else {
		computed["Version"] = true
	}
	return s.isOld(values, computed)
}

// structOf is the struct that a composite literal fills, also where it stands for a pointer in a list.
func structOf(t types.Type) (*types.Struct, bool) {
	if t == nil {
		return nil, false
	}
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	structure, ok := t.Underlying().(*types.Struct)
	return structure, ok
}

// fieldsOf are the texts of a literal's fields, and the names of those that are computed.
func (s *Reader) fieldsOf(file *project.File,
	literal *ast.CompositeLit) (values map[string]string, computed map[string]bool) {
	values, computed = map[string]string{}, map[string]bool{}
	structure, _ := structOf(file.Info.TypeOf(literal))
	for i, element := range literal.Elts {
		name, value := "", element
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				name, value = key.Name, pair.Value
			}
		} else if structure != nil && i < structure.NumFields() {
			name = structure.Field(i).Name()
		}
		if text, ok := s.valueOf(file, value); ok {
			values[name] = text
		} else {
			computed[name] = true
		}
	}
	return values, computed
}

// known is the text of a constant expression.
func known(file *project.File, expr ast.Expr) (string, bool) {
	value := file.Info.Types[expr].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// valueOf is the text of a constant expression, or of a variable of a package that begins with a constant.
func (s *Reader) valueOf(file *project.File, expr ast.Expr) (string, bool) {
	if text, ok := known(file, expr); ok {
		return text, true
	}
	var ident *ast.Ident
	switch expr := expr.(type) {
	case *ast.Ident:
		ident = expr
	case *ast.SelectorExpr:
		ident = expr.Sel
	default:
		return "", false
	}
	object, ok := file.Info.Uses[ident].(*types.Var)
	if !ok || object.IsField() || object.Pkg() == nil || object.Parent() != object.Pkg().Scope() {
		return "", false
	}
	text, ok := s.variables()[object.Pkg().Path()+"."+object.Name()]
	return text, ok
}

// variables are those of the project's packages that begin with a text, by package and name.
func (s *Reader) variables() map[string]string {
	if s.texts != nil {
		return s.texts
	}
	s.texts = map[string]string{}
	for _, pkg := range s.Project.Packages {
		for _, file := range pkg.Files {
			for _, decl := range file.Syntax.Decls {
				general, ok := decl.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range general.Specs {
					if spec, ok := spec.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
						for i, name := range spec.Names {
							if text, ok := known(file, spec.Values[i]); ok {
								s.texts[pkg.Path+"."+name.Name] = text
							}
						}
					}
				}
			}
		}
	}
	return s.texts
}

// NamedIn is the type that others, such as pointers and lists, are made of.
func NamedIn(t types.Type) types.Object {
	for {
		switch of := types.Unalias(t).(type) {
		case *types.Named:
			return of.Obj()
		case interface{ Elem() types.Type }:
			t = of.Elem()
		default:
			return nil
		}
	}
}
