// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// Some code of the old version's package says which version it is: SchemeGroupVersion, and what is made of it. Such a
// value means another version once the code around it deals with the new one, and no compiler notices: an index of
// owners that compares an apiVersion finds nothing, an admission server passes over its requests. Objects in clusters
// carry the old version, too, so that neither of the two is right everywhere. Hence each use is a finding, whether it
// stays or changes.

// reportUse makes a finding of a use of such a declaration; becomesNew: the use is rewritten to the new version's.
func (s *surgery) reportUse(file *project.File, use ast.Expr, d *split.Declaration, becomesNew bool) {
	if s.inPlace() {
		return // both kinds are of one group and version
	}
	from, to := s.old.Name(), s.group+"/"+s.version
	says := s.readUse(file, use)
	switch {
	case says.staying:
		return
	case s.tellsVersion(d) && !says.group:
	case s.group != s.old.Group && s.tellsGroup(d):
		from, to = s.old.Group, s.group
	default:
		return
	}
	advice := "Compare the group and the kind alone, or take both versions"
	if len(s.successors) > 0 {
		advice = "Decide which one is meant"
	}
	place := s.project.Place(use.Pos())
	if becomesNew {
		s.finding(place, "%s becomes the new version's: it does not match objects, ownerReferences and requests that "+
			"still say %s. %s", s.textOf(file, use), from, advice)
		return
	}
	s.finding(place, "%s still means %s: it does not match objects, ownerReferences and requests that say %s. %s",
		s.textOf(file, use), from, to, advice)
}

func (s *surgery) textOf(file *project.File, node ast.Node) string {
	return string(file.Source[s.project.Offset(node.Pos()):s.project.Offset(node.End())])
}

// reportUsesInOldPackage looks at the code of the old version's package that stays there and is not about kinds that
// stay.
func (s *surgery) reportUsesInOldPackage() {
	for _, d := range s.graph.Declarations {
		if s.placed[d].Destination != split.Stay || d.What == "type" && s.isStaying(d.Name) {
			continue
		}
		for _, part := range d.Parts {
			s.eachUse(part.File, part.Nodes(), func(ident *ast.Ident, used *split.Declaration) {
				if used != d && s.placed[used].Destination == split.Anchor && !registers[used.Name] {
					s.reportUse(part.File, ident, used, false)
				}
			})
		}
	}
}

// tellsVersion reports whether the value of a declaration says which version it is of.
func (s *surgery) tellsVersion(d *split.Declaration) bool {
	if known, ok := s.telling[d]; ok {
		return known
	}
	s.telling[d] = false // where it is its own reason
	s.telling[d] = slices.ContainsFunc(d.Names,
		func(name string) bool { return s.objectTells(d, s.old.Package.Types.Scope().Lookup(name)) })
	return s.telling[d]
}

func (s *surgery) objectTells(d *split.Declaration, object types.Object) bool {
	switch object := object.(type) {
	case *types.Const:
		if object.Val().Kind() != constant.String {
			return false
		}
		value := constant.StringVal(object.Val())
		return value == s.old.Version || s.versionPattern().MatchString(value)
	case *types.Var:
		return carriesVersion(object.Type()) && s.isMadeOfVersion(d)
	case *types.Func:
		for result := range object.Signature().Results().Variables() {
			if carriesVersion(result.Type()) {
				return s.isMadeOfVersion(d)
			}
		}
	}
	return false
}

// carriesVersion reports whether values of a type can say a version: texts, GroupVersion and its like, TypeMeta,
// OwnerReference.
func carriesVersion(t types.Type) bool {
	if object := namedIn(t); object != nil && object.Pkg() != nil &&
		strings.HasPrefix(object.Pkg().Path(), "k8s.io/apimachinery/") {
		return strings.HasPrefix(object.Name(), "GroupVersion") || object.Name() == "TypeMeta" ||
			object.Name() == "OwnerReference"
	}
	for {
		switch of := t.Underlying().(type) {
		case *types.Basic:
			return of.Info()&types.IsString != 0
		case interface{ Elem() types.Type }:
			t = of.Elem()
		default:
			return false
		}
	}
}

// isMadeOfVersion reports whether a declaration names the version, by itself or by others that do.
func (s *surgery) isMadeOfVersion(d *split.Declaration) bool {
	if d.Name == "GroupVersion" || d.Name == "SchemeGroupVersion" { // whose group may be a variable
		return true
	}
	found := false
	for _, part := range d.Parts {
		s.eachUse(part.File, part.Nodes(), func(_ *ast.Ident, used *split.Declaration) {
			found = found || used != d && s.tellsVersion(used)
		})
		for _, node := range part.Nodes() {
			ast.Inspect(node, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.CompositeLit:
					found = found || s.buildsOld(part.File, node) == buildsIt
				case *ast.BasicLit:
					value, ok := known(part.File, node)
					found = found || ok && s.versionPattern().MatchString(value)
				}
				return !found
			})
		}
	}
	return found
}

// tellsGroup reports whether the value of a declaration says which group it is of.
func (s *surgery) tellsGroup(d *split.Declaration) bool {
	return s.tellsVersion(d) || slices.ContainsFunc(d.Names, func(name string) bool {
		switch object := s.old.Package.Types.Scope().Lookup(name).(type) {
		case *types.Const:
			return object.Val().Kind() == constant.String && constant.StringVal(object.Val()) == s.old.Group
		case *types.Func:
			for result := range object.Signature().Results().Variables() {
				if of := namedIn(result.Type()); of != nil && strings.HasPrefix(of.Name(), "Group") {
					return true
				}
			}
		case *types.Var:
			of := namedIn(object.Type())
			return of != nil && strings.HasPrefix(of.Name(), "Group")
		}
		return false
	})
}

