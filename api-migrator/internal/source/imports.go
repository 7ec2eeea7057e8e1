// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Import is an import as a file needs it: the path, and the name that the file calls it by.
type Import struct {
	Path, Name string
}

// Spec is the import as a file writes it.
func (i Import) Spec() string {
	if i.Name == path.Base(i.Path) {
		return strconv.Quote(i.Path)
	}
	return i.Name + " " + strconv.Quote(i.Path)
}

// FixImports adds imports to a file, and drops those of removable that it does not mention any more. A new import
// goes next to the one with the longest common path, within parentheses. The rest of the file keeps every byte.
func FixImports(source []byte, add []Import, removable map[string]string) ([]byte, error) {
	for _, one := range add {
		file, fset, err := Parse(source)
		if err != nil {
			return nil, err
		}
		if !imports(file, one.Path) {
			source = []byte(Splice(source, 0, len(source), []Edit{insertImport(fset, file, source, one)}))
		}
	}
	file, fset, err := Parse(source)
	if err != nil {
		return nil, err
	}
	mentioned := Selectors(file)
	var edits []Edit
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.IMPORT {
			continue
		}
		var gone []Edit
		for _, spec := range general.Specs {
			one := spec.(*ast.ImportSpec)
			importPath, _ := strconv.Unquote(one.Path.Value)
			name, ok := removable[importPath]
			if one.Name != nil {
				name = one.Name.Name
			}
			// A blank import is there for its effect, and what a dot import brings in is used without its name.
			if ok && !mentioned[name] && name != "_" && name != "." {
				from, to := WholeLines(source, fset.Position(spec.Pos()).Offset, fset.Position(spec.End()).Offset)
				gone = append(gone, Edit{from, to, ""})
			}
		}
		if len(gone) == len(general.Specs) {
			from, to := WholeLines(source, fset.Position(general.Pos()).Offset, fset.Position(general.End()).Offset)
			gone = []Edit{{from, to, ""}}
		}
		edits = append(edits, gone...)
	}
	return []byte(Splice(source, 0, len(source), edits)), nil
}

// Parse parses a file with its comments.
func Parse(source []byte) (*ast.File, *token.FileSet, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, fmt.Errorf("parse edited file: %w", err)
	}
	return file, fset, nil
}

func imports(file *ast.File, importPath string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		unquoted, _ := strconv.Unquote(spec.Path.Value)
		return unquoted == importPath
	})
}

// insertImport adds an import to the group of its nearest relative, or in a group of its own.
func insertImport(fset *token.FileSet, file *ast.File, source []byte, one Import) Edit {
	kept := file.Imports
	var near *ast.ImportSpec
	longest := -1
	for _, spec := range kept {
		other, _ := strconv.Unquote(spec.Path.Value)
		if n := commonPrefix(other, one.Path); n > longest &&
			strings.Contains(other, ".") == strings.Contains(one.Path, ".") {
			near, longest = spec, n
		}
	}
	between := "\n\t"
	if near == nil && len(kept) > 0 { // a group of its own
		near, between = kept[len(kept)-1], "\n\n\t"
	}
	switch {
	case near == nil:
		return Insert(offset(fset, file.Name.End()), "\n\nimport (\n\t"+one.Spec()+"\n)")
	case !inParentheses(file, near):
		from, to := offset(fset, near.Pos()), offset(fset, near.End())
		return Over(from, to, "(\n\t"+string(source[from:to])+between+one.Spec()+"\n)")
	case longest < 0:
		return Insert(offset(fset, near.End()), between+one.Spec())
	default:
		return Insert(offset(fset, near.Pos()), one.Spec()+between)
	}
}

func inParentheses(file *ast.File, spec *ast.ImportSpec) bool {
	for _, decl := range file.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Pos() <= spec.Pos() && spec.End() <= general.End() {
			return general.Lparen.IsValid()
		}
	}
	return false
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Selectors are the names that stand before a dot.
func Selectors(file *ast.File) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if ident, ok := selector.X.(*ast.Ident); ok {
				found[ident.Name] = true
			}
		}
		return true
	})
	return found
}

// Format formats edited source the way gofmt does, if it was formatted before.
func Format(before, after []byte) ([]byte, error) {
	if before != nil {
		if formatted, err := format.Source(before); err != nil || !bytes.Equal(formatted, before) {
			return after, nil //nolint:nilerr // what gofmt cannot read is not ours to format
		}
	}
	formatted, err := format.Source(after)
	if err != nil {
		return nil, fmt.Errorf("format edited file: %w", err)
	}
	return formatted, nil
}

// ImportsOf is the text of a file's imports, with the comments among them; empty without any.
func ImportsOf(fset *token.FileSet, file *ast.File, source []byte) string {
	var from, to int
	for _, decl := range file.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			if from == 0 {
				from = offset(fset, general.Pos())
			}
			to = offset(fset, general.End())
		}
	}
	return string(source[from:to])
}

// SelectorsIn are the names that stand before a dot in a file.
func SelectorsIn(source []byte) (map[string]bool, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return Selectors(file), nil
}

// Imports reports whether a file imports a package.
func Imports(file *ast.File, importPath string) bool { return len(ImportSpecs(file, importPath)) > 0 }

// ImportSpecs returns the imports of a package in a file. A file may import a package several times, under other names.
func ImportSpecs(file *ast.File, importPath string) (specs []*ast.ImportSpec) {
	for _, spec := range file.Imports {
		if unquoted, _ := strconv.Unquote(spec.Path.Value); unquoted == importPath {
			specs = append(specs, spec)
		}
	}
	return specs
}
