// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rewrite edits the Go code of a project as a layout says: it creates the new packages, changes the old one and
// its importers, and generates DeepCopy methods. Each step returns its changes and findings and writes nothing; a step
// that edits what another one has edited takes the changes so far.
//
// Invariants: every comment of the sources is there afterwards, but for those that a scaffold has written into code that
// is shared; generated code is never edited by hand, unless it is known what its generator will write.
package rewrite

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path"
	"strconv"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// editing is what the steps have in common: the layout that they follow, and the result that they fill.
type editing struct {
	*layout.Layout
	changeset.Result
}

func begin(l *layout.Layout, before changeset.Set) *editing {
	return &editing{Layout: l, Result: changeset.After(before)}
}

// references are the edits that make the identifiers of a file mean the same when they are seen from viewer.
func (s *editing) references(file *project.File, viewer layout.Home, q *qualifiers) []source.Edit {
	var edits []source.Edit
	s.EachUse(file, []ast.Node{file.Syntax}, func(ident *ast.Ident, d *split.Declaration) {
		from := viewer
		if viewer == layout.OldPackage && s.Request.Shared == request.SharedDuplicate {
			from = s.ViewerIn(s.DeclarationAt(ident.Pos()))
		}
		at, name := s.HomeOf(d, from), s.NameOf(d, ident.Name, from)
		if !s.SamePackage(viewer, at) {
			name = q.name(at) + "." + name
		}
		if name != ident.Name {
			edits = append(edits, source.Replace(s.Project.Fset, ident, name))
		}
	})
	return edits
}

// renamings returns the edits that rename the declarations of a file, in its code, and in comments of files that declare
// or mention them.
func (s *editing) renamings(file *project.File) []source.Edit {
	var edits []source.Edit
	known := map[*split.Declaration]bool{}
	s.EachUse(file, []ast.Node{file.Syntax}, func(_ *ast.Ident, d *split.Declaration) { known[d] = true })
	for d, name := range s.Renamed() {
		for _, part := range d.Parts {
			if part.File != file {
				continue
			}
			known[d] = true
			for _, node := range part.Nodes() {
				ast.Inspect(node, func(node ast.Node) bool {
					if ident, ok := node.(*ast.Ident); ok && ident.Name == d.Name &&
						s.Graph.Owner(file.Info.Defs[ident]) == d {
						edits = append(edits, source.Replace(s.Project.Fset, ident, name))
					}
					return true
				})
			}
		}
		if known[d] {
			edits = append(edits, source.CommentWords(s.Project.Fset, file.Syntax, d.Name, name)...)
		}
	}
	return edits
}

// removable are the imports of a file that may go with the code that needs them: the names, by path.
func (s *editing) removable(file *project.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Syntax.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		if name := file.PackageName(spec); name != "" {
			names[importPath] = name
		}
	}
	return names
}

func countTrue[T any](list []T, is func(T) bool) int {
	n := 0
	for _, one := range list {
		if is(one) {
			n++
		}
	}
	return n
}

// rewrite records the new text of a file that exists.
func (s *editing) rewrite(file *project.File, text []byte, q *qualifiers,
	removable map[string]string, why string) error {
	content, err := s.edited(file, text, q, removable)
	if err != nil {
		return err
	}
	s.Changes[file.Path] = &changeset.Change{Content: content, Why: why}
	return nil
}

// create records a file that is made of another one. It refuses to replace a file, or another one that is made.
func (s *editing) create(from *project.File, name string, content []byte, why string) error {
	if existing, err := tree.ReadIfThere(s.Project.Root, name); err != nil {
		return err
	} else if existing != nil {
		s.Block(name, "what is copied from %s would go here, but the file exists already", from.Path)
	}
	if s.All()[name] != nil {
		s.Block(from.Path, "two files of the old version would be %s: rename one of them first", name)
	}
	s.Changes[name] = &changeset.Change{Content: content, Why: why + from.Path}
	return nil
}

// edited is the text with the imports that it needs, formatted as the file was.
func (s *editing) edited(file *project.File, text []byte, q *qualifiers, removable map[string]string) ([]byte, error) {
	text, err := s.withImports(file, text, q, removable)
	if err != nil {
		return nil, err
	}
	if text, err = source.Format(file.Source, text); err != nil {
		return nil, fmt.Errorf("edit %s: %w", file.Path, err)
	}
	return text, nil
}

// withImports is the text with the imports that it needs, and without those of removable that it does not.
func (s *editing) withImports(file *project.File, text []byte, q *qualifiers, removable map[string]string) ([]byte, error) {
	mentioned, err := source.SelectorsIn(text)
	if err != nil {
		return nil, fmt.Errorf("edit %s: %w", file.Path, err)
	}
	var add []source.Import
	for _, one := range q.imports() {
		if mentioned[one.Name] {
			add = append(add, one)
		}
	}
	if len(q.former) > 0 {
		all := maps.Clone(q.former)
		maps.Copy(all, removable)
		removable = all
	}
	if text, err = source.FixImports(text, add, removable); err != nil {
		return nil, fmt.Errorf("edit %s: %w", file.Path, err)
	}
	return text, nil
}

// embeddedFields are the edits of mentions of fields that are called like the type that they embed.
func (s *editing) embeddedFields(file *project.File) []source.Edit {
	var edits []source.Edit
	for ident, object := range file.Info.Uses {
		field, ok := object.(*types.Var)
		if ok && field.IsField() && field.Embedded() && field.Pkg() != nil &&
			field.Pkg().Path() == s.Old.Package.Path && s.CopyOf(ident.Name) != "" && s.InFile(file, ident) {
			edits = append(edits, source.Replace(s.Project.Fset, ident, s.CopyOf(ident.Name)))
		}
	}
	return edits
}

// useInstead is the paragraph "Deprecated:" of a comment, which names what to use instead.
func (s *editing) useInstead(at layout.Home, name string) string {
	qualifier := source.Identifier(path.Base(s.Dir(at))) + "."
	switch {
	case s.SamePackage(at, layout.OldPackage):
		qualifier = ""
	case at == layout.NewPackage && s.Group != s.Old.Group:
		qualifier = source.Identifier(s.FolderName(at)) + qualifier
	}
	return "// Deprecated: use " + qualifier + name + " instead."
}
