// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// bindToVersion finds the declarations that move, but that mean something else in each version: a constructor of a
// kind, or what names the version. The new version's cannot stand for the old one's (OldWrap, OldAlias): callers would
// get the other kind, or the other version's name.
func (s *surgery) bindToVersion() {
	if s.request.Old != OldWrap && s.request.Old != OldAlias {
		return
	}
	for more := true; more; {
		more = false
		for _, d := range s.graph.Declarations {
			if s.placed[d].Destination != split.New || s.isKind(d) || s.isList(d) || s.bound[d] {
				continue
			}
			if why := s.whyBound(d); why != "" {
				s.bound[d], more = true, true
				if d.What == "type" {
					s.finding(s.project.Place(d.Pos()), "%s is a type of its own in each version: it needs %s", d.Name,
						why)
				}
			}
		}
	}
}

// whyBound names what each version has of its own and a declaration needs.
func (s *surgery) whyBound(d *split.Declaration) string {
	why := ""
	for _, part := range d.Parts {
		s.eachUse(part.File, part.Nodes(), func(_ *ast.Ident, used *split.Declaration) {
			moved := s.placed[used].Destination == split.New && (s.isKind(used) || s.isList(used))
			if why == "" && used != d && (moved || used.Anchor || s.bound[used]) {
				why = used.Name
			}
		})
		for _, node := range part.Nodes() {
			ast.Inspect(node, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && why == "" && s.renaming != nil && s.namesMoved(literal) {
					why = literal.Value
				}
				return true
			})
		}
	}
	return why
}

// namesMoved reports whether a string is the name of a kind that moves, or of its list.
func (s *surgery) namesMoved(literal *ast.BasicLit) bool {
	text, err := strconv.Unquote(literal.Value)
	return err == nil && literal.Kind == token.STRING &&
		slices.ContainsFunc(s.graph.Declarations, func(d *split.Declaration) bool {
			return d.Name == text && (s.isKind(d) || s.isList(d))
		})
}
