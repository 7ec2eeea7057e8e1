// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// isSame reports whether a package that exists declares the same as a declaration: the same code and the same markers,
// with the same methods. Prose in comments does not count, and neither does whether a name is that of a package or one
// of its old names.
func (l *Layout) isSame(d *split.Declaration, h Home) bool {
	if !l.Exists(h) || d.Name == "_" {
		return false
	}
	there := l.graphs[h]
	at := slices.IndexFunc(there.Declarations, func(other *split.Declaration) bool {
		return other.What == d.What && slices.Equal(other.Names, d.Names)
	})
	if at < 0 {
		return false
	}
	for _, part := range d.Parts {
		words := l.words(part, l.Old.Package)
		if !slices.ContainsFunc(there.Declarations[at].Parts, func(other split.Part) bool {
			return slices.Equal(words, l.words(other, there.Package))
		}) {
			return false
		}
	}
	return true
}

// words are the tokens of a piece of code. What its own package declares begins with a dot there, and all else that
// packages declare with their paths.
func (l *Layout) words(part split.Part, own *project.Package) []string {
	node := ast.Node(part.Decl)
	general, isGeneral := part.Decl.(*ast.GenDecl)
	isGrouped := isGeneral && general.Lparen.IsValid()
	if isGrouped && len(part.Specs) == 1 {
		node = part.Specs[0]
	}
	names := map[int]string{} // by the offset
	ast.Inspect(node, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok {
			names[l.Project.Offset(ident.Pos())] = l.word(part.File.Info, ident, own)
		}
		return true
	})
	span := source.SpanOf(l.Project.Fset, part.File.Syntax, node)
	text := part.File.Source[span.From:span.To]
	positions := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(positions, text, nil, scanner.ScanComments)
	var found []string
	qualified := false // by the name of an import, which the name behind it says
	for {
		pos, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return found
		case kind == token.COMMENT && !source.IsMarker(literal), kind == token.SEMICOLON,
			isGeneral && !isGrouped && kind == general.Tok, qualified && kind == token.PERIOD:
			qualified = false
		case kind == token.IDENT:
			name, known := names[span.From+positions.Offset(pos)]
			if !known {
				name = literal
			}
			if qualified = name == ""; !qualified {
				found = append(found, name)
			}
		case literal != "":
			found = append(found, literal)
		default:
			found = append(found, kind.String())
		}
	}
}

// word is what an identifier means; empty for the name of an import.
func (l *Layout) word(info *types.Info, ident *ast.Ident, own *project.Package) string {
	object := info.Uses[ident]
	if _, isImport := object.(*types.PkgName); isImport {
		return ""
	}
	if d := l.Graph.Owner(object); d != nil {
		if former, ok := l.former[d]; ok {
			return l.graphs[former.home].Package.Path + "." + former.name
		}
	}
	if name, ok := object.(*types.TypeName); ok && name.IsAlias() {
		if named, ok := types.Unalias(name.Type()).(*types.Named); ok {
			object = named.Obj()
		}
	}
	switch {
	case object == nil || object.Pkg() == nil || object.Parent() != object.Pkg().Scope():
		return ident.Name
	case object.Pkg().Path() == own.Path:
		return "." + object.Name()
	}
	return object.Pkg().Path() + "." + object.Name()
}
