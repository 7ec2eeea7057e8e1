// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/layout"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
)

// qualifiers chooses, for one file, the names by which it calls the packages of the migration.
type qualifiers struct {
	layout *layout.Layout
	taken  map[string]bool
	// style is how the file, or its package, calls the old version's package; empty if neither imports it.
	style string
	names map[layout.Home]string
}

func (s *editing) qualifiersOf(pkg *types.Package, file *project.File, style string) *qualifiers {
	q := &qualifiers{layout: s.Layout, taken: map[string]bool{}, style: style, names: map[layout.Home]string{}}
	if s.InPlace() && style != "" {
		q.names[layout.NewPackage] = style
	}
	within := func(pos token.Pos) bool { return file.Syntax.FileStart <= pos && pos < file.Syntax.FileEnd }
	for ident, object := range file.Info.Defs {
		if member, ok := object.(*types.Var); within(ident.Pos()) && (!ok || !member.IsField()) {
			q.taken[ident.Name] = true
		}
	}
	for node, object := range file.Info.Implicits {
		if name, ok := object.(*types.PkgName); ok && within(node.Pos()) {
			q.taken[name.Name()] = true
		}
	}
	for _, name := range pkg.Scope().Names() {
		q.taken[name] = true
	}
	return q
}

// name is how the file calls a package; the same for every use.
func (q *qualifiers) name(h layout.Home) string {
	if name := q.names[h]; name != "" {
		return name
	}
	parent := source.Identifier(path.Base(path.Dir(q.layout.Dir(layout.NewPackage))))
	var candidates []string
	switch h {
	case layout.NewPackage:
		if q.layout.Group != q.layout.Old.Group { // the old name may say the group
			candidates = append(candidates, parent+q.layout.Version)
		} else if prefix, ok := strings.CutSuffix(q.style, q.layout.Old.Version); ok {
			candidates = append(candidates, prefix+q.layout.Version)
		} else if q.style != "" {
			candidates = append(candidates, q.style+q.layout.Version)
		}
		candidates = append(candidates, parent+q.layout.Version)
	case layout.OldPackage:
		candidates = []string{q.layout.Old.Package.Name, parent + q.layout.Old.Package.Name}
	case layout.InternalPackage:
		candidates = []string{"internal" + path.Base(q.layout.Dir(h)), parent + "internal"}
	case layout.SharedPackage:
		candidates = []string{path.Base(q.layout.Dir(h)), parent + path.Base(q.layout.Dir(h))}
	case layout.Importer, layout.Leftover:
	}
	for n := 2; ; n++ {
		if i := slices.IndexFunc(candidates, func(name string) bool { return !q.taken[name] }); i >= 0 {
			q.names[h] = candidates[i]
			q.taken[candidates[i]] = true
			return candidates[i]
		}
		candidates = []string{fmt.Sprintf("%s%s%d", parent, path.Base(q.layout.Dir(h)), n)}
	}
}

// imports are those that the names given out so far need.
func (q *qualifiers) imports() []source.Import {
	var found []source.Import
	for h, name := range q.names {
		found = append(found, source.Import{Path: q.layout.ImportPath(h), Name: name})
	}
	slices.SortFunc(found, func(a, b source.Import) int { return strings.Compare(a.Path, b.Path) })
	return found
}
