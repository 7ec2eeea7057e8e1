// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/constant"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// createPackages writes the new version and the shared packages, file by file after the old version's own.
func (s *surgery) createPackages() error {
	s.blockEmbedded()
	for _, file := range s.old.Package.Files {
		if file.Test || file.Generated && !file.Registers() {
			continue
		}
		for _, to := range []home{homeNew, homeShared, homeInternal} {
			if err := s.createFile(file, to); err != nil {
				return err
			}
		}
	}
	for _, to := range []home{homeShared, homeInternal} {
		s.createDoc(to)
	}
	return nil
}

// blockEmbedded finds what would leave the folder of the files that it embeds.
func (s *surgery) blockEmbedded() {
	for _, d := range s.graph.Declarations {
		part := d.Parts[0]
		leaves := s.goesTo(d, homeNew) || s.goesTo(d, homeShared) || s.goesTo(d, homeInternal)
		for _, node := range append([]ast.Node{part.Decl}, part.Nodes()...) {
			doc := source.DocOf(node)
			if leaves && d.What == "var" && doc != nil &&
				slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
					return strings.HasPrefix(c.Text,
						"//go:embed")
				}) {
				s.blocker(s.project.Place(d.Pos()), "%s embeds files, which the new folder has none of: move it to a "+
					"package of its own first", d.Name)
			}
		}
	}
}

func (s *surgery) createFile(from *project.File, to home) error {
	q := s.qualifiersOf(s.old.Package.Types, from, "")
	edits := slices.Concat(s.definitions(from), s.references(from, to, q))
	if to == homeNew {
		edits = slices.Concat(s.copyEdits(from), edits, s.droppedIn(from, homeNew), s.versionLiterals(from),
			s.storageEdits(from, homeNew))
	}
	body := s.extract(from, to, edits)
	isDoc := from.Syntax.Doc != nil && (source.HasMarker(from.Syntax.Doc) ||
		strings.HasPrefix(from.Syntax.Doc.Text(), "Package "))
	if body == "" && (to != homeNew || !isDoc || s.inPlace()) {
		return nil
	}
	text := []byte(s.header(from, to) + "\n\n" + body)
	mentioned, err := source.SelectorsIn(text)
	if err != nil {
		return err
	}
	var needed []source.Import
	for _, one := range q.imports() {
		if mentioned[one.Name] {
			needed = append(needed, one)
		}
	}
	needed = append(needed, importsOf(from, mentioned)...)
	content, err := source.Format(nil, []byte(s.header(from, to)+"\n"+source.ImportBlock(needed)+"\n"+body))
	if err != nil {
		return err
	}
	why := map[home]string{homeNew: "what moves from ", homeShared: "what versions share from ",
		homeInternal: "what only packages of the group need from "}[to]
	name := s.fileOf(from, to)
	if existing, err := tree.ReadIfThere(s.project.Root, name); err != nil {
		return err
	} else if existing != nil {
		s.blocker(name, "what is copied from %s would go here, but the file exists already", from.Path)
	}
	if s.files[name] != nil {
		s.blocker(from.Path, "two files of the old version would be %s: rename one of them first", name)
	}
	s.files[name] = &change{content: content, why: why + from.Path}
	return nil
}

// header is what stands above the code: licence, package comment and package clause.
func (s *surgery) header(from *project.File, to home) string {
	_, end := source.Body(s.project.Fset, from.Syntax)
	clause := source.Over(s.project.Offset(from.Syntax.Name.Pos()), end, path.Base(s.dirs[to]))
	switch {
	case s.seen(to, homeOld):
		clause.Text = from.Syntax.Name.Name
	case to == homeNew:
		clause.Text = source.Identifier(s.version)
	}
	edits := []source.Edit{clause}
	if doc := from.Syntax.Doc; doc != nil && (to != homeNew || s.inPlace()) { // it describes a version
		edits = append(edits, source.Over(s.project.Offset(doc.Pos()), s.project.Offset(from.Syntax.Package), ""))
	}
	if to == homeNew {
		edits = append(edits, s.headerEdits(from)...)
	}
	return source.Splice(from.Source, 0, end, edits)
}

