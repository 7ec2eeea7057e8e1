// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// stringReader lists strings and collects the finalizers among them.
type stringReader struct {
	*Reader
	finding.Report
	finalizers []string
}

// Strings lists the strings and names of the code that say the old group or kind, and which of the strings are
// finalizers.
func (s *Reader) Strings() (found []finding.Finding, finalizers []string) {
	reader := &stringReader{Reader: s}
	reader.reportStrings()
	return reader.Findings, reader.finalizers
}

// reportStrings lists the strings of the code that say the old group or kind: objects in clusters carry some of them,
// so that only a person can decide.
func (s *stringReader) reportStrings() {
	if len(s.Successions) == 0 {
		return
	}
	others := s.OtherVersions()
	for _, pkg := range s.Project.Packages {
		isOtherVersion := slices.ContainsFunc(others, func(v *project.Version) bool { return v.Package == pkg })
		for _, file := range pkg.Files {
			if !file.Generated && !file.Test {
				s.reportStringsOf(file, isOtherVersion)
			}
		}
	}
	s.reportNames()
}

// reportStringsOf reads a file. Of other versions of the old CRD, only the finalizers are of interest: the version
// means itself.
func (s *stringReader) reportStringsOf(file *project.File, isOtherVersion bool) {
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
		if _, isTag := above[len(above)-2].(*ast.Field); isTag || s.isAnchored(file, literal) || s.isOfKindThatStays(value) {
			return true
		}
		name := nameAbove(above)
		if advice := s.adviceOn(name, value); advice != "" && !isOtherVersion {
			add := s.Note
			if isCarried(name, value) {
				add = s.Warn
			}
			add(s.Project.Place(literal.Pos()), "%q %s", shortened(value), advice)
		}
		if strings.Contains(strings.ToLower(name+value), "finalizer") && !slices.Contains(s.finalizers, value) {
			s.finalizers = append(s.finalizers, value)
		}
		return true
	})
}

// shortened is the beginning of a text that is longer than a line.
func shortened(text string) string {
	const most = 80
	first, _, _ := strings.Cut(text, "\n")
	if short := []rune(first); len(short) > most {
		return string(short[:most]) + "…"
	} else if first != text {
		return first + "…"
	}
	return text
}

// saysOld reports whether a string has the old group in it, or the old name of a kind. A group whose name ends in that of
// the old one is another.
func (s *Reader) saysOld(value string) bool {
	for _, version := range s.versions() {
		if version.Group != s.Old.Group && strings.HasSuffix(version.Group, "."+s.Old.Group) {
			value = strings.ReplaceAll(value, version.Group, "")
		}
	}
	if s.Group != s.Old.Group && strings.Contains(value, s.Old.Group) {
		return true
	}
	return s.Renaming != nil && slices.ContainsFunc(s.Successions, func(one layout.Succession) bool {
		return strings.Contains(strings.ToLower(value), strings.ToLower(one.Old.Kind)) && !strings.Contains(value, " ")
	})
}

// isAnchored reports whether a string stands where a version says which it is, or in what belongs to kinds that stay.
func (s *Reader) isAnchored(file *project.File, literal *ast.BasicLit) bool {
	if !slices.Contains(s.Old.Package.Files, file) {
		return false
	}
	d := s.DeclarationAt(literal.Pos())
	if d != nil && s.DestinationOf(d) == split.Stay && !s.InPlace() && !s.isOfKindThatMoves(literal) {
		return true // it is about kinds that stay
	}
	return d != nil && (d.Anchor || s.GoesTo(d, layout.NewPackage) && s.isKindConstant(d, literal))
}

// isOfKindThatStays reports whether a name begins with the name of a kind that stays and goes on with the group, as
// backup.cache.example.com/finalizer does. The kind may be of another group of the project.
func (s *Reader) isOfKindThatStays(value string) bool {
	return slices.ContainsFunc(s.versions(), func(version *project.Version) bool {
		isNew := !s.InPlace() && version.Package.Dir == s.Dir(layout.NewPackage)
		return slices.ContainsFunc(version.Kinds, func(kind project.Kind) bool {
			moves := s.Moves(kind.Name) && (version.Group == s.Old.Group || isNew)
			return !moves && s.beginsWithKind(value, kind.Name)
		})
	})
}

// isOfKindThatMoves reports whether a string begins like that with the name of a kind that moves.
func (s *Reader) isOfKindThatMoves(literal *ast.BasicLit) bool {
	value, err := strconv.Unquote(literal.Value)
	return err == nil && slices.ContainsFunc(s.Request.Kinds, func(kind string) bool { return s.beginsWithKind(value, kind) })
}

func (s *Reader) beginsWithKind(value, kind string) bool {
	label, rest, _ := strings.Cut(value, ".")
	return strings.HasPrefix(rest, s.Old.Group) && (strings.EqualFold(label, kind) || strings.EqualFold(label, kind+"s"))
}

// isKindConstant: the copy's value has been changed.
func (s *Reader) isKindConstant(d *split.Declaration, literal *ast.BasicLit) bool {
	value, err := strconv.Unquote(literal.Value)
	return err == nil && s.Renaming != nil && d.What == "const" &&
		(value == s.Renaming.From || value == s.Successions[0].Old.List)
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

// isCarried reports whether objects in clusters carry a string, or a lock has it as its name.
func isCarried(name, value string) bool {
	all := strings.ToLower(name + " " + value)
	return strings.Contains(all, "finalizer") || strings.Contains(all, "leaderelection")
}

// adviceOn says what hangs on a string.
func (s *Reader) adviceOn(name, value string) string {
	all := strings.ToLower(name + " " + value)
	switch {
	case strings.Contains(all, "finalizer"):
		return "is a finalizer: if the code sets it for the new kind, too, choose one that says " +
			"the new name, and see the plan of the copy"
	case strings.Contains(strings.ToLower(name), "leaderelection"):
		return "is the name of a lock: leave it, or two releases of the operator work at the same time"
	case strings.Contains(value, s.Old.Name()):
		return "" // see mentions
	case value == s.Old.Group:
		return "names the old group: decide whether the new one is meant"
	case slices.ContainsFunc(s.Successions, func(one layout.Succession) bool {
		return value == one.Old.Kind ||
			value == one.Old.List
	}):
		return "names the old kind: decide whether the new one is meant"
	case tree.IsManifest(value):
		return "is the name of a file of the old CRD: decide whether the code needs the new one, too"
	case strings.Contains(value, "/") && len(validation.IsQualifiedName(value)) == 0:
		return "is a label or an annotation with the old name: objects carry it, and selectors look for it"
	default:
		return "says the old name: decide whether the new one is meant"
	}
}

// reportNames lists, for a kind with another name, what is named after the old one outside its package.
func (s *stringReader) reportNames() {
	if s.Renaming == nil {
		return
	}
	for _, pkg := range s.Project.Packages {
		var names []string
		var first token.Pos
		for _, file := range pkg.Files {
			if pkg == s.Old.Package || file.Generated || file.Test {
				continue
			}
			for _, name := range declaredIn(file.Syntax) {
				if s.Renaming.Names(name.Name) {
					names = append(names, name.Name)
					if len(names) == 1 {
						first = name.Pos()
					}
				}
			}
		}
		if len(names) > 0 {
			s.Note(s.Project.Place(first), "named after %s, and left as it is: %s", s.Renaming.From,
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
