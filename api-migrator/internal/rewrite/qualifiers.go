// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// qualifiers picks the import names of one file for the packages of the migration.
type qualifiers struct {
	layout *layout.Layout
	taken  map[string]bool
	// style is how the file, or its package, calls the old version's package; empty if neither imports it.
	style string
	names map[layout.Home]string
	// clients are packages of generated clients of the new version that the file imports from now on.
	clients []source.Import
	// former has the import names of the client packages that they replace, by import path.
	former map[string]string
}

func (s *editing) qualifiersOf(pkg *types.Package, file *project.File, style string) *qualifiers {
	q := &qualifiers{layout: s.Layout, taken: map[string]bool{}, style: style, names: map[layout.Home]string{},
		former: map[string]string{}}
	if s.InPlace() && style != "" {
		q.names[layout.NewPackage] = style
	}
	for _, h := range []layout.Home{layout.NewPackage, layout.SharedPackage, layout.InternalPackage} {
		for _, spec := range source.ImportSpecs(file.Syntax, s.ImportPath(h)) {
			if name := file.PackageName(spec); !s.InPlace() && name != "" && name != "_" && name != "." {
				q.names[h] = name
			}
		}
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
		} else if q.style != "" {
			candidates = append(candidates, withVersion(q.style, q.layout.Version))
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

// versionInName is a version in the name of an import: v1beta1 in cachev1beta1, v1b1 in cachev1b1.
var versionInName = regexp.MustCompile(`[vV][0-9]+((alpha|beta|a|b)[0-9]+)?`)

// withVersion is the name of an import for a version: in the place of the version that it says, and as short as that, or
// behind a name that says none.
func withVersion(name, version string) string {
	found := versionInName.FindAllStringSubmatchIndex(name, -1)
	if found == nil {
		return name + version
	}
	last := found[len(found)-1]
	if isShort := last[5]-last[4] == 1; isShort {
		version = strings.NewReplacer("alpha", "a", "beta", "b").Replace(version)
	}
	return name[:last[0]] + name[last[0]:last[0]+1] + version[1:] + name[last[1]:]
}

// keepStyle calls the new version's package as the file calls the old one's, if that name is right for it: it says no
// version, or the new one of the same group, and does not name the old group where there is another.
func (q *qualifiers) keepStyle() {
	l := q.layout
	fits := !versionInName.MatchString(q.style)
	if l.Group == l.Old.Group {
		fits = fits || withVersion(q.style, l.Version) == q.style
	} else {
		fits = fits && !strings.Contains(strings.ToLower(q.style), source.Identifier(l.GroupWord()))
	}
	if fits {
		q.names[layout.NewPackage] = q.style
	}
}

// imports are those that the names given out so far need.
func (q *qualifiers) imports() []source.Import {
	found := slices.Clone(q.clients)
	for h, name := range q.names {
		found = append(found, source.Import{Path: q.layout.ImportPath(h), Name: name})
	}
	slices.SortFunc(found, func(a, b source.Import) int { return strings.Compare(a.Path, b.Path) })
	return found
}
