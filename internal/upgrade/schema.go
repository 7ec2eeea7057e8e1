// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Schema contains the parts of a structural schema that decide which fields an API server keeps.
type Schema struct {
	Type       string            `json:"type"`
	IntOrStr   bool              `json:"x-kubernetes-int-or-string"`
	Preserve   bool              `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded   bool              `json:"x-kubernetes-embedded-resource"`
	Properties map[string]Schema `json:"properties"`
	Items      *Schema           `json:"items"`
	Additional *Additional       `json:"additionalProperties"`
}

// Additional are additionalProperties: a schema, or true for any.
type Additional struct {
	Any bool
	Schema
}

// UnmarshalJSON reads a schema or a boolean.
func (a *Additional) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &a.Any) == nil {
		return nil
	}
	return json.Unmarshal(raw, &a.Schema)
}

// topLevel fields are kept, whatever the schema says.
var topLevel = []string{"apiVersion", "kind", "metadata"}

// Path is the path of a field in an object: names of fields, Each for the items of a list, and Any for fields that a
// schema does not name.
type Path []string

// Steps of a Path that are not names of fields.
const (
	Each = "[]"
	Any  = "*"
)

// String returns the path for people: spec.rules[].name; "the object" for the empty path.
func (p Path) String() string {
	if len(p) == 0 {
		return "the object"
	}
	return strings.ReplaceAll(strings.Join(p, "."), "."+Each, Each)
}

func (p Path) to(step string) Path { return append(slices.Clone(p), step) }

// Lost returns the fields of s that an API server with the schema to drops or refuses: those that to does not have, or
// has with another type. Fields below one of them are not listed.
func (s Schema) Lost(to Schema) []Path { return s.lost(to, nil) }

func (s Schema) lost(to Schema, path Path) (lost []Path) {
	if to.Type != "" && (s.Type != "" && s.Type != to.Type || s.IntOrStr) {
		return []Path{path}
	}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		inner := path.to(field)
		next, ok := to.Properties[field]
		switch {
		case len(path) == 0 && slices.Contains(topLevel, field), to.Embedded && slices.Contains(topLevel, field):
		case ok:
			lost = append(lost, s.Properties[field].lost(next, inner)...)
		case to.Additional != nil && !to.Additional.Any:
			lost = append(lost, s.Properties[field].lost(to.Additional.Schema, inner)...)
		case !to.Preserve && to.Additional == nil:
			lost = append(lost, inner)
		}
	}
	if s.Items != nil && to.Items != nil {
		lost = append(lost, s.Items.lost(*to.Items, path.to(Each))...)
	}
	return append(lost, s.lostKeys(to, path)...)
}

// lostKeys compares fields that the schema does not name individually.
func (s Schema) lostKeys(to Schema, path Path) []Path {
	open := s.Preserve || s.Additional != nil
	switch {
	case !open || to.Preserve || to.Additional != nil && to.Additional.Any:
		return nil
	case to.Additional == nil:
		return []Path{path.to(Any)}
	case s.Additional == nil || s.Additional.Any:
		return nil
	}
	return s.Additional.lost(to.Additional.Schema, path.to(Any))
}
