// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// writes are the purposes of texts that become part of an object or a reference. What code compares, asks for or
// registers may mean either version.
var writes = []purpose{purposeObject, purposeOwns, purposeRefers}

// Restated are the texts of a file that certainly mean kinds that move, with the same for the new version, both as Go
// literals; none unless the request asks for it. A text is certain if it stands next to a kind that moves, or if it
// becomes the apiVersion of something and all kinds of the version move. The package has to import the old version, and
// the declaration around must not name the new one, because such code treats the versions differently.
func (s *Reader) Restated(pkg *project.Package, file *project.File) map[*ast.BasicLit]string {
	if s.Request.Strings != request.StringsRewrite || pkg == s.Old.Package || file.Generated ||
		!s.Consumes(file) || !slices.ContainsFunc(pkg.Files, func(one *project.File) bool {
		return source.Imports(one.Syntax, s.Old.Package.Path)
	}) {
		return nil
	}
	found := map[*ast.BasicLit]string{}
	reader := codeReader{Reader: s, pkg: pkg, file: file}
	for _, decl := range file.Syntax.Decls {
		ast.Inspect(decl, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			switch value, err := strconv.Unquote(literal.Value); {
			case err != nil:
			case value == s.Old.Name() && reader.isCertain(literal) && !reader.namesNew(decl):
				found[literal] = strings.Replace(literal.Value, s.Old.Name(), s.Group+"/"+s.Version, 1)
			case strings.HasPrefix(literal.Value, "`"):
				text := strings.Trim(literal.Value, "`")
				if again := s.RestatedText(text); again != text && !reader.namesNew(decl) {
					found[literal] = "`" + again + "`"
				}
			}
			return true
		})
	}
	return found
}

// isCertain reports whether a literal with the old version certainly means kinds that move.
func (r codeReader) isCertain(literal *ast.BasicLit) bool {
	if r.IsSettled(r.pkg, r.file, literal) || r.isComparedLater(literal) {
		return false
	}
	allMove := !slices.ContainsFunc(r.Old.Kinds, func(k project.Kind) bool { return !r.Moves(k.Name) })
	path, _ := astutil.PathEnclosingInterval(r.file.Syntax, literal.Pos(), literal.End())
	switch around := path[1].(type) {
	case *ast.KeyValueExpr:
		object, ok := path[2].(*ast.CompositeLit)
		if !ok || !slices.Contains(writes, r.purposeOfKey(around, object)) {
			return false
		}
		kind, isKnown := r.kindIn(object)
		return isKnown && r.Moves(kind) || !isKnown && allMove
	case *ast.CallExpr:
		moves, stays := false, false
		for _, argument := range around.Args {
			text, _ := known(r.file, argument)
			moves, stays = moves || text != "" && r.Moves(text), stays || r.isStaying(text)
		}
		return !stays && (moves || allMove && slices.Contains(writes, calleePurpose(r.file, around)))
	case *ast.AssignStmt:
		for i, value := range around.Rhs {
			field, ok := around.Lhs[min(i, len(around.Lhs)-1)].(*ast.SelectorExpr)
			if value == literal && ok && allMove {
				return slices.Contains(writes, fieldPurpose(r.file.Info.TypeOf(field.X), field.Sel.Name))
			}
		}
	}
	return false
}

// kindIn is the kind that an object or a reference names next to its apiVersion; isKnown is false without one, and if
// it is computed.
func (r codeReader) kindIn(object *ast.CompositeLit) (kind string, isKnown bool) {
	for _, element := range object.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, isField := pair.Key.(*ast.Ident)
		if key, _ := known(r.file, pair.Key); key == "kind" || isField && name.Name == "Kind" {
			return known(r.file, pair.Value)
		}
	}
	return "", false
}

// isComparedLater reports whether a text is compared with something, or the call that it is a part of, the variable
// that holds it, or the function that returns it.
func (r codeReader) isComparedLater(literal *ast.BasicLit) bool {
	path, _ := astutil.PathEnclosingInterval(r.file.Syntax, literal.Pos(), literal.End())
	var statement ast.Stmt // around the text
	for _, node := range path {
		var names []ast.Expr
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case ast.Expr:
			if r.IsCompared(r.file, node) {
				return true
			}
		case *ast.ValueSpec:
			for _, name := range node.Names {
				names = append(names, name)
			}
		case *ast.AssignStmt:
			if statement == nil {
				names = node.Lhs
			}
		case *ast.FuncDecl:
			if _, returns := statement.(*ast.ReturnStmt); returns {
				names = append(names, node.Name)
			}
		}
		for _, name := range names {
			if name, ok := name.(*ast.Ident); ok && r.isComparedObject(r.file.Info.ObjectOf(name)) {
				return true
			}
		}
		if around, ok := node.(ast.Stmt); ok && statement == nil {
			statement = around
		}
	}
	return false
}

func (r codeReader) isComparedObject(object types.Object) bool {
	return object != nil && slices.ContainsFunc(usesOf(r.pkg, object),
		func(use placed) bool { return r.IsCompared(use.file, use.expr) })
}

var kindOfBlock = regexp.MustCompile(`^([ \t]*(?:-[ \t]+)?)["']?kind["']?:[ \t]*["']?(\w+)["']?,?[ \t]*(?:#.*)?\r?$`)

// RestatedText is a text, such as a document, in which the objects and references of kinds that move have the new
// version: YAML or JSON with apiVersion and kind in two lines of the same indentation. A text that names the new
// version stays as it is, because it tells the versions apart.
func (s *Reader) RestatedText(text string) string {
	to := s.Group + "/" + s.Version
	if regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(to) + `($|\W)`).MatchString(text) {
		return text
	}
	version := regexp.MustCompile(`^([ \t]*(?:-[ \t]+)?)["']?apiVersion["']?:[ \t]*["']?` +
		regexp.QuoteMeta(s.Old.Name()) + `["']?,?[ \t]*(?:#.*)?\r?$`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		at := version.FindStringSubmatch(line)
		if at == nil {
			continue
		}
		isNextTo := func(j int) bool {
			if j < 0 || j >= len(lines) {
				return false
			}
			kind := kindOfBlock.FindStringSubmatch(lines[j])
			later := kind // of the two lines
			if j < i {
				later = at
			}
			return kind != nil && s.Moves(kind[2]) && len(kind[1]) == len(at[1]) && !strings.Contains(later[1], "-")
		}
		if isNextTo(i+1) || isNextTo(i-1) {
			lines[i] = strings.Replace(line, s.Old.Name(), to, 1)
		}
	}
	return strings.Join(lines, "\n")
}
