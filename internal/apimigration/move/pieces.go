// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// span is a range of bytes of a file.
type span struct{ from, to int }

// spanOf is a declaration or spec with its comments: the doc, a comment at the end of its last line, and the group of
// markers above the doc. controller-tools gives such a group to whatever follows it, so that one left behind would
// mark the wrong type.
func (s *surgery) spanOf(file *project.File, node ast.Node) span {
	start, end := node.Pos(), node.End()
	if doc := docOf(node); doc != nil {
		start = doc.Pos()
	}
	previous := token.NoPos // the end of what stands before, which markers must not belong to
	for _, decl := range file.Syntax.Decls {
		if decl.End() <= start {
			previous = max(previous, decl.End())
		}
	}
	if spec, ok := node.(ast.Spec); ok { // of a group
		for _, decl := range file.Syntax.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Pos() <= spec.Pos() && spec.End() <= general.End() {
				from, _ := project.AboveType(file.Syntax, general, spec)
				previous = max(previous, from)
			}
		}
	}
	for _, group := range slices.Backward(file.Syntax.Comments) {
		if group.Pos() >= node.End() && s.line(group.Pos()) == s.line(node.End()) {
			end = group.End()
		}
		if group.End() <= start && group.Pos() > previous && group.Pos() > file.Syntax.Name.End() && hasMarker(group) &&
			s.line(start)-s.line(group.End()) <= 2 {
			start = group.Pos()
		}
	}
	return span{s.project.Offset(start), s.project.Offset(end)}
}

// nodeOf is the syntax of a declaration: its own in a group, or all of it.
func nodeOf(d *split.Declaration) ast.Node {
	part := d.Parts[0]
	if general, ok := part.Decl.(*ast.GenDecl); ok && general.Lparen.IsValid() && len(part.Specs) > 0 {
		return part.Specs[0]
	}
	return part.Decl
}

func (s *surgery) line(pos token.Pos) int { return s.project.Fset.Position(pos).Line }

func hasMarker(group *ast.CommentGroup) bool {
	return slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return isMarker(c.Text) })
}

func isMarker(line string) bool {
	text, ok := strings.CutPrefix(line, "//")
	return ok && strings.HasPrefix(strings.TrimLeft(text, " \t"), "+")
}

func docOf(node ast.Node) *ast.CommentGroup {
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

// ownersOf are the declarations that a piece of syntax declares: one for each spec.
func (s *surgery) ownersOf(file *project.File, decl ast.Decl) []*split.Declaration {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		for _, d := range s.graph.Declarations {
			for _, part := range d.Parts {
				if part.Decl == decl {
					return []*split.Declaration{d}
				}
			}
		}
	case *ast.GenDecl:
		var owners []*split.Declaration
		for _, spec := range decl.Specs {
			owners = append(owners, s.ownerOfSpec(file, spec))
		}
		return owners
	}
	return nil
}

func (s *surgery) ownerOfSpec(file *project.File, spec ast.Spec) *split.Declaration {
	for _, d := range s.graph.Declarations {
		if d.File() == file && slices.Contains(d.Parts[0].Specs, spec) {
			return d
		}
	}
	return nil
}

// references are the edits that make the identifiers of a file mean the same when they are seen from viewer.
func (s *surgery) references(file *project.File, viewer home, q *qualifiers) []edit {
	var edits []edit
	s.eachUse(file, []ast.Node{file.Syntax}, func(ident *ast.Ident, d *split.Declaration) {
		from := viewer
		if viewer == homeOld && s.request.Shared == SharedDuplicate {
			from = s.viewerIn(s.at(ident.Pos()))
		}
		at, name := s.homeOf(d, from), s.nameOf(d, ident.Name, from)
		if !s.seen(viewer, at) {
			name = q.name(at) + "." + name
		}
		if name != ident.Name {
			edits = append(edits, edit{s.project.Offset(ident.Pos()), s.project.Offset(ident.End()), name})
		}
	})
	return edits
}

// isDirective reports whether a line of a comment is meant for a program: its words are values, not names.
func isDirective(line string) bool { return isMarker(line) || strings.HasPrefix(line, "//go:") }

