// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// home is a package that declarations end in, or from which they are seen.
type home string

const (
	homeOld      home = "old"
	homeNew      home = "new"
	homeShared   home = "shared"
	homeInternal home = "internal"
	homeMoved    home = "moved"     // what is left of a kind that moves, in the old version
	elsewhere    home = "elsewhere" // an importer
)

// packageOf is the home whose package a viewer's code stands in.
func (s *surgery) packageOf(viewer home) home {
	if viewer == homeMoved || viewer == homeNew && s.inPlace() {
		return homeOld
	}
	return viewer
}

// surgery is a migration being carried out on sources in memory.
type surgery struct {
	request Request
	project *project.Project
	old     *project.Version
	group   string // of the new version
	version string
	graph   *split.Graph
	placed  map[*split.Declaration]split.Placement
	renamed map[*split.Declaration]string // unexported declarations that become exported
	kept    map[*split.Declaration]bool   // unexported declarations that move and that the old version needs too
	dirs    map[home]string               // relative to the root
	legacy  bool                          // deepcopy is asked for with +k8s:deepcopy-gen
	bound   map[*split.Declaration]bool   // declarations that move and mean something else in each version
	hidden  map[*split.Declaration]bool   // unexported declarations that are shared, but only the new version needs
	// files of the old version whose code all goes into one package that is created
	wholly   map[*project.File]bool
	clients  int // generated files that use the old version, and are not changed
	files    map[string]*change
	findings []Finding
	blockers []Finding

	renaming   *renaming         // nil if kinds keep their names
	copies     map[string]string // names of the old package → names of their copies for the new kind, where they differ
	successors []succession      // empty if a cluster converts between the versions
	finalizers []string          // that say the old name

	telling map[*split.Declaration]bool // whether declarations tell the version, see tellsVersion
	crds    []project.Manifest          // of the old group, see manifestsOfGroup
	texts   map[string]string           // see variables
}

// change is what becomes of a file. A nil content removes it.
type change struct {
	content []byte
	why     string
	// withManifests: it says what a manifest is called, and must change when that does.
	withManifests bool
}

func (s *surgery) finding(place, format string, args ...any) {
	s.findings = append(s.findings, Finding{Place: place, Text: fmt.Sprintf(format, args...)})
}

func (s *surgery) blocker(place, format string, args ...any) {
	s.blockers = append(s.blockers, Finding{Place: place, Text: fmt.Sprintf(format, args...)})
}

// nameOf is the name by which a viewer finds one of the declaration's objects.
func (s *surgery) nameOf(d *split.Declaration, name string, viewer home) string {
	switch {
	case s.renamed[d] != "" && name == d.Name:
		return s.renamed[d]
	case s.copies[name] != "" && s.homeOf(d, viewer) == homeNew:
		return s.copies[name]
	}
	return name
}

// seen reports whether a viewer sees what is in another home without an import.
func (s *surgery) seen(viewer, at home) bool { return s.packageOf(viewer) == s.packageOf(at) }

func (s *surgery) importPath(h home) string { return s.project.Workspace.ImportPath(s.dirs[h]) }

// exportNames finds names for what is unexported and moves to the internal package, where others have to see it.
func (s *surgery) exportNames() {
	taken := map[string]bool{}
	for _, d := range s.graph.Declarations {
		for _, name := range d.Names {
			taken[name] = true
		}
	}
	for _, d := range s.graph.Declarations {
		if s.placed[d].Destination != split.Shared || s.request.Shared == SharedDuplicate || s.hidden[d] ||
			ast.IsExported(d.Name) || d.Name == "_" {
			continue
		}
		first, size := utf8.DecodeRuneInString(d.Name)
		name := string(unicode.ToUpper(first)) + d.Name[size:]
		if taken[name] {
			s.blocker(s.project.Place(d.Pos()), "%s is shared and has to be exported, but there is a %s already: "+
				"rename one of them first", d.Name, name)
		}
		if len(d.Names) > 1 {
			s.blocker(s.project.Place(d.Pos()), "%s are declared together and have to be exported: declare each "+
				"alone first", strings.Join(d.Names, ", "))
		}
		s.renamed[d] = name
	}
}

// eachUse calls use for every identifier in nodes that names a declaration of the old package.
func (s *surgery) eachUse(file *project.File, nodes []ast.Node, use func(*ast.Ident, *split.Declaration)) {
	for _, node := range nodes {
		ast.Inspect(node, func(node ast.Node) bool {
			if ident, ok := node.(*ast.Ident); ok {
				if d := s.graph.Owner(file.Info.Uses[ident]); d != nil {
					use(ident, d)
				}
			}
			return true
		})
	}
}

// qualifiers chooses, for one file, the names by which it calls the packages of the migration.
type qualifiers struct {
	surgery *surgery
	taken   map[string]bool
	// style is how the file calls the old version's package; empty if it does not import it.
	style string
	names map[home]string
}

func (s *surgery) qualifiersOf(pkg *types.Package, file *project.File, style string) *qualifiers {
	q := &qualifiers{surgery: s, taken: map[string]bool{}, style: style, names: map[home]string{}}
	if s.inPlace() && style != "" {
		q.names[homeNew] = style
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
func (q *qualifiers) name(h home) string {
	if name := q.names[h]; name != "" {
		return name
	}
	parent := source.Identifier(path.Base(path.Dir(q.surgery.dirs[homeNew])))
	var candidates []string
	switch h {
	case homeNew:
		if q.surgery.group != q.surgery.old.Group { // the old name may say the group
			candidates = append(candidates, parent+q.surgery.version)
		} else if prefix, ok := strings.CutSuffix(q.style, q.surgery.old.Version); ok {
			candidates = append(candidates, prefix+q.surgery.version)
		} else if q.style != "" {
			candidates = append(candidates, q.style+q.surgery.version)
		}
		candidates = append(candidates, parent+q.surgery.version)
	case homeOld:
		candidates = []string{q.surgery.old.Package.Name, parent + q.surgery.old.Package.Name}
	case homeInternal:
		candidates = []string{"internal" + path.Base(q.surgery.dirs[h]), parent + "internal"}
	case homeShared:
		candidates = []string{path.Base(q.surgery.dirs[h]), parent + path.Base(q.surgery.dirs[h])}
	case elsewhere, homeMoved:
	}
	for n := 2; ; n++ {
		if i := slices.IndexFunc(candidates, func(name string) bool { return !q.taken[name] }); i >= 0 {
			q.names[h] = candidates[i]
			q.taken[candidates[i]] = true
			return candidates[i]
		}
		candidates = []string{fmt.Sprintf("%s%s%d", parent, path.Base(q.surgery.dirs[h]), n)}
	}
}

// imports are those that the names given out so far need.
func (q *qualifiers) imports() []source.Import {
	var found []source.Import
	for h, name := range q.names {
		found = append(found, source.Import{Path: q.surgery.importPath(h), Name: name})
	}
	slices.SortFunc(found, func(a, b source.Import) int { return strings.Compare(a.Path, b.Path) })
	return found
}
