// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

const marker = "+kubebuilder:webhook:"

// editMarkers edits the markers that controller-gen makes manifests of. Where the code around one is in the old version
// and in the new one, only the one whose code is called keeps it: two would make two webhooks of one name.
func (s *hooks) editMarkers() error {
	after := map[string][]byte{}
	for _, pkg := range s.Project.Packages {
		for _, file := range pkg.Files {
			if !file.Generated && !file.Test {
				s.before[file.Path], after[file.Path] = file.Source, file.Source
			}
		}
	}
	for name, change := range s.All() {
		if path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			after[name] = change.Content
		}
	}
	copied := map[string]bool{}
	for name, content := range after {
		if home, ok := s.packageOf(name); ok && home == layout.NewPackage {
			for line := range strings.Lines(string(content)) {
				if strings.Contains(line, marker) {
					copied[strings.TrimSpace(line)] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		text, err := s.editMarkersOf(name, string(after[name]), copied)
		if err != nil {
			return err
		}
		if text == string(after[name]) {
			continue
		}
		content, err := source.Format(s.before[name], []byte(text))
		if err != nil {
			return fmt.Errorf("edit markers of %s: %w", name, err)
		}
		why := "the markers of its webhooks say what is served"
		if known := s.Known(name); known != nil {
			why = known.Why
		}
		s.Changes[name] = &changeset.Change{Content: content, Why: why}
	}
	return nil
}

// packageOf is the version to which code in a file belongs; false if that is none of the two. Where the new kind is in
// the same package, its code is in files of its own.
func (s *hooks) packageOf(name string) (layout.Home, bool) {
	switch path.Dir(name) {
	case s.Dir(layout.NewPackage):
		if s.InPlace() && s.before[name] != nil {
			return layout.OldPackage, true
		}
		return layout.NewPackage, true
	case s.Dir(layout.OldPackage):
		return layout.OldPackage, true
	}
	return "", false
}

func (s *hooks) editMarkersOf(name, content string, copied map[string]bool) (string, error) {
	var out strings.Builder
	number := 0
	for line := range strings.Lines(content) {
		number++
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		text, isMarker := strings.CutPrefix(strings.TrimSpace(comment), marker)
		if !isComment || !isMarker {
			out.WriteString(line)
			continue
		}
		arguments := source.MarkerArguments(text)
		e := entryOf(arguments)
		v := s.decide(e)
		home, isOfVersion := s.packageOf(name)
		if v.kind != "" && isOfVersion && home != v.at && copied[strings.TrimSpace(line)] &&
			(home == layout.NewPackage || v.block == "") {
			continue // the other version's code is called
		}
		s.record(fmt.Sprintf("%s:%d", name, number), e, v)
		if v.kind != "" && v.block == "" {
			line = strings.Replace(line, text, s.edited(text, arguments, e, v), 1)
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

func entryOf(arguments []source.MarkerArgument) entry {
	one := func(key string) string { return strings.Join(source.ValuesOf(arguments, key), ";") }
	return entry{
		path: cmp.Or(one("path"), pathOfURL(one("url"))), policy: one("matchPolicy"),
		legacy: slices.Contains(source.ValuesOf(arguments, "webhookVersions"), "v1beta1"),
		rules: []rule{{
			groups: source.ValuesOf(arguments, "groups"), versions: source.ValuesOf(arguments, "versions"),
			resources: source.ValuesOf(arguments, "resources"),
		}},
	}
}

// edited are the arguments of a marker after a verdict.
func (s *hooks) edited(text string, arguments []source.MarkerArgument, e entry, v verdict) string {
	var edits []source.Edit
	hasPolicy := false
	for _, argument := range arguments {
		key, value, _ := strings.Cut(text[argument.From:argument.To], "=")
		with := value
		switch argument.Key {
		case "path", "url":
			with = strings.Replace(value, e.path, v.path, 1)
		case "versions":
			if len(v.rules) > 0 {
				with = v.version
			}
		case "groups":
			if v.group != "" {
				with = v.group
			}
		case "resources":
			if v.group != "" {
				resources := slices.Clone(argument.Values)
				for i, said := range resources {
					resources[i] = s.resource(said)
				}
				with = strings.Join(resources, ";")
			}
		case "matchPolicy":
			hasPolicy = true
			if v.policy {
				with = "Equivalent"
			}
		}
		if with != value {
			edits = append(edits, source.Over(argument.From, argument.To, key+"="+with))
		}
	}
	if v.policy && !hasPolicy {
		edits = append(edits, source.Insert(len(text), ",matchPolicy=Equivalent"))
	}
	return source.Splice([]byte(text), 0, len(text), edits)
}
