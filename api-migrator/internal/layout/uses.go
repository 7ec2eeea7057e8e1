// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// EachUse calls use for every identifier in nodes that names a declaration of the old package.
func (l *Layout) EachUse(file *project.File, nodes []ast.Node, use func(*ast.Ident, *split.Declaration)) {
	for _, node := range nodes {
		ast.Inspect(node, func(node ast.Node) bool {
			if ident, ok := node.(*ast.Ident); ok {
				if d := l.Graph.Owner(file.Info.Uses[ident]); d != nil {
					use(ident, d)
				}
			}
			return true
		})
	}
}

// OwnersOf are the declarations that a piece of syntax declares: one for each spec.
func (l *Layout) OwnersOf(file *project.File, decl ast.Decl) []*split.Declaration {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		for _, d := range l.Graph.Declarations {
			for _, part := range d.Parts {
				if part.Decl == decl {
					return []*split.Declaration{d}
				}
			}
		}
	case *ast.GenDecl:
		var owners []*split.Declaration
		for _, spec := range decl.Specs {
			owners = append(owners, l.ownerOfSpec(file, spec))
		}
		return owners
	}
	return nil
}

func (l *Layout) ownerOfSpec(file *project.File, spec ast.Spec) *split.Declaration {
	for _, d := range l.Graph.Declarations {
		if d.File() == file && slices.Contains(d.Parts[0].Specs, spec) {
			return d
		}
	}
	return nil
}

// Line is the line of a position.
func (l *Layout) Line(pos token.Pos) int { return l.Project.Fset.Position(pos).Line }

// Moves reports whether a name is that of a kind that moves, or of its list.
func (l *Layout) Moves(kind string) bool {
	return slices.Contains(l.Request.Kinds, kind) || slices.Contains(l.Request.Kinds, strings.TrimSuffix(kind, "List"))
}

// IsDuplicated reports whether each version has its own of a declaration.
func (l *Layout) IsDuplicated(d *split.Declaration) bool {
	return l.DestinationOf(d) == split.Shared && (l.Request.Shared == request.SharedDuplicate || l.twins[d])
}
