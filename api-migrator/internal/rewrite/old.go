// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// oldVersion is the step that changes the old version's files.
type oldVersion struct {
	*editing
	whole map[*project.File]bool // see Create
	uses  *mention.Reader
}

// Old changes the old version's package. It takes the files that Create has taken whole.
func Old(l *layout.Layout, before changeset.Set, whole map[*project.File]bool,
	uses *mention.Reader) (changeset.Result, error) {
	s := &oldVersion{editing: begin(l, before), whole: whole, uses: uses}
	if l.MovesOnlyImporters() {
		return s.Result, nil
	}
	err := s.editOld()
	return s.Result, err
}

// editOld changes the old version's files: what has left stays under its old name, what is still there of the kinds
// that move is marked as deprecated, and everything else refers to the other packages.
func (s *oldVersion) editOld() error {
	for _, file := range s.Old.Package.Files {
		if file.Generated && !file.Registers() {
			continue
		}
		q := s.qualifiersOf(s.Old.Package.Types, file, "")
		edits := s.references(file, layout.OldPackage, q)
		if s.Request.Shared == request.SharedOld { // what is exported for the new version
			edits = append(edits, s.renamings(file)...)
		}
		if !file.Test {
			edits = slices.Concat(edits, s.storageEdits(file, layout.OldPackage), s.deprecations(file),
				s.definedTypes(file, q),
				s.aliases(file, q), s.registrations(file), s.registerBeside(file))
			edits = append(edits, s.acceptOther(s.uses, file, layout.OldPackage, edits)...)
		}
		if len(edits) == 0 {
			continue
		}
		text := []byte(wrapped(source.Splice(file.Source, 0, len(file.Source), edits)))
		why := "goes on without what has moved"
		if err := s.rewrite(file, text, q, s.removable(file), why); err != nil {
			return err
		}
		if !file.Test && s.isEmptied(file) {
			s.Changes[file.Path] = &changeset.Change{Why: "all it held has moved"}
		}
	}
	return nil
}

// isEmptied reports whether every declaration has gone and no free comment is left.
func (s *oldVersion) isEmptied(file *project.File) bool {
	var covered []source.Span
	declarations := 0
	for _, decl := range file.Syntax.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		declarations++
		owners := s.OwnersOf(file, decl)
		for _, d := range owners {
			if d == nil || !s.isGone(d, decl) {
				return false
			}
		}
		if function, ok := decl.(*ast.FuncDecl); ok && len(owners) == 0 &&
			(!layout.IsInit(function) || !s.RegistersOnlyGone(file, function)) {
			return false // a method of a generated type is not what moves
		}
		covered = append(covered, source.SpanOf(s.Project.Fset, file.Syntax, decl),
			source.Span{From: s.Project.Offset(decl.Pos()), To: s.Project.Offset(decl.End())})
	}
	return declarations > 0 && !s.hasFreeComment(file, covered)
}

// hasFreeComment reports whether comments stand outside what is covered and have not gone along: what stands free in
// the code goes along with the whole of it, what stands above the imports never. A licence may go, and a comment within
// the imports goes with them.
func (s *oldVersion) hasFreeComment(file *project.File, covered []source.Span) bool {
	from, clause := source.Body(s.Project.Fset, file.Syntax)
	return slices.ContainsFunc(file.Syntax.Comments, func(group *ast.CommentGroup) bool {
		switch at := s.Project.Offset(group.Pos()); {
		case at < clause:
			return group == file.Syntax.Doc || source.HasMarker(group)
		case at < from:
			return !slices.ContainsFunc(file.Syntax.Decls,
				func(decl ast.Decl) bool { return decl.Pos() <= group.Pos() && group.Pos() < decl.End() })
		default:
			return !s.whole[file] && !slices.ContainsFunc(covered,
				func(c source.Span) bool { return c.From <= at && at < c.To })
		}
	})
}

// isGone reports whether nothing is left of a piece of a declaration.
func (s *oldVersion) isGone(d *split.Declaration, decl ast.Decl) bool {
	function, isFunction := decl.(*ast.FuncDecl)
	switch s.RemainsOf(d) {
	case layout.RemainsNothing:
		return true
	case layout.RemainsNamed: // methods come with the type
		return isFunction && function.Recv != nil
	case layout.RemainsWhole, layout.RemainsWrapped, layout.RemainsDefined:
	}
	return false
}

// deprecations are the edits that add a paragraph to the comments of exported declarations that have moved.
func (s *oldVersion) deprecations(file *project.File) []source.Edit {
	var edits []source.Edit
	for _, d := range s.Graph.Declarations {
		if d.File() != file || file.Generated || s.DestinationOf(d) != split.New || !ast.IsExported(d.Name) ||
			len(s.Remaining(d)) == 0 && s.RemainsOf(d) != layout.RemainsDefined {
			continue
		}
		node := d.Node()
		if source.IsDeprecated(source.DocOf(node)) {
			continue
		}
		edits = append(edits, s.deprecate(file, node, source.DocOf(node),
			s.useInstead(layout.NewPackage, s.NameOf(d, d.Name, layout.Importer))))
	}
	return edits
}

// deprecate adds a paragraph behind the prose of a comment, before its markers.
func (s *oldVersion) deprecate(file *project.File, node ast.Node, doc *ast.CommentGroup, text string) source.Edit {
	start := s.Project.Offset(node.Pos())
	indent := source.IndentOf(file.Source, start)
	if doc == nil {
		return source.Insert(start, text+"\n"+indent)
	}
	for i, comment := range doc.List {
		if source.IsDirective(comment.Text) {
			at, before := s.Project.Offset(comment.Pos()), "//\n"+indent
			if i == 0 || strings.TrimSpace(doc.List[i-1].Text) == "//" {
				before = ""
			}
			return source.Insert(at, before+text+"\n"+indent+"//\n"+indent)
		}
	}
	end := s.Project.Offset(doc.End())
	return source.Insert(end, "\n"+indent+"//\n"+indent+text)
}
