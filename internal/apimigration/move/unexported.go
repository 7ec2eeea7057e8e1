// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// keepUnexported finds the unexported declarations that move, but that code of the old version needs as well: a helper
// of a kind's method, say. Each version has its own then, as no other package could see the new one's.
func (s *surgery) keepUnexported() {
	if s.request.Old == OldKeep {
		return
	}
	for more := true; more; {
		more = false
		keep := func(_ *ast.Ident, d *split.Declaration) {
			if s.placed[d].Destination == split.New && !ast.IsExported(d.Name) && !s.kept[d] {
				s.kept[d], more = true, true
			}
		}
		for _, d := range s.graph.Declarations {
			for _, part := range s.remaining(d) {
				s.eachUse(part.File, part.Nodes(), keep)
			}
		}
		for _, file := range s.testsThatStay() {
			s.eachUse(file, []ast.Node{file.Syntax}, keep)
		}
		for _, part := range s.graph.Inits {
			for _, statement := range part.Decl.(*ast.FuncDecl).Body.List {
				if !s.leaves(part.File, statement) {
					s.eachUse(part.File, []ast.Node{statement}, keep)
				}
			}
		}
	}
}

// hideUnexported finds the unexported declarations that are shared, but that only code of the new version's package
// uses once all else that is shared is there (SharedNewest): they move along and need not be exported.
func (s *surgery) hideUnexported() {
	if s.request.Shared != SharedNewest {
		return
	}
	for _, d := range s.graph.Declarations {
		s.hidden[d] = s.placed[d].Destination == split.Shared && !ast.IsExported(d.Name)
	}
	for more := true; more; {
		more = false
		show := func(_ *ast.Ident, d *split.Declaration) {
			if s.hidden[d] {
				s.hidden[d], more = false, true
			}
		}
		for _, d := range s.graph.Declarations {
			for _, viewer := range s.viewers(d) {
				if viewer == homeNew {
					continue
				}
				for _, part := range s.codeIn(d, viewer) {
					s.eachUse(part.File, part.Nodes(), show)
				}
			}
		}
		for _, file := range s.testsThatStay() {
			s.eachUse(file, []ast.Node{file.Syntax}, show)
		}
	}
}

// testsThatStay are the test files of the old version that do not follow what they test.
func (s *surgery) testsThatStay() []*project.File {
	followers := s.followers()
	var stay []*project.File
	for _, file := range s.old.Package.Files {
		if file.Test && !slices.Contains(followers, file) {
			stay = append(stay, file)
		}
	}
	return stay
}
