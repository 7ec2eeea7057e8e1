// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"strings"

	"github.com/gobuffalo/flect"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// Succession is a kind that gets a CRD of its own because its group or its name changes: a cluster converts between the
// versions of one CRD only.
type Succession struct {
	Old, Successor crd.Names
	Namespaced     bool
	// HasStatus reports whether a marker of the type, or a manifest of the CRD, has the status subresource.
	HasStatus bool
	Manifests []project.Manifest // of the old CRD
}

// nameSuccessors says what the cluster calls the kinds before and after.
func (l *Layout) nameSuccessors() error {
	if !l.Request.Succeeds() {
		return nil
	}
	manifests, err := l.Project.Manifests()
	if err != nil {
		return err
	}
	for _, name := range l.Request.Kinds {
		kind, _ := l.Old.Kind(name)
		one := Succession{Namespaced: true, HasStatus: l.hasStatus(name)}
		one.Old = crd.Names{Group: l.Old.Group, Kind: name, List: kind.List,
			Plural: flect.Pluralize(strings.ToLower(name)), Singular: strings.ToLower(name)}
		for _, m := range manifests {
			if m.Group == l.Old.Group && m.Kind == name {
				one.Manifests = append(one.Manifests, m)
				one.Old.Plural, one.Namespaced = m.Plural, m.Scope != "Cluster"
				one.HasStatus = one.HasStatus || m.HasStatus
			}
		}
		one.Successor = one.Old
		one.Successor.Group = l.Group
		if to := l.Request.ToKind; to != "" {
			one.Successor = crd.Names{Group: l.Group, Kind: to, List: to + "List",
				Plural: flect.Pluralize(strings.ToLower(to)), Singular: strings.ToLower(to)}
		}
		l.Successions = append(l.Successions, one)
	}
	return nil
}

// hasStatus reports whether the marker of the status subresource stands above a kind.
func (l *Layout) hasStatus(kind string) bool {
	for _, d := range l.Graph.Declarations {
		if d.Name == kind {
			at := source.SpanOf(l.Project.Fset, d.File().Syntax, d.Parts[0].Decl)
			return strings.Contains(string(d.File().Source[at.From:at.To]), "+kubebuilder:subresource:status")
		}
	}
	return false
}
