// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// editOld changes the old version's files: what has left stays under its old name, what is still there of the kinds
// that move is marked as deprecated, and everything else refers to the other packages.
func (s *surgery) editOld() error {
	for _, file := range s.old.Package.Files {
		if file.Generated && !file.Registers() {
			continue
		}
		q := s.qualifiersOf(s.old.Package.Types, file, "")
		edits := s.references(file, homeOld, q)
		if !file.Test {
			edits = slices.Concat(edits, s.storageEdits(file, homeOld), s.deprecations(file), s.definedTypes(file, q),
				s.aliases(file, q), s.registrations(file), s.registerBeside(file))
		}
		if len(edits) == 0 {
			continue
		}
		text := []byte(source.Splice(file.Source, 0, len(file.Source), edits))
		removable := map[string]string{}
		for _, one := range importsOf(file, source.Selectors(file.Syntax)) {
			removable[one.Path] = one.Name
		}
		why := "uses what is shared; old names are deprecated"
		if err := s.rewrite(file, text, q, removable, why); err != nil {
			return err
		}
		if !file.Test && s.isEmptied(file) {
			s.files[file.Path] = &change{why: "all it held has moved"}
		}
	}
	return nil
}

// rewrite records the new text of a file that exists.
func (s *surgery) rewrite(file *project.File, text []byte, q *qualifiers,
	removable map[string]string, why string) error {
	content, err := s.edited(file, text, q, removable)
	if err != nil {
		return err
	}
	s.files[file.Path] = &change{content: content, why: why}
	return nil
}

// edited is the text with the imports that it needs, formatted as the file was.
func (s *surgery) edited(file *project.File, text []byte, q *qualifiers, removable map[string]string) ([]byte, error) {
	mentioned, err := source.SelectorsIn(text)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", file.Path, err)
	}
	var add []source.Import
	for _, one := range q.imports() {
		if mentioned[one.Name] {
			add = append(add, one)
		}
	}
	if text, err = source.FixImports(text, add, removable); err != nil {
		return nil, fmt.Errorf("edit %s: %w", file.Path, err)
	}
	if text, err = source.Format(file.Source, text); err != nil {
		return nil, fmt.Errorf("edit %s: %w", file.Path, err)
	}
	return text, nil
}

// isEmptied reports whether every declaration has gone and no free comment is left.
func (s *surgery) isEmptied(file *project.File) bool {
	var covered []source.Span
	declarations := 0
	for _, decl := range file.Syntax.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		declarations++
		owners := s.ownersOf(file, decl)
		for _, d := range owners {
			if d == nil || !s.isGone(d, decl) {
				return false
			}
		}
		if function, ok := decl.(*ast.FuncDecl); ok && len(owners) == 0 &&
			(!isInit(function) || !s.emptied(file, function)) {
			return false // a method of a generated type is not what moves
		}
		covered = append(covered, source.SpanOf(s.project.Fset, file.Syntax, decl),
			source.Span{From: s.project.Offset(decl.Pos()), To: s.project.Offset(decl.End())})
	}
	return declarations > 0 && !s.hasFreeComment(file, covered)
}

// hasFreeComment reports whether comments stand outside what is covered and have not gone along: what stands free in
// the code goes along with the whole of it, what stands above the imports never. A licence may go, and a comment within
// the imports goes with them.
func (s *surgery) hasFreeComment(file *project.File, covered []source.Span) bool {
	from, clause := source.Body(s.project.Fset, file.Syntax)
	return slices.ContainsFunc(file.Syntax.Comments, func(group *ast.CommentGroup) bool {
		switch at := s.project.Offset(group.Pos()); {
		case at < clause:
			return group == file.Syntax.Doc || source.HasMarker(group)
		case at < from:
			return !slices.ContainsFunc(file.Syntax.Decls,
				func(decl ast.Decl) bool { return decl.Pos() <= group.Pos() && group.Pos() < decl.End() })
		default:
			return !s.wholly[file] && !slices.ContainsFunc(covered,
				func(c source.Span) bool { return c.From <= at && at < c.To })
		}
	})
}

// isGone reports whether nothing is left of a piece of a declaration.
func (s *surgery) isGone(d *split.Declaration, decl ast.Decl) bool {
	function, isFunction := decl.(*ast.FuncDecl)
	switch s.remainsOf(d) {
	case remainsNothing:
		return true
	case remainsNamed: // methods come with the type
		return isFunction && function.Recv != nil
	case remainsWhole, remainsWrapped, remainsDefined:
	}
	return false
}

// deprecations are the edits that add a paragraph to the comments of exported declarations that have moved.
func (s *surgery) deprecations(file *project.File) []source.Edit {
	var edits []source.Edit
	for _, d := range s.graph.Declarations {
		if d.File() != file || s.placed[d].Destination != split.New || !ast.IsExported(d.Name) ||
			len(s.remaining(d)) == 0 && s.remainsOf(d) != remainsDefined {
			continue
		}
		node := nodeOf(d)
		if source.IsDeprecated(source.DocOf(node)) {
			continue
		}
		edits = append(edits, s.deprecate(file, node, source.DocOf(node),
			s.useInstead(homeNew, s.nameOf(d, d.Name, elsewhere))))
	}
	return edits
}

// deprecate adds a paragraph behind the prose of a comment, before its markers.
func (s *surgery) deprecate(file *project.File, node ast.Node, doc *ast.CommentGroup, text string) source.Edit {
	start := s.project.Offset(node.Pos())
	indent := source.IndentOf(file.Source, start)
	if doc == nil {
		return source.Insert(start, text+"\n"+indent)
	}
	for i, comment := range doc.List {
		if source.IsDirective(comment.Text) {
			at, before := s.project.Offset(comment.Pos()), "//\n"+indent
			if i == 0 || strings.TrimSpace(doc.List[i-1].Text) == "//" {
				before = ""
			}
			return source.Insert(at, before+text+"\n"+indent+"//\n"+indent)
		}
	}
	end := s.project.Offset(doc.End())
	return source.Insert(end, "\n"+indent+"//\n"+indent+text)
}
