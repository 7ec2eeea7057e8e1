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
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// nodeOf is the syntax of a declaration: its own in a group, or all of it.
func nodeOf(d *split.Declaration) ast.Node {
	part := d.Parts[0]
	if general, ok := part.Decl.(*ast.GenDecl); ok && general.Lparen.IsValid() && len(part.Specs) > 0 {
		return part.Specs[0]
	}
	return part.Decl
}

func (s *surgery) line(pos token.Pos) int { return s.project.Fset.Position(pos).Line }

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
func (s *surgery) references(file *project.File, viewer home, q *qualifiers) []source.Edit {
	var edits []source.Edit
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
			edits = append(edits, source.Replace(s.project.Fset, ident, name))
		}
	})
	return edits
}

// definitions are the edits that rename what is declared in a file, in its code, and in comments of files that declare
// or mention it.
func (s *surgery) definitions(file *project.File) []source.Edit {
	var edits []source.Edit
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
						edits = append(edits, source.Replace(s.project.Fset, ident, name))
					}
					return true
				})
			}
		}
		if known[d] {
			edits = append(edits, source.CommentWords(s.project.Fset, file.Syntax, d.Name, name)...)
		}
	}
	return edits
}

// extract writes the declarations of a file that go to a home, in their order; empty if there are none. A file of
// which everything goes there is taken as it is, with the comments that stand free.
func (s *surgery) extract(file *project.File, to home, edits []source.Edit) string {
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
		from, _ := source.Body(s.project.Fset, file.Syntax)
		return strings.TrimSpace(source.Splice(file.Source, from, len(file.Source), edits)) + "\n"
	}
	return strings.Join(pieces, "\n\n") + "\n"
}

func (s *surgery) extractDecl(file *project.File, decl ast.Decl, to home, edits []source.Edit) (piece string, whole bool) {
	if function, ok := decl.(*ast.FuncDecl); ok && isInit(function) {
		return s.extractInit(file, function, to, edits)
	}
	goes := func(d *split.Declaration) bool { return d != nil && s.goesTo(d, to) }
	owners := s.ownersOf(file, decl)
	switch chosen := countTrue(owners, goes); {
	case chosen == 0:
		return "", false
	case chosen == len(owners):
		at := source.SpanOf(s.project.Fset, file.Syntax, decl)
		return source.Splice(file.Source, at.From, at.To, edits), true
	}
	general := decl.(*ast.GenDecl)
	var out strings.Builder
	if general.Doc != nil {
		out.WriteString(source.Splice(file.Source, s.project.Offset(general.Doc.Pos()),
			s.project.Offset(general.Doc.End()), edits) + "\n")
	}
	out.WriteString(general.Tok.String() + " (\n")
	for i, spec := range general.Specs {
		if goes(owners[i]) {
			at := source.SpanOf(s.project.Fset, file.Syntax, spec)
			out.WriteString("\t" + source.Splice(file.Source, at.From, at.To, edits) + "\n")
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
func importsOf(file *project.File, mentioned map[string]bool) []source.Import {
	var found []source.Import
	for _, spec := range file.Syntax.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		name := packageName(file, spec)
		if mentioned[name] {
			explicit := name
			if spec.Name == nil {
				explicit = path.Base(importPath) // written without a name there, so it can be here
			}
			found = append(found, source.Import{Path: importPath, Name: explicit})
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
