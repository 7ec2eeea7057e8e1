// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// extract writes the declarations of a file that go to a home, in their order; empty if there are none. A file of
// which everything goes there is taken as it is, with the comments that stand free.
func (s *creation) extract(file *project.File, to layout.Home, edits []source.Edit) string {
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
		s.whole[file] = true
		from, _ := source.Body(s.Project.Fset, file.Syntax)
		return strings.TrimSpace(source.Splice(file.Source, from, len(file.Source), edits)) + "\n"
	}
	return strings.Join(pieces, "\n\n") + "\n"
}

func (s *creation) extractDecl(file *project.File, decl ast.Decl, to layout.Home,
	edits []source.Edit) (piece string, whole bool) {
	if function, ok := decl.(*ast.FuncDecl); ok && layout.IsInit(function) {
		return s.extractInit(file, function, to, edits)
	}
	goes := func(d *split.Declaration) bool { return d != nil && s.GoesTo(d, to) }
	owners := s.OwnersOf(file, decl)
	switch chosen := countTrue(owners, goes); {
	case chosen == 0:
		return "", false
	case chosen == len(owners):
		at := source.SpanOf(s.Project.Fset, file.Syntax, decl)
		return source.Splice(file.Source, at.From, at.To, edits), true
	}
	general := decl.(*ast.GenDecl)
	var out strings.Builder
	if general.Doc != nil {
		out.WriteString(source.Splice(file.Source, s.Project.Offset(general.Doc.Pos()),
			s.Project.Offset(general.Doc.End()), edits) + "\n")
	}
	out.WriteString(general.Tok.String() + " (\n")
	for i, spec := range general.Specs {
		if goes(owners[i]) {
			at := source.SpanOf(s.Project.Fset, file.Syntax, spec)
			if !strings.HasSuffix(out.String(), "(\n") && source.FollowsEmptyLine(file.Source, at.From) {
				out.WriteString("\n")
			}
			out.WriteString("\t" + source.Splice(file.Source, at.From, at.To, edits) + "\n")
		}
	}
	out.WriteString(")")
	return out.String(), false
}

// extractInit keeps the statements that register kinds that move. The arguments that name other kinds have been
// edited away.
func (s *creation) extractInit(file *project.File, function *ast.FuncDecl, to layout.Home,
	edits []source.Edit) (piece string, whole bool) {
	if to != layout.NewPackage {
		return "", false
	}
	var without []source.Edit
	kept := 0
	for _, statement := range function.Body.List {
		if s.RegistersMoved(file, statement) {
			kept++
			continue
		}
		without = append(without, source.Remove(s.Project.Fset, file.Source, statement))
	}
	if kept == 0 {
		return "", false
	}
	at := source.SpanOf(s.Project.Fset, file.Syntax, function)
	return source.Splice(file.Source, at.From, at.To, append(without, edits...)), len(without) == 0
}

// header is what stands above the code: licence, package comment and package clause.
func (s *creation) header(from *project.File, to layout.Home) string {
	_, end := source.Body(s.Project.Fset, from.Syntax)
	clause := source.Over(s.Project.Offset(from.Syntax.Name.Pos()), end, s.PackageName(to))
	if s.SamePackage(to, layout.OldPackage) {
		clause.Text = from.Syntax.Name.Name
	}
	importComment := string(from.Source[s.Project.Offset(from.Syntax.Name.End()):end])
	clause.Text += strings.ReplaceAll(importComment, strconv.Quote(s.Old.Package.Path), strconv.Quote(s.ImportPath(to)))
	edits := []source.Edit{clause}
	if doc := from.Syntax.Doc; doc != nil && (to != layout.NewPackage || s.InPlace() || s.Exists(to)) { // of a version
		edits = append(edits, source.Over(s.Project.Offset(doc.Pos()), s.Project.Offset(from.Syntax.Package), ""))
	}
	if to == layout.NewPackage && !s.Exists(to) {
		edits = append(edits, s.headerEdits(from)...)
	} else {
		edits = append(edits, s.withoutVersionComment(from, s.Exists(to))...)
	}
	return source.Splice(from.Source, 0, end, edits)
}

// withoutVersionComment removes a package comment that stands apart from the package clause, and markers of the package
// for one that has its own.
func (s *creation) withoutVersionComment(from *project.File, exists bool) []source.Edit {
	var edits []source.Edit
	for _, group := range from.Syntax.Comments {
		isMarker := exists && source.HasMarker(group) && !source.IsConstraint(group)
		if group.End() < from.Syntax.Package && group != from.Syntax.Doc &&
			(isMarker || strings.HasPrefix(group.Text(), "Package "+s.Old.Package.Name+" ")) {
			at := source.Span{From: s.Project.Offset(group.Pos()), To: s.Project.Offset(group.End())}
			edits = append(edits, source.Replacement(from.Source, at, ""))
		}
	}
	return edits
}

// headerEdits name the new version in the package comment and in the markers above the package clause.
func (s *creation) headerEdits(from *project.File) []source.Edit {
	var edits []source.Edit
	for _, group := range from.Syntax.Comments {
		if group.Pos() > from.Syntax.Package {
			break
		}
		for _, comment := range group.List {
			text := comment.Text
			switch {
			case source.IsDirective(text):
				text = strings.ReplaceAll(text, "groupName="+s.Old.Group, "groupName="+s.Group)
				text = strings.ReplaceAll(text, "versionName="+s.Old.Version, "versionName="+s.Version)
			case group == from.Syntax.Doc:
				if s.Group != s.Old.Group {
					text = source.Word(s.GroupWord()).ReplaceAllString(text, s.FolderName(layout.NewPackage))
				}
				text = source.Word(s.Old.Version).ReplaceAllString(text, s.Version)
			}
			if text != comment.Text {
				edits = append(edits, source.Replace(s.Project.Fset, comment, text))
			}
		}
	}
	return edits
}

// versionLiterals replaces group and version where the old version says which it is.
func (s *creation) versionLiterals(file *project.File) []source.Edit {
	var edits []source.Edit
	for _, decl := range file.Syntax.Decls {
		if !slices.ContainsFunc(s.OwnersOf(file, decl), func(d *split.Declaration) bool {
			return d != nil &&
				d.Anchor
		}) {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			value, ok := s.text(file, node)
			if !ok {
				return true
			}
			with := map[string]string{s.Old.Version: s.Version, s.Old.Group: s.Group,
				s.Old.Name(): s.Group + "/" + s.Version}
			if with[value] != "" && with[value] != value {
				edits = append(edits, source.Replace(s.Project.Fset, node, strconv.Quote(with[value])))
			}
			return false
		})
	}
	return edits
}
