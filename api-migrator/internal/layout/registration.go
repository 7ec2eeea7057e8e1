// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// RegistersMoved reports whether a statement of an init function is about kinds that move, or about what every version
// has, such as localSchemeBuilder.Register(addKnownTypes).
func (l *Layout) RegistersMoved(file *project.File, statement ast.Stmt) bool {
	moving, anchors, others := false, false, false
	l.EachUse(file, []ast.Node{statement}, func(_ *ast.Ident, d *split.Declaration) {
		switch l.DestinationOf(d) {
		case split.New:
			moving = true
		case split.Anchor:
			anchors = true
		default:
			others = true
		}
	})
	if l.Exists(NewPackage) { // it has its own about what every version has
		return moving && l.anchorsFit(file, statement)
	}
	return moving || anchors && !others
}

// IsInit reports whether a function is an init function.
func IsInit(function *ast.FuncDecl) bool {
	return function.Recv == nil && function.Name.Name == "init"
}

// RegistersOnlyGone reports whether the old version's init function only registers kinds that it does not have any
// more.
func (l *Layout) RegistersOnlyGone(file *project.File, function *ast.FuncDecl) bool {
	return len(function.Body.List) > 0 && !slices.ContainsFunc(function.Body.List,
		func(statement ast.Stmt) bool { return !l.Leaves(file, statement) })
}

// Unregistered are the edits that keep a version from registering kinds that it does not have.
func (l *Layout) Unregistered(file *project.File, viewer Home) []source.Edit {
	return l.withoutKinds(file, func(d *split.Declaration) bool {
		if viewer == NewPackage {
			return l.DestinationOf(d) == split.Stay
		}
		return l.DestinationOf(d) == split.New && l.RemainsOf(d) == RemainsNothing
	})
}

// withoutKinds are the edits that drop arguments such as &OperatorGroup{} from calls that register kinds, and whole
// statements that register one kind.
func (l *Layout) withoutKinds(file *project.File, drop func(*split.Declaration) bool) []source.Edit {
	var edits []source.Edit
	for _, decl := range file.Syntax.Decls {
		function, ok := decl.(*ast.FuncDecl)
		registers := ok && IsInit(function) || slices.ContainsFunc(l.OwnersOf(file, decl),
			func(d *split.Declaration) bool { return d != nil && d.Anchor })
		if !registers {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ExprStmt:
				if d := l.Graph.RegisteredAlone(file, node); d != nil && drop(d) {
					edits = append(edits, source.Remove(l.Project.Fset, file.Source, node))
					return false
				}
			case *ast.CallExpr:
				edits = append(edits, l.withoutArguments(file, node.Args, drop)...)
			case *ast.CompositeLit:
				edits = append(edits, l.withoutArguments(file, node.Elts, drop)...)
			}
			return true
		})
	}
	return edits
}

func (l *Layout) withoutArguments(file *project.File, arguments []ast.Expr, drop func(*split.Declaration) bool) []source.Edit {
	var edits []source.Edit
	kept := -1 // the last argument that stays
	for i, argument := range arguments {
		if d := l.Graph.Registered(file, argument); d == nil || !drop(d) {
			kept = i
			continue
		}
		switch {
		case i+1 < len(arguments):
			edits = append(edits, source.Over(l.Project.Offset(argument.Pos()),
				l.Project.Offset(arguments[i+1].Pos()), ""))
		case kept >= 0:
			edits = append(edits, source.Over(l.Project.Offset(arguments[kept].End()),
				l.Project.Offset(argument.End()), ""))
		default: // none stays
			to := l.Project.Offset(argument.End())
			if file.Source[to] == ',' {
				to++
			}
			edits = append(edits, source.Over(l.Project.Offset(argument.Pos()), to, ""))
		}
	}
	return edits
}
