// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
)

const rbacMarker = "+kubebuilder:rbac:"

// editMarkers grants the new resource what is granted on the old one: the copy needs both.
func (s *surgery) editMarkers() error {
	if len(s.successors) == 0 {
		return nil
	}
	for _, pkg := range s.project.Packages {
		for _, file := range pkg.Files {
			if !file.Generated && !file.Test {
				s.editMarkersOf(file)
			}
		}
	}
	return nil
}

func (s *surgery) editMarkersOf(file *project.File) {
	content, why := file.Source, "grants access to the new resource too"
	if known := s.files[file.Path]; known != nil {
		if known.content == nil {
			return
		}
		content, why = known.content, known.why
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
		for _, one := range s.successors {
			if granted := one.granted(markerArguments(arguments)); granted != "" &&
				!strings.Contains(string(content), granted) {
				out.WriteString(line[:strings.Index(line, rbacMarker)] + rbacMarker + granted + "\n")
			}
		}
	}
	if out.String() != string(content) {
		s.files[file.Path] = &change{content: []byte(out.String()), why: why}
	}
}

// markerArgument is one of key=a;b in a marker.
type markerArgument struct {
	key    string
	values []string
}

// markerArguments takes a marker apart; commas in quotes and braces do not separate.
func markerArguments(text string) []markerArgument {
	var list []markerArgument
	for text != "" {
		end, depth, quoted := len(text), 0, false
		for i, r := range text {
			switch {
			case r == '"':
				quoted = !quoted
			case r == '{' && !quoted:
				depth++
			case r == '}' && !quoted:
				depth--
			case r == ',' && !quoted && depth == 0:
				end = min(end, i)
			}
		}
		key, value, _ := strings.Cut(text[:end], "=")
		var values []string
		for one := range strings.SplitSeq(strings.Trim(value, "{}"), ";") {
			values = append(values, strings.Trim(strings.TrimSpace(one), `"`))
		}
		list = append(list, markerArgument{strings.TrimSpace(key), values})
		text = strings.TrimPrefix(text[end:], ",")
	}
	return list
}

func valuesOf(arguments []markerArgument, key string) []string {
	for _, argument := range arguments {
		if argument.key == key {
			return argument.values
		}
	}
	return nil
}

// granted is the same rule for the new resource; empty if the rule is not about the old one.
func (one succession) granted(arguments []markerArgument) string {
	if !slices.Contains(valuesOf(arguments, "groups"), one.old.Group) {
		return ""
	}
	var resources []string
	for _, resource := range valuesOf(arguments, "resources") {
		if name, below, isSub := strings.Cut(resource, "/"); name == one.old.Plural {
			if resource = one.successor.Plural; isSub {
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
		values := argument.values
		switch argument.key {
		case "groups":
			values = []string{one.successor.Group}
		case "resources":
			values = resources
		case "resourceNames":
			continue // objects of another resource
		}
		parts = append(parts, fmt.Sprintf("%s=%s", argument.key, strings.Join(values, ";")))
	}
	return strings.Join(parts, ",")
}
