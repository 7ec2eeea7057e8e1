// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"bytes"
	"fmt"
	"go/format"
	"path"
	"slices"
	"strings"
)

// Violations are the ways in which API versions and manifests contradict each other, sorted; none is what a
// migration should end with.
func (p *Project) Violations() ([]string, error) {
	manifests, err := p.Manifests()
	if err != nil {
		return nil, err
	}
	versions := p.Versions()
	found := p.unformatted(versions)
	for _, v := range versions {
		for _, kind := range v.Kinds {
			for _, m := range manifests {
				if m.Group == v.Group && m.Kind == kind.Name && !slices.Contains(m.Versions, v.Version) {
					found = append(found, fmt.Sprintf("%s: lists no version %s of %s, which %s defines", m.File,
						v.Version, kind.Name, v.Package.Dir))
				}
			}
		}
	}
	for _, broken := range p.Broken {
		if len(p.NotGenerated(broken)) == 0 {
			found = append(found, fmt.Sprintf("%s: does not compile: %s", broken.Path, broken.First()))
		}
	}
	for _, group := range byKind(versions) {
		found = append(found, group.storage(manifests)...)
	}
	slices.Sort(found)
	return found, nil
}

// unformatted lists files of API versions that gofmt would change.
func (p *Project) unformatted(versions []*Version) []string {
	var found []string
	for _, pkg := range p.Packages {
		isAPI := slices.ContainsFunc(versions, func(v *Version) bool {
			return v.Package == pkg ||
				path.Dir(v.Package.Dir) == path.Dir(pkg.Dir)
		})
		for _, file := range pkg.Files {
			if formatted, err := format.Source(file.Source); isAPI && !file.Generated && err == nil &&
				!bytes.Equal(formatted, file.Source) {
				found = append(found, file.Path+": gofmt would change it")
			}
		}
	}
	return found
}

// kindVersions is one kind with the versions that have it.
type kindVersions struct {
	group, kind string
	all, marked []string // versions
}

func byKind(versions []*Version) []*kindVersions {
	var list []*kindVersions
	for _, v := range versions {
		for _, kind := range v.Kinds {
			i := slices.IndexFunc(list, func(k *kindVersions) bool { return k.group == v.Group && k.kind == kind.Name })
			if i < 0 {
				i = len(list)
				list = append(list, &kindVersions{group: v.Group, kind: kind.Name})
			}
			list[i].all = append(list[i].all, v.Version)
			if kind.Storage {
				list[i].marked = append(list[i].marked, v.Version)
			}
		}
	}
	return list
}

// storage checks that one version is marked as the storage version, and that manifests say the same.
func (k *kindVersions) storage(manifests []Manifest) []string {
	if len(k.all) > 1 && len(k.marked) != 1 {
		return []string{fmt.Sprintf("%s in %s: %d of the versions %s carry the marker +kubebuilder:storageversion, "+
			"want one", k.kind, k.group, len(k.marked), strings.Join(k.all, ", "))}
	}
	var found []string
	for _, m := range manifests {
		if m.Group == k.group && m.Kind == k.kind && len(k.marked) == 1 && m.Storage != k.marked[0] {
			found = append(found, fmt.Sprintf("%s: stores %s in %q, but %s carries the marker "+
				"+kubebuilder:storageversion", m.File, k.kind, m.Storage, k.marked[0]))
		}
	}
	return found
}
