// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

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

// edit replaces a range of bytes.
type edit struct {
	from, to int
	text     string
}

// splice applies edits to a range of source. Of edits that overlap the outer one wins: what it
// writes stands for everything below it.
func splice(source []byte, from, to int, edits []edit) string {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b edit) int {
		switch aInserts, bInserts := a.from == a.to, b.from == b.to; {
		case a.from != b.from:
			return a.from - b.from
		case aInserts != bInserts && aInserts:
			return -1 // what is inserted stands before what is replaced
		case aInserts != bInserts:
			return 1
		default:
			return b.to - a.to
		}
	})
	var out strings.Builder
	at := from
	for _, e := range sorted {
		if e.from < at || e.to > to {
			continue
		}
		out.Write(source[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(source[at:to])
	return out.String()
}

// wholeLines widens a range over the white space and the newline around it, so that removing it leaves no empty line.
func wholeLines(source []byte, from, to int) (int, int) {
	for from > 0 && (source[from-1] == ' ' || source[from-1] == '\t') {
		from--
	}
	for to < len(source) && (source[to] == ' ' || source[to] == '\t') {
		to++
	}
	if from == 0 || source[from-1] == '\n' {
		to += newlineAt(source, to)
	}
	return from, to
}

// newlineAt is the length of the line end at a place: of Unix or of Windows, or none.
func newlineAt(source []byte, at int) int {
	switch rest := source[at:]; {
	case bytes.HasPrefix(rest, []byte("\n")):
		return 1
	case bytes.HasPrefix(rest, []byte("\r\n")):
		return 2
	}
	return 0
}

// shiftsComments reports whether the places of a file's comments are wrong: the scanner drops carriage returns from
// comments of several lines, so that they seem to end too early.
func shiftsComments(source []byte, file *ast.File) bool {
	return bytes.Contains(source, []byte("\r")) &&
		slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool {
			return slices.ContainsFunc(group.List, func(c *ast.Comment) bool {
				return strings.HasPrefix(c.Text, "/*") &&
					strings.Contains(c.Text, "\n")
			})
		})
}

// imported is an import as a file needs it: the path, and the name that the file calls it by.
type imported struct {
	path, name string
}

func (i imported) spec() string {
	if i.name == path.Base(i.path) {
		return strconv.Quote(i.path)
	}
	return i.name + " " + strconv.Quote(i.path)
}

// fixImports adds imports to a file, and drops those of removable that it does not mention any more. A new import
// goes beside the one with the longest common path. The rest of the file keeps every byte.
func fixImports(source []byte, add []imported, removable map[string]string) ([]byte, error) {
	for _, one := range add {
		file, fset, err := parseEdited(source)
		if err != nil {
			return nil, err
		}
		if !imports(file, one.path) {
			insertion := insertImport(file, func(pos token.Pos) int { return fset.Position(pos).Offset }, one)
			source = []byte(splice(source, 0, len(source), []edit{insertion}))
		}
	}
	file, fset, err := parseEdited(source)
	if err != nil {
		return nil, err
	}
	mentioned := selectors(file)
	var edits []edit
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.IMPORT {
			continue
		}
		var gone []edit
		for _, spec := range general.Specs {
			importPath, _ := strconv.Unquote(spec.(*ast.ImportSpec).Path.Value)
			if name, ok := removable[importPath]; ok && !mentioned[name] {
				from, to := wholeLines(source, fset.Position(spec.Pos()).Offset, fset.Position(spec.End()).Offset)
				gone = append(gone, edit{from, to, ""})
			}
		}
		if len(gone) == len(general.Specs) {
			from, to := wholeLines(source, fset.Position(general.Pos()).Offset, fset.Position(general.End()).Offset)
			gone = []edit{{from, to, ""}}
		}
		edits = append(edits, gone...)
	}
	return []byte(splice(source, 0, len(source), edits)), nil
}

func parseEdited(source []byte) (*ast.File, *token.FileSet, error) {
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

func insertImport(file *ast.File, offset func(token.Pos) int, one imported) edit {
	kept := file.Imports
	var beside *ast.ImportSpec
	longest := -1
	for _, spec := range kept {
		other, _ := strconv.Unquote(spec.Path.Value)
		if n := commonPrefix(other, one.path); n > longest &&
			strings.Contains(other, ".") == strings.Contains(one.path, ".") {
			beside, longest = spec, n
		}
	}
	if beside == nil && len(kept) > 0 { // a group of its own
		last := kept[len(kept)-1]
		if inParentheses(file, last) {
			return edit{offset(last.End()), offset(last.End()), "\n\n\t" + one.spec()}
		}
		beside = last
	}
	switch {
	case beside == nil:
		at := offset(file.Name.End())
		return edit{at, at, "\n\nimport (\n\t" + one.spec() + "\n)"}
	case inParentheses(file, beside):
		at := offset(beside.Pos())
		return edit{at, at, one.spec() + "\n\t"}
	default:
		at := offset(beside.End())
		return edit{at, at, "\nimport " + one.spec()}
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

// selectors are the names that stand before a dot.
func selectors(file *ast.File) map[string]bool {
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

// tidy formats edited source the way gofmt does, if it was formatted before.
func tidy(before, after []byte) ([]byte, error) {
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
