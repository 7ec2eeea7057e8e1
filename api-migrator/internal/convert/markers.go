// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

var listMapKey = regexp.MustCompile(`^//\s*\+listMapKey=(\S+)`)

// listKeys reads the markers of a list that is a field, or else of its type: the keys that identify its elements.
func (s *scaffold) listKeys(variable *types.Var) []string {
	if keys := s.markers(variable.Pos()); keys != nil {
		return keys
	}
	if named, ok := types.Unalias(variable.Type()).(*types.Named); ok {
		return s.markers(named.Obj().Pos())
	}
	return nil
}

// markers reads those of what is declared at pos.
func (s *scaffold) markers(pos token.Pos) []string {
	for _, pkg := range s.project.Packages {
		for _, file := range pkg.Files {
			if file.Syntax.FileStart <= pos && pos < file.Syntax.FileEnd {
				return markersIn(file.Syntax, pos)
			}
		}
	}
	return nil
}

// markersIn takes the comments that controller-tools takes: that of a declaration, and the nearest one above it, parted
// by an empty line.
func markersIn(file *ast.File, pos token.Pos) []string {
	var keys []string
	for _, group := range comments(file, pos) {
		if group == nil {
			continue
		}
		for _, line := range group.List {
			if found := listMapKey.FindStringSubmatch(line.Text); found != nil {
				keys = append(keys, strings.Trim(found[1], "`\""))
			}
		}
	}
	return keys
}

// comments are those of the field, or the type, whose name is at pos.
func comments(file *ast.File, pos token.Pos) []*ast.CommentGroup {
	var found []*ast.CommentGroup
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FieldList:
			after := node.Opening
			for _, field := range node.List {
				for _, name := range field.Names {
					if name.Pos() == pos {
						found = []*ast.CommentGroup{above(file, after, begin(field, field.Doc)),
							field.Doc, field.Comment}
					}
				}
				after = end(field, field.Comment)
			}
		case *ast.File:
			after := node.Name.End()
			for _, decl := range node.Decls {
				general, ok := decl.(*ast.GenDecl)
				if !ok || general.Tok != token.TYPE || general.Lparen.IsValid() {
					after = decl.End()
					continue
				}
				declared := general.Specs[0].(*ast.TypeSpec)
				if declared.Name.Pos() == pos {
					found = []*ast.CommentGroup{above(file, after, begin(general, general.Doc)),
						general.Doc, declared.Comment}
				}
				after = end(declared, declared.Comment)
			}
		case *ast.GenDecl:
			after := node.Lparen
			for _, spec := range node.Specs {
				declared, ok := spec.(*ast.TypeSpec)
				if !ok || !node.Lparen.IsValid() {
					continue
				}
				if declared.Name.Pos() == pos {
					found = []*ast.CommentGroup{above(file, after, begin(declared, declared.Doc)),
						declared.Doc, declared.Comment}
				}
				after = end(declared, declared.Comment)
			}
		}
		return found == nil
	})
	return found
}

func begin(node ast.Node, doc *ast.CommentGroup) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return node.Pos()
}

func end(node ast.Node, comment *ast.CommentGroup) token.Pos {
	if comment != nil {
		return comment.End()
	}
	return node.End()
}

// above is the last comment between two places.
func above(file *ast.File, after, before token.Pos) *ast.CommentGroup {
	var last *ast.CommentGroup
	for _, group := range file.Comments {
		if after < group.Pos() && group.End() < before {
			last = group
		}
	}
	return last
}
