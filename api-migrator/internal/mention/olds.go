// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Again rewrites an expression for the new version. name returns how the file calls the new version's package,
// and text returns a piece of code as it is going to be, with more edits.
type Again func(name func() string, text func(code ast.Node, more ...source.Edit) string) string

// old is an expression that says the old version, of kinds that move where it names one.
type old struct {
	again Again // the same expression for the new version
	// bare: it is the version without the group.
	bare bool
}

func literally(code string) Again {
	return func(func() string, func(ast.Node, ...source.Edit) string) string { return code }
}

// ofPackage is a name of the new version's package.
func ofPackage(code string) Again {
	return func(name func() string, _ func(ast.Node, ...source.Edit) string) string { return name() + "." + code }
}

// oldIn recognises an expression that says the old version and nothing else, and never changes.
func (r codeReader) oldIn(expr ast.Expr) (old, bool) {
	expr = ast.Unparen(expr)
	if r.pkg == r.Old.Package {
		return old{again: literally(strconv.Quote(r.Group + "/" + r.Version))}, r.anchorOf(expr) != nil && r.goesAlong(expr)
	}
	if isGroupVersion(r.file.Info.TypeOf(expr)) {
		again, ok := r.oldStruct(expr)
		return old{again: again}, ok
	}
	if anchor := r.anchorOf(expr); anchor != nil {
		if r.becomesNew(expr) {
			return old{again: literally(strconv.Quote(r.Old.Name()))}, true
		}
		return old{again: ofPackage(anchor.Name + ".String()")}, true
	}
	if field, ok := expr.(*ast.SelectorExpr); ok && field.Sel.Name == "Version" && r.Group == r.Old.Group {
		if anchor := r.anchorIn(field.X); anchor != nil {
			return old{again: ofPackage(anchor.Name + ".Version")}, true
		}
		if _, ok := r.oldStruct(field.X); ok {
			return old{again: literally(strconv.Quote(r.Version))}, true
		}
	}
	switch text, _ := known(r.file, expr); {
	case text == r.Old.Name():
		return old{again: literally(strconv.Quote(r.Group + "/" + r.Version))}, true
	case text == r.Old.Version && r.Group == r.Old.Group:
		return old{again: literally(strconv.Quote(r.Version)), bare: true}, true
	}
	return old{}, false
}

// anchorIn is the GroupVersion or SchemeGroupVersion of the old version that an expression names.
func (r codeReader) anchorIn(expr ast.Expr) *split.Declaration {
	var name *ast.Ident
	switch expr := ast.Unparen(expr).(type) {
	case *ast.SelectorExpr:
		name = expr.Sel
	case *ast.Ident: // in the package itself
		name = expr
	default:
		return nil
	}
	d := r.Graph.Owner(r.file.Info.Uses[name])
	if d == nil || r.DestinationOf(d) != split.Anchor || d.Name != "GroupVersion" && d.Name != "SchemeGroupVersion" {
		return nil
	}
	return d
}

// oldStruct recognises a GroupVersion, GroupVersionKind or GroupVersionResource of the old version: its anchor with
// WithKind or WithResource, a literal, a conversion of these, or a variable that holds one.
func (r codeReader) oldStruct(expr ast.Expr) (again Again, ok bool) {
	expr = ast.Unparen(expr)
	if anchor := r.anchorIn(expr); anchor != nil {
		return ofPackage(anchor.Name), true
	}
	switch expr := expr.(type) {
	case *ast.CallExpr:
		return r.oldCall(expr)
	case *ast.CompositeLit:
		return r.oldLiteral(expr)
	case *ast.Ident:
		variable, isVariable := r.file.Info.Uses[expr].(*types.Var)
		if !isVariable {
			return nil, false
		}
		held := r.heldBy(r.pkg, variable)
		if held.expr == nil {
			return nil, false
		}
		if _, ok := (codeReader{r.Reader, r.pkg, held.file}).oldStruct(held.expr); ok {
			return r.likeVariable(expr.Name, variable.Type())
		}
	}
	return nil, false
}

func (r codeReader) oldCall(call *ast.CallExpr) (again Again, ok bool) {
	if len(call.Args) != 1 {
		return nil, false
	}
	if r.file.Info.Types[call.Fun].IsType() {
		inner, ok := r.oldStruct(call.Args[0])
		return func(name func() string, text func(ast.Node, ...source.Edit) string) string {
			return text(call.Fun) + "(" + inner(name, text) + ")"
		}, ok
	}
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return nil, false
	}
	if r.completesOld(r.file, call) == buildsIt && r.Group == r.Old.Group {
		return r.withValues(call, map[ast.Expr]string{call.Args[0]: r.Version}), true
	}
	argument, isKnown := known(r.file, call.Args[0])
	moves := method.Sel.Name == "WithKind" && r.Moves(argument) ||
		method.Sel.Name == "WithResource" && r.movesAsResource(argument)
	if !isKnown || !moves {
		return nil, false
	}
	of, ok := r.oldStruct(method.X)
	return func(name func() string, text func(ast.Node, ...source.Edit) string) string {
		return of(name, text) + "." + method.Sel.Name + "(" + text(call.Args[0]) + ")"
	}, ok
}

