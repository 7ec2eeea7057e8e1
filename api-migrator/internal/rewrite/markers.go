// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// Markers grants the new resource in the markers of RBAC what is granted on the old one.
func Markers(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.editMarkers()
	return s.Result, err
}

const rbacMarker = "+kubebuilder:rbac:"

// editMarkers grants the new resource what is granted on the old one: the copy needs both.
func (s *editing) editMarkers() error {
	if len(s.Successions) == 0 {
		return nil
	}
	for _, pkg := range s.Project.Packages {
		for _, file := range pkg.Files {
			if !file.Generated && !file.Test {
				s.editMarkersOf(file)
			}
		}
	}
	return nil
}

func (s *editing) editMarkersOf(file *project.File) {
	content, why := file.Source, "grants access to the new resource too"
	if known := s.Known(file.Path); known != nil {
		if known.Content == nil {
			return
		}
		content, why = known.Content, known.Why
	}
	if !bytes.Contains(content, []byte(rbacMarker)) {
		return
	}
	var out strings.Builder
	for line := range strings.Lines(string(content)) {
		out.WriteString(line)
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//")
		if !ok {
			continue
		}
		comment = strings.TrimSpace(comment)
		arguments, ok := strings.CutPrefix(comment, rbacMarker)
		if !ok {
			continue
		}
		for _, one := range s.Successions {
			if rule := granted(one, source.MarkerArguments(arguments)); rule != "" &&
				!strings.Contains(string(content), rule) {
				out.WriteString(line[:strings.Index(line, rbacMarker)] + rbacMarker + rule + "\n")
			}
		}
	}
	if out.String() != string(content) {
		s.Changes[file.Path] = &changeset.Change{Content: []byte(out.String()), Why: why}
	}
}

// granted is the same rule for the new resource; empty if the rule is not about the old one.
func granted(one layout.Succession, arguments []source.MarkerArgument) string {
	if !slices.Contains(source.ValuesOf(arguments, "groups"), one.Old.Group) {
		return ""
	}
	var resources []string
	for _, resource := range source.ValuesOf(arguments, "resources") {
		if name, below, isSub := strings.Cut(resource, "/"); name == one.Old.Plural {
			if resource = one.Successor.Plural; isSub {
				resource += "/" + below
			}
			resources = append(resources, resource)
		}
	}
	if len(resources) == 0 {
		return ""
	}
	var parts []string
	for _, argument := range arguments {
		values := argument.Values
		switch argument.Key {
		case "groups":
			values = []string{one.Successor.Group}
		case "resources":
			values = resources
		}
		parts = append(parts, fmt.Sprintf("%s=%s", argument.Key, strings.Join(values, ";")))
	}
	return strings.Join(parts, ",")
}