// definitions are the edits that rename what is declared in a file, in its code, and in comments of files that declare
// or mention it.
func (s *surgery) definitions(file *project.File) []edit {
	var edits []edit
	known := map[*split.Declaration]bool{}
	s.eachUse(file, []ast.Node{file.Syntax}, func(_ *ast.Ident, d *split.Declaration) { known[d] = true })
	for d, name := range s.renamed {
		for _, part := range d.Parts {
			if part.File != file {
				continue
			}
			known[d] = true
			for _, node := range part.Nodes() {
				ast.Inspect(node, func(node ast.Node) bool {
					if ident, ok := node.(*ast.Ident); ok && ident.Name == d.Name &&
						s.graph.Owner(file.Info.Defs[ident]) == d {
						edits = append(edits, edit{s.project.Offset(ident.Pos()), s.project.Offset(ident.End()), name})
					}
					return true
				})
			}
		}
		if known[d] {
			edits = append(edits, s.commentWords(file, d.Name, name)...)
		}
	}
	return edits
}

// commentWords are the edits that replace a word of a file's prose.
func (s *surgery) commentWords(file *project.File, old, with string) []edit {
	var edits []edit
	mention := word(old)
	for _, group := range file.Syntax.Comments {
		for _, comment := range group.List {
			if isDirective(comment.Text) {
				continue
			}
			from := s.project.Offset(comment.Pos())
			for _, found := range mention.FindAllStringIndex(comment.Text, -1) {
				edits = append(edits, edit{from + found[0], from + found[1], with})
			}
		}
	}
	return edits
}

// extract writes the declarations of a file that go to a home, in their order; empty if there are none. A file of
// which everything goes there is taken as it is, with the comments that stand free.
func (s *surgery) extract(file *project.File, to home, edits []edit) string {
	var pieces []string
	all := true
	for _, decl := range file.Syntax.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		piece, whole := s.extractDecl(file, decl, to, edits)
		all = all && whole
		if piece != "" {
			pieces = append(pieces, piece)
		}
	}
	if len(pieces) == 0 {
		return ""
	}
	if all {
		s.wholly[file] = true
		from, _ := s.body(file)
		return strings.TrimSpace(splice(file.Source, from, len(file.Source), edits)) + "\n"
	}
	return strings.Join(pieces, "\n\n") + "\n"
}

// body is where the code of a file begins, behind its imports, and where its package clause ends.
func (s *surgery) body(file *project.File) (from, clause int) {
	clause = s.project.Offset(file.Syntax.Name.End())
	from = clause
	for _, decl := range file.Syntax.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			from = s.project.Offset(general.End())
		}
	}
	return from, clause
}

func (s *surgery) extractDecl(file *project.File, decl ast.Decl, to home, edits []edit) (piece string, whole bool) {
	if function, ok := decl.(*ast.FuncDecl); ok && isInit(function) {
		return s.extractInit(file, function, to, edits)
	}
	goes := func(d *split.Declaration) bool { return d != nil && s.goesTo(d, to) }
	owners := s.ownersOf(file, decl)
	switch chosen := countTrue(owners, goes); {
	case chosen == 0:
		return "", false
	case chosen == len(owners):
		at := s.spanOf(file, decl)
		return splice(file.Source, at.from, at.to, edits), true
	}
	general := decl.(*ast.GenDecl)
	var out strings.Builder
	if general.Doc != nil {
		out.WriteString(splice(file.Source, s.project.Offset(general.Doc.Pos()),
			s.project.Offset(general.Doc.End()), edits) + "\n")
	}
	out.WriteString(general.Tok.String() + " (\n")
	for i, spec := range general.Specs {
		if goes(owners[i]) {
			at := s.spanOf(file, spec)
			out.WriteString("\t" + splice(file.Source, at.from, at.to, edits) + "\n")
		}
	}
	out.WriteString(")")
	return out.String(), false
}

func countTrue[T any](list []T, is func(T) bool) int {
	n := 0
	for _, one := range list {
		if is(one) {
			n++
		}
	}
	return n
}

// importsOf lists the imports that a file needs whose code was taken from another: those of the other that the text
// mentions.
func importsOf(file *project.File, mentioned map[string]bool) []imported {
	var found []imported
	for _, spec := range file.Syntax.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		name := packageName(file, spec)
		if mentioned[name] {
			explicit := name
			if spec.Name == nil {
				explicit = path.Base(importPath) // written without a name there, so it can be here
			}
			found = append(found, imported{importPath, explicit})
		}
	}
	return found
}

// packageName is how a file calls what it imports.
func packageName(file *project.File, spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	if name, ok := file.Info.Implicits[spec].(*types.PkgName); ok {
		return name.Name()
	}
	return ""
}