// oldLiteral recognises a literal whose fields are known, and writes it again with another group and version.
func (r codeReader) oldLiteral(literal *ast.CompositeLit) (again Again, ok bool) {
	if literal.Type == nil {
		return nil, false
	}
	structure, _ := structOf(r.file.Info.TypeOf(literal))
	values, becomes := map[string]string{}, map[ast.Expr]string{}
	for i, element := range literal.Elts {
		field, value := "", element
		if pair, isPair := element.(*ast.KeyValueExpr); isPair {
			if key, isName := pair.Key.(*ast.Ident); isName {
				field, value = key.Name, pair.Value
			}
		} else if i < structure.NumFields() {
			field = structure.Field(i).Name()
		}
		text, isKnown := known(r.file, value)
		if part, isPart := value.(*ast.SelectorExpr); !isKnown && isPart {
			if _, isOld := r.oldStruct(part.X); isOld {
				text = map[string]string{"Group": r.Old.Group, "Version": r.Old.Version}[part.Sel.Name]
			}
		}
		if values[field] = text; text == "" {
			return nil, false // it is computed, or of another group
		}
		switch {
		case field == "Version":
			becomes[value] = r.Version
		case field == "Group" && r.Group != r.Old.Group:
			becomes[value] = r.Group
		}
	}
	if values["Version"] == "" || r.isOld(values, nil) != buildsIt || values["Resource"] != "" &&
		!r.movesAsResource(values["Resource"]) {
		return nil, false
	}
	return r.withValues(literal, becomes), true
}

// withValues is a piece of code in which texts take the places of expressions.
func (r codeReader) withValues(code ast.Expr, becomes map[ast.Expr]string) Again {
	return func(_ func() string, text func(ast.Node, ...source.Edit) string) string {
		var edits []source.Edit
		for expr, value := range becomes {
			edits = append(edits, source.Replace(r.Project.Fset, expr, strconv.Quote(value)))
		}
		return text(code, edits...)
	}
}

// likeVariable writes a literal with another group and version than those of a variable. The file has to import the package of its
// type.
func (r codeReader) likeVariable(name string, of types.Type) (again Again, ok bool) {
	object := NamedIn(of)
	if _, isPointer := of.Underlying().(*types.Pointer); isPointer {
		return nil, false
	}
	in := slices.IndexFunc(r.file.Syntax.Imports, func(spec *ast.ImportSpec) bool {
		path, _ := strconv.Unquote(spec.Path.Value)
		return path == project.Unvendored(object.Pkg().Path()) &&
			!slices.Contains([]string{"_", "."}, r.file.PackageName(spec))
	})
	if in < 0 {
		return nil, false
	}
	group := name + ".Group"
	if r.Group != r.Old.Group {
		group = strconv.Quote(r.Group)
	}
	fields := []string{"Group: " + group, "Version: " + strconv.Quote(r.Version)}
	if last := strings.TrimPrefix(object.Name(), "GroupVersion"); last != "" {
		fields = append(fields, last+": "+name+"."+last)
	}
	return literally(r.file.PackageName(r.file.Syntax.Imports[in]) + "." + object.Name() + "{" +
		strings.Join(fields, ", ") + "}"), true
}

// anchorOf is the anchor whose String an expression is: v1.GroupVersion.String(), or a variable that holds it and never
// changes.
func (r codeReader) anchorOf(expr ast.Expr) *split.Declaration {
	switch expr := ast.Unparen(expr).(type) {
	case *ast.CallExpr:
		if method, ok := expr.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "String" {
			return r.anchorIn(method.X)
		}
	case *ast.Ident:
		if variable, ok := r.file.Info.Uses[expr].(*types.Var); ok {
			if held := r.heldBy(r.pkg, variable); held.expr != nil {
				return codeReader{r.Reader, r.pkg, held.file}.anchorOf(held.expr)
			}
			return r.anchorOfExported(variable)
		}
	case *ast.SelectorExpr:
		if variable, ok := r.file.Info.Uses[expr.Sel].(*types.Var); ok {
			return r.anchorOfExported(variable)
		}
	}
	return nil
}

// anchorOfExported is the anchor whose String an exported variable holds, by the code of the whole project.
func (r codeReader) anchorOfExported(variable *types.Var) *split.Declaration {
	held, in := r.heldByExported(variable)
	if _, ok := held.expr.(*ast.CallExpr); !ok {
		return nil
	}
	return codeReader{r.Reader, in, held.file}.anchorOf(held.expr)
}

// becomesNew reports whether an expression is a variable of the old version's package that importers find in the new
// one's from now on, where it says the new version.
func (r codeReader) becomesNew(expr ast.Expr) bool {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	d := r.Graph.Owner(r.file.Info.Uses[selector.Sel])
	return d != nil && r.HomeOf(d, layout.Importer) == layout.NewPackage
}

// goesAlong reports whether an expression in the old version's package says the version of the package that its code is
// in, wherever it goes: it names no variable of the package, or one that goes the same way.
func (r codeReader) goesAlong(expr ast.Expr) bool {
	name, ok := expr.(*ast.Ident)
	if !ok {
		return true
	}
	d := r.Graph.Owner(r.file.Info.Uses[name])
	if d == nil || d.Anchor {
		return true
	}
	user := r.DeclarationAt(name.Pos())
	return user != nil && r.DestinationOf(d) == r.DestinationOf(user)
}
