// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/constant"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// creation is the step that creates packages.
type creation struct {
	*editing
	uses  *mention.Reader
	whole map[*project.File]bool
	// registered are the kinds and lists that code which is copied registers, by their names in the new version.
	registered map[string]bool
}

// Create writes the new version and the shared packages, file by file after the old version's own. It also returns the
// files whose code all goes into one package that is created.
func Create(l *layout.Layout, uses *mention.Reader) (changeset.Result, map[*project.File]bool, error) {
	s := &creation{editing: begin(l, nil), uses: uses, whole: map[*project.File]bool{}, registered: map[string]bool{}}
	if l.MovesOnlyImporters() {
		return s.Result, s.whole, nil
	}
	err := s.createPackages()
	return s.Result, s.whole, err
}

// createPackages writes the new version and the shared packages, file by file after the old version's own.
func (s *creation) createPackages() error {
	s.blockEmbedded()
	for _, file := range s.Old.Package.Files {
		if file.Test || file.Generated && !file.Registers() {
			continue
		}
		for _, to := range []layout.Home{layout.NewPackage, layout.SharedPackage, layout.InternalPackage} {
			if err := s.createFile(file, to); err != nil {
				return err
			}
		}
	}
	for _, to := range []layout.Home{layout.SharedPackage, layout.InternalPackage} {
		s.createDoc(to)
	}
	return s.registerInExisting()
}

// blockEmbedded finds what would leave the folder of the files that it embeds.
func (s *creation) blockEmbedded() {
	for _, d := range s.Graph.Declarations {
		part := d.Parts[0]
		leaves := s.GoesTo(d, layout.NewPackage) || s.GoesTo(d, layout.SharedPackage) ||
			s.GoesTo(d, layout.InternalPackage)
		for _, node := range append([]ast.Node{part.Decl}, part.Nodes()...) {
			doc := source.DocOf(node)
			if leaves && d.What == "var" && doc != nil &&
				slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
					return strings.HasPrefix(c.Text,
						"//go:embed")
				}) {
				s.Block(s.Project.Place(d.Pos()), "%s embeds files, which the new folder has none of: move it to a "+
					"package of its own first", d.Name)
			}
		}
	}
}

func (s *creation) createFile(from *project.File, to layout.Home) error {
	q := s.qualifiersOf(s.Old.Package.Types, from, "")
	edits := slices.Concat(s.renamings(from), s.references(from, to, q))
	if to == layout.NewPackage {
		edits = slices.Concat(s.copyEdits(from), edits, s.Unregistered(from, layout.NewPackage),
			s.versionLiterals(from),
			s.storageEdits(from, layout.NewPackage))
		edits = append(edits, s.acceptOther(s.uses, from, to, edits)...)
	}
	if to == layout.SharedPackage || to == layout.InternalPackage {
		edits = append(edits, source.WithoutScaffolding(s.Project.Fset, from.Syntax, from.Source)...)
	}
	body := wrapped(s.extract(from, to, edits))
	if body == "" {
		if to != layout.NewPackage || s.InPlace() || s.Exists(to) || !describesPackage(from) {
			return nil
		}
		if !declares(from) { // the directives below the package clause
			begin, _ := source.Body(s.Project.Fset, from.Syntax)
			body = strings.TrimLeft(string(from.Source[begin:]), "\n")
		}
	}
	name := s.FileOf(from, to)
	if s.Exists(to) && path.Base(name) != path.Base(from.Path) && s.onlyRegisters(from, to) {
		return nil // the file that is there registers its kinds
	}
	s.noteRegistered(from, to)
	body = s.directives(from, body, to)
	text := s.header(from, to) + "\n\n" + source.ImportsOf(s.Project.Fset, from.Syntax, from.Source) + "\n\n" + body
	content, err := s.withImports(from, []byte(text), q, s.removable(from))
	if err != nil {
		return err
	}
	if content, err = source.Format(nil, content); err != nil {
		return err
	}
	why := map[layout.Home]string{layout.NewPackage: "what moves from ",
		layout.SharedPackage:   "what versions share from ",
		layout.InternalPackage: "what only packages of the group need from "}[to]
	return s.create(from, name, content, why)
}

