// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// reportStrings lists the strings of the code that say the old group or kind: objects in clusters carry some of them,
// so that only a person can decide.
func (s *surgery) reportStrings() {
	if len(s.successors) == 0 {
		return
	}
	for _, pkg := range s.project.Packages {
		for _, file := range pkg.Files {
			if !file.Generated && !file.Test {
				s.reportStringsOf(file)
			}
		}
	}
	s.reportNames()
}

func (s *surgery) reportStringsOf(file *project.File) {
	var above []ast.Node
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		if node == nil {
			above = above[:len(above)-1]
			return true
		}
		above = append(above, node)
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || len(above) < 2 {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if _, isImport := above[len(above)-2].(*ast.ImportSpec); err != nil || isImport || !s.saysOld(value) {
			return true
		}
		if _, isTag := above[len(above)-2].(*ast.Field); isTag || s.isAnchored(file, literal) {
			return true
		}
		name := nameAbove(above)
		if advice := s.adviceOn(name, value); advice != "" {
			s.finding(s.project.Place(literal.Pos()), "%q %s", value, advice)
		}
		if strings.Contains(strings.ToLower(name+value), "finalizer") && !slices.Contains(s.finalizers, value) {
			s.finalizers = append(s.finalizers, value)
		}
		return true
	})
}

// saysOld reports whether a string has the old group in it, or the old name of a kind.
func (s *surgery) saysOld(value string) bool {
	if s.group != s.old.Group && strings.Contains(value, s.old.Group) {
		return true
	}
	return s.renaming != nil && slices.ContainsFunc(s.successors, func(one succession) bool {
		return strings.Contains(strings.ToLower(value), strings.ToLower(one.old.Kind)) && !strings.Contains(value, " ")
	})
}

// isAnchored reports whether a string stands where a version says which it is, or in what belongs to kinds that stay.
func (s *surgery) isAnchored(file *project.File, literal *ast.BasicLit) bool {
	if !slices.Contains(s.old.Package.Files, file) {
		return false
	}
	d := s.at(literal.Pos())
	if d != nil && s.placed[d].Destination == split.Stay && !s.inPlace() {
		return true // it is about kinds that stay
	}
	return d != nil && (d.Anchor || s.goesTo(d, homeNew) && s.isKindConstant(d, literal))
}

// isKindConstant: the copy's value has been changed.
func (s *surgery) isKindConstant(d *split.Declaration, literal *ast.BasicLit) bool {
	value, err := strconv.Unquote(literal.Value)
	return err == nil && s.renaming != nil && d.What == "const" &&
		(value == s.renaming.from || value == s.successors[0].old.List)
}

// nameAbove is what a string is the value of.
func nameAbove(above []ast.Node) string {
	for _, node := range slices.Backward(above) {
		switch node := node.(type) {
		case *ast.KeyValueExpr:
			if ident, ok := node.Key.(*ast.Ident); ok {
				return ident.Name
			}
		case *ast.ValueSpec:
			return node.Names[0].Name
		case ast.Stmt:
			return ""
		}
	}
	return ""
}

// adviceOn says what hangs on a string.
func (s *surgery) adviceOn(name, value string) string {
	all := strings.ToLower(name + " " + value)
	switch {
	case strings.Contains(all, "finalizer"):
		return "is a finalizer that objects carry: the code for the new kind sets it as well. Choose one that says " +
			"the new name, and see the plan of the copy"
	case strings.Contains(strings.ToLower(name), "leaderelection"):
		return "is the name of a lock: leave it, or two releases of the operator work at the same time"
	case strings.Contains(value, s.old.Name()):
		return "" // see mentions
	case value == s.old.Group:
		return "names the old group: decide whether the new one is meant"
	case slices.ContainsFunc(s.successors, func(one succession) bool {
		return value == one.old.Kind ||
			value == one.old.List
	}):
		return "names the old kind: decide whether the new one is meant"
	case strings.Contains(value, "/"):
		return "is a label or an annotation with the old name: objects carry it, and selectors look for it"
	default:
		return "says the old name: decide whether the new one is meant"
	}
}

// reportNames lists, for a kind with another name, what is named after the old one outside its package.
func (s *surgery) reportNames() {
	if s.renaming == nil {
		return
	}
	for _, pkg := range s.project.Packages {
		var names []string
		var first token.Pos
		for _, file := range pkg.Files {
			if pkg == s.old.Package || file.Generated || file.Test {
				continue
			}
			for _, name := range declaredIn(file.Syntax) {
				if s.renaming.names(name.Name) {
					names = append(names, name.Name)
					if len(names) == 1 {
						first = name.Pos()
					}
				}
			}
		}
		if len(names) > 0 {
			s.finding(s.project.Place(first), "named after %s, and left as it is: %s", s.renaming.from,
				strings.Join(names, ", "))
		}
	}
}

// declaredIn are the names that a file declares for its package, methods excluded.
func declaredIn(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				names = append(names, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name)
				case *ast.ValueSpec:
					names = append(names, spec.Names...)
				}
			}
		}
	}
	return names
}