// saying is what the code around a use takes of it.
type saying struct {
	group   bool // the group alone
	staying bool // what it says is about a kind that stays
}

// readUse looks at what follows a use: SchemeGroupVersion.Group, .WithKind("Backup") and so on, and at the literal that
// it stands in.
func (s *surgery) readUse(file *project.File, use ast.Expr) saying {
	var says saying
	path, _ := astutil.PathEnclosingInterval(file.Syntax, use.Pos(), use.End())
	var inner ast.Node = use
	chained := true // the path is still within v1.SchemeGroupVersion.X(…).Y
	for _, node := range path {
		if node == inner {
			continue
		}
		switch node := node.(type) {
		case *ast.SelectorExpr:
			chained = chained && node.X == inner
			says.group = says.group || chained && slices.Contains([]string{"Group", "GroupKind",
				"GroupResource"}, node.Sel.Name)
		case *ast.CallExpr:
			chained = chained && node.Fun == inner
			if method, ok := node.Fun.(*ast.SelectorExpr); ok && chained && len(node.Args) == 1 {
				name, _ := known(file, node.Args[0])
				says.staying = says.staying || s.isStaying(name) && strings.HasSuffix(method.Sel.Name, "Kind") ||
					method.Sel.Name == "WithResource" && s.staysAsResource(name)
			}
		case *ast.CompositeLit:
			values, _ := s.fieldsOf(file, node)
			says.staying = says.staying || s.isStaying(values["Kind"]) || s.staysAsResource(values["Resource"])
			return says
		case ast.Stmt, ast.Decl, *ast.FuncLit:
			return says
		case *ast.ParenExpr, *ast.UnaryExpr, *ast.StarExpr, *ast.KeyValueExpr:
		default:
			chained = false
		}
		inner = node
	}
	return says
}

// isStaying reports whether a name is that of a kind that stays, or of its list.
func (s *surgery) isStaying(name string) bool {
	return name != "" && !s.moves(name) && slices.ContainsFunc(s.old.Kinds,
		func(k project.Kind) bool { return name == k.Name || name == k.List })
}

// staysAsResource reports whether a name is the plural of kinds that stay alone.
func (s *surgery) staysAsResource(name string) bool {
	stays := false
	for _, manifest := range s.manifestsOfGroup() {
		if manifest.Plural == name {
			if s.moves(manifest.Kind) {
				return false
			}
			stays = true
		}
	}
	return stays
}

// movesAsResource reports whether a name is the plural of a kind that moves, by its CRD or, where there is none, by the
// usual rule.
func (s *surgery) movesAsResource(name string) bool {
	usual := slices.ContainsFunc(s.request.Kinds,
		func(kind string) bool { return strings.HasPrefix(name, strings.ToLower(kind)) })
	return usual || slices.ContainsFunc(s.manifestsOfGroup(),
		func(m project.Manifest) bool { return m.Plural == name && s.moves(m.Kind) })
}

// manifestsOfGroup are the CRDs of the old group in the tree; none where they cannot be read, which other steps report.
func (s *surgery) manifestsOfGroup() []project.Manifest {
	if s.crds == nil {
		all, _ := s.project.Manifests()
		s.crds = slices.DeleteFunc(append([]project.Manifest{}, all...),
			func(m project.Manifest) bool { return m.Group != s.old.Group })
	}
	return s.crds
}

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
func (s *surgery) buildsOld(file *project.File, literal *ast.CompositeLit) builds {
	of := namedIn(file.Info.TypeOf(literal))
	if _, isStruct := structOf(file.Info.TypeOf(literal)); of == nil || !isStruct ||
		!strings.HasPrefix(of.Name(), "GroupVersion") {
		return buildsOther
	}
	return s.isOld(s.fieldsOf(file, literal))
}

// isOld judges the fields of a GroupVersionKind and its like; computed are those whose values are not known.
func (s *surgery) isOld(values map[string]string, computed map[string]bool) builds {
	kind, resource := values["Kind"], values["Resource"]
	ofMoved := kind != "" && s.moves(kind) || resource != "" && s.movesAsResource(resource)
	ofNone := kind == "" && resource == ""
	switch {
	case kind != "" && !s.moves(kind), s.staysAsResource(resource):
		return buildsOther
	case values["Group"] == s.old.Group && values["Version"] == s.old.Version:
		return buildsIt
	case computed["Group"] && values["Version"] == s.old.Version && (ofMoved || ofNone),
		computed["Version"] && values["Group"] == s.old.Group && (ofMoved || ofNone):
		return buildsMaybe
	}
	return buildsOther
}

// completesOld recognises schema.GroupKind{…}.WithVersion("v1") and its like.
func (s *surgery) completesOld(file *project.File, call *ast.CallExpr) builds {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "WithVersion" || len(call.Args) != 1 {
		return buildsOther
	}
	of := namedIn(file.Info.TypeOf(method.X))
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
func (s *surgery) fieldsOf(file *project.File,
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
func (s *surgery) valueOf(file *project.File, expr ast.Expr) (string, bool) {
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
func (s *surgery) variables() map[string]string {
	if s.texts != nil {
		return s.texts
	}
	s.texts = map[string]string{}
	for _, pkg := range s.project.Packages {
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