// describesPackage reports whether a file without code that moves is about the package: with a package comment, with
// markers above the package clause, also apart from it, or with directives below it in a file without declarations.
func describesPackage(file *project.File) bool {
	return slices.ContainsFunc(file.Syntax.Comments, func(group *ast.CommentGroup) bool {
		if group.Pos() > file.Syntax.Package {
			return !declares(file) && hasDirective(group)
		}
		return source.HasMarker(group) && !source.IsConstraint(group) ||
			group == file.Syntax.Doc && strings.HasPrefix(group.Text(), "Package ")
	})
}

// declares reports whether a file has declarations other than imports.
func declares(file *project.File) bool {
	return slices.ContainsFunc(file.Syntax.Decls, func(decl ast.Decl) bool {
		general, ok := decl.(*ast.GenDecl)
		return !ok || general.Tok != token.IMPORT
	})
}

func hasDirective(group *ast.CommentGroup) bool {
	return slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return source.IsDirective(c.Text) })
}

// createDoc writes the package comment of a shared package: with the markers that the group's versions carry, since
// its types are parts of their schemas. The internal package needs one only if it holds types.
func (s *creation) createDoc(to layout.Home) {
	if s.Exists(to) {
		return // it has one
	}
	holds := countTrue(s.Graph.Declarations,
		func(d *split.Declaration) bool {
			return s.GoesTo(d, to) && (to == layout.SharedPackage || d.What == "type")
		})
	if holds == 0 {
		return
	}
	licence := ""
	for _, file := range s.Old.Package.Files {
		comments := slices.DeleteFunc(slices.Clone(file.Syntax.Comments), source.IsConstraint)
		if len(comments) > 0 && !file.Test && !file.Generated && licence == "" {
			if first := comments[0]; first.End() < file.Syntax.Package &&
				first != file.Syntax.Doc && !source.HasMarker(first) {
				licence = string(file.Source[s.Project.Offset(first.Pos()):s.Project.Offset(first.End())]) + "\n\n"
			}
		}
	}
	marker := "// +kubebuilder:object:generate=true"
	if s.DeepCopyMarker != "" {
		marker = "// " + s.DeepCopyMarker
	}
	marker += s.openAPIMarker()
	parent := s.FolderName(layout.NewPackage)
	if s.Group != s.Old.Group {
		parent = s.GroupWord() + " and " + parent
	}
	text := licence + marker + "\n\n// Package " + path.Base(s.Dir(to)) +
		" contains types and functions used by API definitions in the\n// " + parent + " package\n"
	if s.DeepCopyMarker != "" && s.Group == s.Old.Group {
		text += "// +groupName=" + s.Group + "\n"
	}
	name := s.Dir(to) + "/doc.go"
	if s.Changes[name] != nil { // made of the old version's, for code that it has
		name = s.Dir(to) + "/package_doc.go"
	}
	s.Changes[name] = &changeset.Change{Content: []byte(text + "package " + path.Base(s.Dir(to)) + "\n"),
		Why: "the package comment, with the markers for generated code"}
}

// openAPIMarker is the line with the old version's marker for openapi-gen; empty if the package has none.
func (s *creation) openAPIMarker() string {
	for _, file := range s.Old.Package.Files {
		for _, group := range file.Syntax.Comments {
			for _, comment := range group.List {
				if group.End() < file.Syntax.Package && source.IsMarker(comment.Text) &&
					strings.Contains(comment.Text, "+k8s:openapi-gen=") {
					return "\n" + comment.Text
				}
			}
		}
	}
	return ""
}

// text is the value of a literal, or of a constant of another package, such as that of the group.
func (s *creation) text(file *project.File, node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(node.Value)
		return value, err == nil && node.Kind == token.STRING
	case *ast.SelectorExpr:
		value := file.Info.Types[node].Value
		if value == nil || value.Kind() != constant.String {
			return "", false
		}
		return constant.StringVal(value), true
	}
	return "", false
}
