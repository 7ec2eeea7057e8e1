// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// ShiftsComments reports whether the positions of a file's comments are wrong: the scanner drops carriage returns from
// comments of several lines, so these seem to end too early.
func ShiftsComments(source []byte, file *ast.File) bool {
	return bytes.Contains(source, []byte("\r")) &&
		slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool {
			return slices.ContainsFunc(group.List, func(c *ast.Comment) bool {
				return strings.HasPrefix(c.Text, "/*") &&
					strings.Contains(c.Text, "\n")
			})
		})
}

// SpanOf is a declaration or spec with its comments: the doc, a comment at the end of its last line, and the group of
// markers above the doc. controller-tools gives such a group to whatever follows it, so that one left behind would
// mark the wrong type.
func SpanOf(fset *token.FileSet, file *ast.File, node ast.Node) Span {
	start, end := node.Pos(), node.End()
	if doc := DocOf(node); doc != nil {
		start = doc.Pos()
	}
	previous := token.NoPos // the end of what stands before, which markers must not belong to
	for _, decl := range file.Decls {
		if decl.End() <= start {
			previous = max(previous, decl.End())
		}
	}
	if spec, ok := node.(ast.Spec); ok { // of a group
		for _, decl := range file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Pos() <= spec.Pos() && spec.End() <= general.End() {
				from, _ := AboveType(file, general, spec)
				previous = max(previous, from)
			}
		}
	}
	for _, group := range slices.Backward(file.Comments) {
		if group.Pos() >= node.End() && line(fset, group.Pos()) == line(fset, node.End()) {
			end = group.End()
		}
		if group.End() <= start && group.Pos() > previous && group.Pos() > file.Name.End() && HasMarker(group) &&
			line(fset, start)-line(fset, group.End()) <= 2 {
			start = group.Pos()
		}
	}
	return Span{offset(fset, start), offset(fset, end)}
}

// HasMarker reports whether a group of comments holds a marker.
func HasMarker(group *ast.CommentGroup) bool {
	return slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return IsMarker(c.Text) })
}

// IsMarker reports whether a line of a comment is a marker such as +kubebuilder:object:root=true.
func IsMarker(line string) bool {
	text, ok := strings.CutPrefix(line, "//")
	return ok && strings.HasPrefix(strings.TrimLeft(text, " \t"), "+")
}

// PackageMarker is the marker that begins so and stands above the package clause of a file; empty without one.
func PackageMarker(file *ast.File, begin string) string {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
			if group.End() < file.Package && IsMarker(comment.Text) && strings.HasPrefix(text, begin) {
				return text
			}
		}
	}
	return ""
}

// IsDirective reports whether a line of a comment is meant for a program: its words are values, not names.
func IsDirective(line string) bool { return IsMarker(line) || strings.HasPrefix(line, "//go:") }

// DocOf is the comment above a declaration or spec; nil without one.
func DocOf(node ast.Node) *ast.CommentGroup {
	switch node := node.(type) {
	case *ast.GenDecl:
		return node.Doc
	case *ast.FuncDecl:
		return node.Doc
	case *ast.TypeSpec:
		return node.Doc
	case *ast.ValueSpec:
		return node.Doc
	}
	return nil
}

// CommentWords are the edits that replace a word of a file's prose.
func CommentWords(fset *token.FileSet, file *ast.File, old, with string) []Edit {
	var edits []Edit
	mention := Word(old)
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if IsDirective(comment.Text) {
				continue
			}
			from := offset(fset, comment.Pos())
			for _, found := range mention.FindAllStringIndex(comment.Text, -1) {
				edits = append(edits, Edit{from + found[0], from + found[1], with})
			}
		}
	}
	return edits
}

// Body is where the code of a file begins, behind its imports, and where its package clause ends, with the comment that
// says the import path of the package.
func Body(fset *token.FileSet, file *ast.File) (from, clause int) {
	clause = offset(fset, file.Name.End())
	for _, group := range file.Comments {
		if first := group.List[0]; first.Pos() > file.Name.End() && importComment.MatchString(first.Text) &&
			line(fset, first.Pos()) == line(fset, file.Name.End()) {
			clause = offset(fset, first.End())
		}
	}
	from = clause
	for _, decl := range file.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			from = offset(fset, general.End())
		}
	}
	return from, clause
}

// importComment is a comment such as import "k8s.io/api/apps/v1".
var importComment = regexp.MustCompile(`^(//|/\*)\s*import\s+"`)

// IsConstraint reports whether a comment says for which builds a file is.
func IsConstraint(group *ast.CommentGroup) bool {
	return slices.ContainsFunc(group.List, func(c *ast.Comment) bool {
		return constraint.IsGoBuild(c.Text) ||
			constraint.IsPlusBuild(c.Text)
	})
}

// Word matches a text as a whole word.
func Word(text string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(text) + `\b`)
}

// IsDeprecated reports whether a comment says so already, for a reason of its own.
func IsDeprecated(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List,
		func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "// Deprecated: ") })
}

// GeneratedHeader is the comment that stands before the line "Code generated" of a generated file, without build
// constraints.
func GeneratedHeader(source []byte) []byte {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil
	}
	var header []string
	for _, group := range file.Comments {
		if group.Pos() > file.Package || strings.Contains(group.Text(), "Code generated") {
			continue
		}
		for _, comment := range group.List {
			if !strings.HasPrefix(comment.Text, "//go:build") && !strings.HasPrefix(comment.Text, "// +build") {
				header = append(header, comment.Text)
			}
		}
	}
	return []byte(strings.Join(header, "\n"))
}

// AboveType is where the comments of a type stand, as controller-tools sees it: between what is declared before it and
// its declaration, or its name in a group of several.
func AboveType(file *ast.File, decl *ast.GenDecl, spec ast.Spec) (from, to token.Pos) {
	from, to = file.Name.End(), decl.TokPos
	for _, other := range file.Decls {
		if other.End() < decl.Pos() {
			from = other.End()
		}
	}
	if decl.Lparen.IsValid() {
		from, to = decl.Lparen, spec.Pos()
		for _, other := range decl.Specs {
			if other.End() < spec.Pos() {
				from = other.End()
			}
		}
	}
	return from, to
}

func line(fset *token.FileSet, pos token.Pos) int { return fset.Position(pos).Line }

func offset(fset *token.FileSet, pos token.Pos) int { return fset.Position(pos).Offset }
