// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// onlyRegisters reports whether nothing but statements that register kinds goes from a file to a home.
func (s *creation) onlyRegisters(from *project.File, to layout.Home) bool {
	return to == layout.NewPackage && !slices.ContainsFunc(from.Syntax.Decls, func(decl ast.Decl) bool {
		return slices.ContainsFunc(s.OwnersOf(from, decl), func(d *split.Declaration) bool {
			return d != nil && s.GoesTo(d, to)
		})
	})
}

// noteRegistered remembers what the statements that are copied register.
func (s *creation) noteRegistered(from *project.File, to layout.Home) {
	if to != layout.NewPackage {
		return
	}
	for _, decl := range from.Syntax.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || !layout.IsInit(function) {
			continue
		}
		for _, statement := range function.Body.List {
			if s.RegistersMoved(from, statement) {
				s.EachUse(from, []ast.Node{statement}, func(ident *ast.Ident, d *split.Declaration) {
					s.registered[s.NameOf(d, ident.Name, to)] = true
				})
			}
		}
	}
}

// registerInExisting registers, with a version that exists, the kinds that no copied code registers: in its list of kinds,
// or with its builder.
func (s *creation) registerInExisting() error {
	if !s.Exists(layout.NewPackage) {
		return nil
	}
	missing := slices.DeleteFunc(s.KindsAndLists(), func(name string) bool { return s.registered[name] })
	if len(missing) == 0 {
		return nil
	}
	there := s.Present(layout.NewPackage).Package
	if file, list := listOfKinds(there); file != nil {
		var edits []source.Edit
		for _, name := range missing {
			edits = append(edits, s.listed(file, list, name))
		}
		content, err := source.Format(file.Source, []byte(source.Splice(file.Source, 0, len(file.Source), edits)))
		if err != nil {
			return err
		}
		s.Changes[file.Path] = &changeset.Change{Content: content, Why: "registers " + strings.Join(s.Request.Kinds, ", ")}
		return nil
	}
	if name := s.fileOfKind(); name != "" && buildsScheme(there) {
		text := strings.TrimSuffix(string(s.Changes[name].Content), "\n") + "\n\nfunc init() {\n\tSchemeBuilder.Register(&" +
			strings.Join(missing, "{}, &") + "{})\n}\n"
		s.Changes[name].Content = []byte(text)
		return nil
	}
	s.Note(s.Dir(layout.NewPackage), "registers its kinds in another way than with a list of them: register %s there",
		strings.Join(missing, ", "))
	return nil
}

// listOfKinds is where a version lists objects of its kinds for a scheme: those of a call, of a list where no call has
// any, and of an init function where nothing else has.
func listOfKinds(pkg *project.Package) (in *project.File, list []ast.Expr) {
	for _, inits := range []bool{false, true} {
		for _, registering := range []func(*project.File, ast.Node) []ast.Expr{registeredByCall, listedObjects} {
			for _, file := range pkg.Files {
				if file.Test || file.Generated && !file.Registers() {
					continue
				}
				for _, decl := range file.Syntax.Decls {
					if function, ok := decl.(*ast.FuncDecl); list != nil || (ok && layout.IsInit(function)) != inits {
						continue
					}
					ast.Inspect(decl, func(node ast.Node) bool {
						if elements := registering(file, node); list == nil && countTrue(elements, isObject(file)) > 0 {
							in, list = file, elements
						}
						return list == nil
					})
				}
			}
		}
	}
	return in, list
}

// registeredByCall are the objects of a call that takes any number of them.
func registeredByCall(file *project.File, node ast.Node) []ast.Expr {
	call, ok := node.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Register", "AddKnownTypes"}, method.Sel.Name) || !takesObjects(file.Info.Uses[method.Sel]) {
		return nil
	}
	return call.Args
}

// listedObjects are those of a slice of objects.
func listedObjects(file *project.File, node ast.Node) []ast.Expr {
	literal, ok := node.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	if slice, ok := file.Info.TypeOf(literal).(*types.Slice); ok && isRuntimeObject(slice.Elem()) {
		return literal.Elts
	}
	return nil
}

// takesObjects reports whether a function takes any number of objects.
func takesObjects(object types.Object) bool {
	function, ok := object.(*types.Func)
	if !ok || !function.Signature().Variadic() {
		return false
	}
	parameters := function.Signature().Params()
	slice, ok := parameters.At(parameters.Len() - 1).Type().(*types.Slice)
	return ok && isRuntimeObject(slice.Elem())
}

func isRuntimeObject(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Object" && types.IsInterface(named)
}

// isObject reports whether an expression is &T{} of a type of the file's package.
func isObject(file *project.File) func(ast.Expr) bool {
	return func(expr ast.Expr) bool { return objectOf(file, expr) != "" }
}

func objectOf(file *project.File, expr ast.Expr) string {
	if address, ok := expr.(*ast.UnaryExpr); ok && address.Op == token.AND {
		if literal, ok := address.X.(*ast.CompositeLit); ok {
			if ident, ok := literal.Type.(*ast.Ident); ok && file.Info.Uses[ident] != nil {
				return ident.Name
			}
		}
	}
	return ""
}

// listed is the edit that adds an object to a list: at the end of those that are there, or between them if they are
// sorted.
func (s *creation) listed(file *project.File, list []ast.Expr, name string) source.Edit {
	objects := slices.DeleteFunc(slices.Clone(list), func(expr ast.Expr) bool { return objectOf(file, expr) == "" })
	last := len(objects) - 1
	between := ", "
	if last > 0 && s.Line(objects[last-1].Pos()) != s.Line(objects[last].Pos()) ||
		last == 0 && len(list) > 1 && s.Line(list[0].Pos()) != s.Line(objects[0].Pos()) {
		between = ",\n"
	}
	byName := func(a, b ast.Expr) int { return strings.Compare(objectOf(file, a), objectOf(file, b)) }
	if slices.IsSortedFunc(objects, byName) {
		if next := slices.IndexFunc(objects, func(e ast.Expr) bool { return objectOf(file, e) > name }); next >= 0 {
			return source.Insert(s.Project.Offset(objects[next].Pos()), "&"+name+"{}"+between)
		}
	}
	return source.Insert(s.Project.Offset(objects[last].End()), between+"&"+name+"{}")
}

// fileOfKind is the new file with a kind that moves.
func (s *creation) fileOfKind() string {
	for _, d := range s.Graph.Declarations {
		if slices.Contains(s.Request.Kinds, d.Name) && s.Changes[s.FileOf(d.File(), layout.NewPackage)] != nil {
			return s.FileOf(d.File(), layout.NewPackage)
		}
	}
	return ""
}

// buildsScheme reports whether a package has a SchemeBuilder that takes objects.
func buildsScheme(pkg *project.Package) bool {
	builder := pkg.Types.Scope().Lookup("SchemeBuilder")
	if builder == nil {
		return false
	}
	method, _, _ := types.LookupFieldOrMethod(builder.Type(), true, pkg.Types, "Register")
	return takesObjects(method)
}
