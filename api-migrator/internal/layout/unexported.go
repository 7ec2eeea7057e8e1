// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// keepUnexported finds the unexported declarations that move, but that code of the old version needs as well: a helper
// of a kind's method, say. Each version has its own then, as no other package could see the new one's.
func (l *decision) keepUnexported() {
	if l.Request.Old == request.OldKeep {
		return
	}
	for more := true; more; {
		more = false
		keep := func(_ *ast.Ident, d *split.Declaration) {
			if l.DestinationOf(d) == split.New && !ast.IsExported(d.Name) && !l.kept[d] {
				l.kept[d], more = true, true
			}
		}
		for _, d := range l.Graph.Declarations {
			for _, part := range l.Remaining(d) {
				l.EachUse(part.File, part.Nodes(), keep)
			}
		}
		for _, file := range l.testsThatStay() {
			l.EachUse(file, []ast.Node{file.Syntax}, keep)
		}
		for _, part := range l.Graph.Inits {
			for _, statement := range part.Decl.(*ast.FuncDecl).Body.List {
				if !l.Leaves(part.File, statement) {
					l.EachUse(part.File, []ast.Node{statement}, keep)
				}
			}
		}
	}
}

// hideUnexported finds the unexported declarations that are shared, but that only code of one version's package uses once
// all else that is shared is there (request.SharedNewest, request.SharedOld): they go with it and need not be exported.
func (l *decision) hideUnexported() {
	home := l.sharedHome()
	if home == SharedPackage {
		return
	}
	for _, d := range l.Graph.Declarations {
		l.hidden[d] = l.DestinationOf(d) == split.Shared && !ast.IsExported(d.Name)
	}
	for more := true; more; {
		more = false
		show := func(_ *ast.Ident, d *split.Declaration) {
			if l.hidden[d] {
				l.hidden[d], more = false, true
			}
		}
		for _, d := range l.Graph.Declarations {
			for _, viewer := range l.viewers(d) {
				if l.SamePackage(viewer, home) {
					continue
				}
				for _, part := range l.codeIn(d, viewer) {
					l.EachUse(part.File, part.Nodes(), show)
				}
			}
		}
		tests := l.testsThatStay()
		if home == OldPackage {
			tests = l.Followers()
		}
		for _, file := range tests {
			l.EachUse(file, []ast.Node{file.Syntax}, show)
		}
	}
}

// testsThatStay are the test files of the old version that do not follow what they test.
func (l *Layout) testsThatStay() []*project.File {
	followers := l.Followers()
	var stay []*project.File
	for _, file := range l.Old.Package.Files {
		if file.Test && !slices.Contains(followers, file) {
			stay = append(stay, file)
		}
	}
	return stay
}

// exportNames finds names for what is unexported and moves to the internal package, where others have to see it.
func (l *decision) exportNames() {
	taken := map[string]bool{}
	for _, d := range l.Graph.Declarations {
		for _, name := range d.Names {
			taken[name] = true
		}
	}
	for _, d := range l.Graph.Declarations {
		if l.DestinationOf(d) != split.Shared || l.IsDuplicated(d) || l.hidden[d] ||
			ast.IsExported(d.Name) || d.Name == "_" {
			continue
		}
		first, size := utf8.DecodeRuneInString(d.Name)
		name := string(unicode.ToUpper(first)) + d.Name[size:]
		if taken[name] {
			l.Block(l.Project.Place(d.Pos()), "%s is shared and has to be exported, but there is a %s already: "+
				"rename one of them first", d.Name, name)
		}
		if len(d.Names) > 1 {
			l.Block(l.Project.Place(d.Pos()), "%s are declared together and have to be exported: declare each "+
				"alone first", strings.Join(d.Names, ", "))
		}
		l.renamed[d] = name
	}
}
