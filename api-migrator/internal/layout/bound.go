// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// bindToVersion finds the declarations that move, but that mean something else in each version: a constructor of a
// kind, or what names the version. The new version's cannot stand for the old one's (request.OldWrap,
// request.OldAlias): callers would get the other kind, or the other version's name.
func (l *decision) bindToVersion() {
	if l.Request.Old != request.OldWrap && l.Request.Old != request.OldAlias {
		return
	}
	for more := true; more; {
		more = false
		for _, d := range l.Graph.Declarations {
			if l.DestinationOf(d) != split.New || l.isKind(d) || l.isList(d) || l.bound[d] {
				continue
			}
			if why := l.whyBound(d); why != "" {
				l.bound[d], more = true, true
				if d.What == "type" {
					l.Note(l.Project.Place(d.Pos()), "%s is a type of its own in each version: it needs %s", d.Name,
						why)
				}
			}
		}
	}
}

// whyBound names what each version has of its own and a declaration needs.
func (l *Layout) whyBound(d *split.Declaration) string {
	why := ""
	for _, part := range d.Parts {
		l.EachUse(part.File, part.Nodes(), func(_ *ast.Ident, used *split.Declaration) {
			moved := l.DestinationOf(used) == split.New && (l.isKind(used) || l.isList(used))
			if why == "" && used != d && (moved || used.Anchor || l.bound[used]) {
				why = used.Name
			}
		})
		for _, node := range part.Nodes() {
			ast.Inspect(node, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && why == "" && l.Renaming != nil && l.namesMoved(literal) {
					why = literal.Value
				}
				return true
			})
		}
	}
	return why
}

// namesMoved reports whether a string is the name of a kind that moves, or of its list.
func (l *Layout) namesMoved(literal *ast.BasicLit) bool {
	text, err := strconv.Unquote(literal.Value)
	return err == nil && literal.Kind == token.STRING &&
		slices.ContainsFunc(l.Graph.Declarations, func(d *split.Declaration) bool {
			return d.Name == text && (l.isKind(d) || l.isList(d))
		})
}
