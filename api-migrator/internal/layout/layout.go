// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package layout decides, for a migration, in which package each name of the old version's package lives afterwards and
// under which name, as seen from each package that uses it: the old version's, the new one's, the shared ones, and
// importers. What is left of a kind that moves sees other names than the rest of the old version.
//
// It is pure: it reads the sources and changes nothing. Every other part of a migration asks it and adds nothing to it.
package layout

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Layout is the decision. It does not change any more once Decide has returned it.
type Layout struct {
	Request request.Request
	Project *project.Project
	// Old is the version that the kinds are in; Group and Version are those of the new one.
	Old            *project.Version
	Group, Version string
	Graph          *split.Graph
	// DeepCopyMarker is the marker +k8s:deepcopy-gen of the package, which asks for DeepCopy methods; empty without one. That
	// of a type may just name the interfaces that it has.
	DeepCopyMarker string
	// Renaming is nil if kinds keep their names.
	Renaming *Renaming
	// Successions is empty if a cluster converts between the versions.
	Successions []Succession

	dirs    map[Home]string // relative to the root
	placed  map[*split.Declaration]split.Placement
	renamed map[*split.Declaration]string // unexported declarations that become exported
	copies  map[string]string             // names of the old package → those of their copies, where they differ
	kept    map[*split.Declaration]bool   // unexported declarations that move and that the old version needs too
	bound   map[*split.Declaration]bool   // declarations that move and mean something else in each version
	hidden  map[*split.Declaration]bool   // unexported declarations that are shared, but needed in the package alone that has it
	present
}

// decision is a layout being decided.
type decision struct {
	*Layout
	finding.Report
}

// Decide decides where everything goes. Blockers are in the report; an error is what cannot be decided at all.
func Decide(p *project.Project, old *project.Version, asked request.Request) (*Layout, finding.Report, error) {
	d, err := begin(p, old, asked)
	if err != nil {
		return nil, finding.Report{}, err
	}
	if d.onlyImporters {
		d.leaveImporters()
		d.followClients()
		d.noteMeanings()
		return d.Layout, d.Report, nil
	}
	d.findTwins()
	d.bindToVersion()
	d.keepUnexported()
	d.hideUnexported()
	d.exportNames()
	d.nameCopies()
	d.findAnchors()
	d.reuse()
	d.leaveImporters()
	d.followClients()
	d.checkBorders()
	return d.Layout, d.Report, nil
}

// begin decides where each declaration goes, but not yet for whom.
func begin(p *project.Project, old *project.Version, asked request.Request) (*decision, error) {
	group, version, _ := strings.Cut(asked.To, "/")
	dirs, err := folders(p, old, asked)
	if err != nil {
		return nil, err
	}
	d := &decision{Layout: &Layout{
		Request: asked, Project: p, Old: old, Group: group, Version: version, Graph: split.NewGraph(old.Package),
		Renaming: renamingOf(asked, old), dirs: dirs,
		placed: map[*split.Declaration]split.Placement{}, renamed: map[*split.Declaration]string{},
		copies: map[string]string{}, kept: map[*split.Declaration]bool{}, bound: map[*split.Declaration]bool{},
		hidden: map[*split.Declaration]bool{},
	}}
	d.lookAround()
	if err := d.checkDeclared(); err != nil {
		return nil, err
	}
	if err := d.nameSuccessors(); err != nil {
		return nil, err
	}
	for _, file := range old.Package.Files {
		if !file.Generated {
			d.DeepCopyMarker = cmp.Or(d.DeepCopyMarker, source.PackageMarker(file.Syntax, "+k8s:deepcopy-gen="))
		}
	}
	return d, d.placeAll()
}

// PlacementOf is where a declaration goes, and why.
func (l *Layout) PlacementOf(d *split.Declaration) split.Placement { return l.placed[d] }

// DestinationOf is where a declaration goes.
func (l *Layout) DestinationOf(d *split.Declaration) split.Destination {
	return l.placed[d].Destination
}

// Dir is the folder of a package, relative to the root.
func (l *Layout) Dir(h Home) string { return l.dirs[h] }

// Dirs are the folders of all packages of the migration.
func (l *Layout) Dirs() []string { return slices.Sorted(maps.Values(l.dirs)) }

// Renamed are the unexported declarations that become exported, with their new names.
func (l *Layout) Renamed() map[*split.Declaration]string { return maps.Clone(l.renamed) }

// CopyOf is the name of the copy of what has a name in the old package; empty if it is the same.
func (l *Layout) CopyOf(name string) string { return l.copies[name] }

// Copies are all names that CopyOf knows.
func (l *Layout) Copies() map[string]string { return maps.Clone(l.copies) }

// checkDeclared refuses kinds whose code people do not write.
func (l *Layout) checkDeclared() error {
	for _, name := range l.Request.Kinds {
		isType := func(d *split.Declaration) bool { return d.What == "type" && d.Name == name }
		if kind, _ := l.Old.Kind(name); !slices.ContainsFunc(l.Graph.Declarations, isType) {
			return hint.Errorf(request.TryInspect, "%s is declared in %s, which is generated: its generator has to make "+
				"the new version", name, kind.File)
		}
	}
	return nil
}

// placeAll decides where each declaration goes.
func (l *decision) placeAll() error {
	input := split.Input{Graph: l.Graph, Assign: l.Request.Assign,
		Separate: l.Request.Shared == request.SharedPackage}
	if l.Request.Shared == request.SharedNewest { // where every version can use it
		input.Idle = split.Shared
	}
	if l.InPlace() {
		input.NamedAfter = l.Renaming.Names
	}
	for _, kind := range l.Old.Kinds {
		if slices.Contains(l.Request.Kinds, kind.Name) {
			input.Moving = append(input.Moving, kind)
		} else {
			input.Staying = append(input.Staying, kind)
		}
	}
	for _, pkg := range l.Project.Packages {
		for _, file := range pkg.Files {
			if pkg != l.Old.Package && source.Imports(file.Syntax, l.Old.Package.Path) {
				used := map[*split.Declaration]bool{}
				for ident, object := range file.Info.Uses {
					if owner := l.Graph.Owner(object); owner != nil && l.InFile(file, ident) {
						used[owner] = true
					}
				}
				input.Users = append(input.Users, used)
			}
		}
	}
	placements, err := input.Decide()
	if err != nil {
		return hint.Errorf(request.TryInspect, "%s", err.Error())
	}
	for _, placement := range placements {
		if _, ok := l.former[placement.Declaration]; ok {
			placement = l.placeFormer(placement)
		} else if l.onlyImporters {
			placement = l.placeForImporters(placement)
		}
		l.placed[placement.Declaration] = placement
		if placement.Guess {
			what := map[split.Destination]string{split.Stay: "stays", split.Shared: "is shared"}[placement.Destination]
			l.Note(l.Project.Place(placement.Pos()), "%s %s, as a guess: %s", placement.Name, what, placement.Reason)
		}
	}
	return nil
}