// headerEdits name the new version in the package comment and in the markers above the package clause.
func (s *surgery) headerEdits(from *project.File) []source.Edit {
	var edits []source.Edit
	for _, group := range from.Syntax.Comments {
		if group.Pos() > from.Syntax.Package {
			break
		}
		for _, comment := range group.List {
			text := comment.Text
			switch {
			case source.IsDirective(text):
				text = strings.ReplaceAll(text, "groupName="+s.old.Group, "groupName="+s.group)
				text = strings.ReplaceAll(text, "versionName="+s.old.Version, "versionName="+s.version)
			case group == from.Syntax.Doc:
				if s.group != s.old.Group {
					text = source.Word(s.groupWord()).ReplaceAllString(text, s.folderName(homeNew))
				}
				text = source.Word(s.old.Version).ReplaceAllString(text, s.version)
			}
			if text != comment.Text {
				edits = append(edits, source.Replace(s.project.Fset, comment, text))
			}
		}
	}
	return edits
}

// versionLiterals replaces group and version where the old version says which it is.
func (s *surgery) versionLiterals(file *project.File) []source.Edit {
	var edits []source.Edit
	for _, decl := range file.Syntax.Decls {
		if !slices.ContainsFunc(s.ownersOf(file, decl), func(d *split.Declaration) bool {
			return d != nil &&
				d.Anchor
		}) {
			continue
		}
		ast.Inspect(decl, func(node ast.Node) bool {
			value, ok := s.text(file, node)
			if !ok {
				return true
			}
			with := map[string]string{s.old.Version: s.version, s.old.Group: s.group,
				s.old.Name(): s.group + "/" + s.version}
			if with[value] != "" && with[value] != value {
				edits = append(edits, source.Replace(s.project.Fset, node, strconv.Quote(with[value])))
			}
			return false
		})
	}
	return edits
}

// text is the value of a literal, or of a constant of another package, such as that of the group.
func (s *surgery) text(file *project.File, node ast.Node) (string, bool) {
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

// folderName is that of the folder above a version: the group's, in most layouts.
func (s *surgery) folderName(h home) string { return path.Base(path.Dir(s.dirs[h])) }

// groupWord is what comments call the old group: its folder's name, or without such a folder its first label.
func (s *surgery) groupWord() string {
	if s.old.Layout() == "api/VERSION" {
		return groupLabel(s.old.Group, "")
	}
	return s.folderName(homeOld)
}

// createDoc writes the package comment of a shared package: with the markers that the group's versions carry, since
// its types are parts of their schemas. The internal package needs one only if it holds types.
func (s *surgery) createDoc(to home) {
	holds := countTrue(s.graph.Declarations,
		func(d *split.Declaration) bool { return s.goesTo(d, to) && (to == homeShared || d.What == "type") })
	if holds == 0 {
		return
	}
	licence := ""
	for _, file := range s.old.Package.Files {
		comments := slices.DeleteFunc(slices.Clone(file.Syntax.Comments), source.IsConstraint)
		if len(comments) > 0 && !file.Test && !file.Generated && licence == "" {
			if first := comments[0]; first.End() < file.Syntax.Package &&
				first != file.Syntax.Doc && !source.HasMarker(first) {
				licence = string(file.Source[s.project.Offset(first.Pos()):s.project.Offset(first.End())]) + "\n\n"
			}
		}
	}
	marker := "// +kubebuilder:object:generate=true"
	if s.legacy {
		marker = "// +k8s:deepcopy-gen=package,register"
	}
	parent := s.folderName(homeNew)
	if s.group != s.old.Group {
		parent = s.groupWord() + " and " + parent
	}
	text := licence + marker + "\n\n// Package " + path.Base(s.dirs[to]) +
		" contains types and functions used by API definitions in the\n// " + parent + " package\n"
	if s.legacy && s.group == s.old.Group {
		text += "// +groupName=" + s.group + "\n"
	}
	name := s.dirs[to] + "/doc.go"
	if s.files[name] != nil { // made of the old version's, for code that it has
		name = s.dirs[to] + "/package_doc.go"
	}
	s.files[name] = &change{content: []byte(text + "package " + path.Base(s.dirs[to]) + "\n"),
		why: "the package comment, with the markers for generated code"}
}
