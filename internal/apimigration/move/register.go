// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/token"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// extractInit keeps the statements that register kinds that move. The arguments that name other kinds have been
// edited away.
func (s *surgery) extractInit(file *project.File, function *ast.FuncDecl, to home,
	edits []source.Edit) (piece string, whole bool) {
	if to != homeNew {
		return "", false
	}
	var without []source.Edit
	kept := 0
	for _, statement := range function.Body.List {
		if s.registersMoved(file, statement) {
			kept++
			continue
		}
		without = append(without, source.Remove(s.project.Fset, file.Source, statement))
	}
	if kept == 0 {
		return "", false
	}
	at := source.SpanOf(s.project.Fset, file.Syntax, function)
	return source.Splice(file.Source, at.From, at.To, append(without, edits...)), len(without) == 0
}

// registersMoved reports whether a statement of an init function is about kinds that move, or about what every version
// has, such as localSchemeBuilder.Register(addKnownTypes).
func (s *surgery) registersMoved(file *project.File, statement ast.Stmt) bool {
	moving, anchors, others := false, false, false
	s.eachUse(file, []ast.Node{statement}, func(_ *ast.Ident, d *split.Declaration) {
		switch s.placed[d].Destination {
		case split.New:
			moving = true
		case split.Anchor:
			anchors = true
		default:
			others = true
		}
	})
	return moving || anchors && !others
}

func isInit(function *ast.FuncDecl) bool {
	return function.Recv == nil && function.Name.Name == "init"
}

// emptied reports whether the old version's init function only registers kinds that it does not have any more.
func (s *surgery) emptied(file *project.File, function *ast.FuncDecl) bool {
	return len(function.Body.List) > 0 && !slices.ContainsFunc(function.Body.List,
		func(statement ast.Stmt) bool { return !s.leaves(file, statement) })
}

// droppedIn are the edits that keep a version from registering kinds that it does not have.
func (s *surgery) droppedIn(file *project.File, viewer home) []source.Edit {
	return s.withoutKinds(file, func(d *split.Declaration) bool {
		if viewer == homeNew {
			return s.placed[d].Destination == split.Stay
		}
		return s.placed[d].Destination == split.New && s.remainsOf(d) == remainsNothing
	})
}

// registrations are the edits that keep the old version from registering kinds that it does not have any more.
func (s *surgery) registrations(file *project.File) []source.Edit {
	edits := s.droppedIn(file, homeOld)
	for _, decl := range file.Syntax.Decls {
		function, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok || !isInit(function):
		case s.emptied(file, function):
			edits = append(edits, source.Replacement(file.Source, source.SpanOf(s.project.Fset, file.Syntax, function), ""))
		default:
			for _, statement := range function.Body.List {
				if s.leaves(file, statement) {
					edits = append(edits, source.Remove(s.project.Fset, file.Source, statement))
				}
			}
		}
	}
	return edits
}

// withoutKinds are the edits that drop arguments such as &OperatorGroup{} from calls that register kinds.
func (s *surgery) withoutKinds(file *project.File, drop func(*split.Declaration) bool) []source.Edit {
	var edits []source.Edit
	for _, decl := range file.Syntax.Decls {
		function, ok := decl.(*ast.FuncDecl)
		registers := ok && isInit(function) || slices.ContainsFunc(s.ownersOf(file, decl),
			func(d *split.Declaration) bool { return d != nil && d.Anchor })
		if !registers {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				edits = append(edits, s.withoutArguments(file, node.Args, drop)...)
			case *ast.CompositeLit:
				edits = append(edits, s.withoutArguments(file, node.Elts, drop)...)
			}
			return true
		})
	}
	return edits
}

func (s *surgery) withoutArguments(file *project.File, arguments []ast.Expr, drop func(*split.Declaration) bool) []source.Edit {
	var edits []source.Edit
	kept := -1 // the last argument that stays
	for i, argument := range arguments {
		if d := s.registered(file, argument); d == nil || !drop(d) {
			kept = i
			continue
		}
		switch {
		case i+1 < len(arguments):
			edits = append(edits, source.Over(s.project.Offset(argument.Pos()), s.project.Offset(arguments[i+1].Pos()), ""))
		case kept >= 0:
			edits = append(edits, source.Over(s.project.Offset(arguments[kept].End()), s.project.Offset(argument.End()), ""))
		default: // none stays
			to := s.project.Offset(argument.End())
			if file.Source[to] == ',' {
				to++
			}
			edits = append(edits, source.Over(s.project.Offset(argument.Pos()), to, ""))
		}
	}
	return edits
}

// registered is the type of an argument such as &T{}.
func (s *surgery) registered(file *project.File, argument ast.Expr) *split.Declaration {
	address, ok := argument.(*ast.UnaryExpr)
	if !ok || address.Op != token.AND {
		return nil
	}
	literal, ok := address.X.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	ident, ok := literal.Type.(*ast.Ident)
	if !ok {
		return nil
	}
	return s.graph.Owner(file.Info.Uses[ident])
}
