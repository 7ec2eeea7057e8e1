// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"maps"
	"slices"
)

// Schema is what of a structural schema decides which fields an API server keeps.
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

// topLevel fields are kept whatever a schema says.
var topLevel = []string{"apiVersion", "kind", "metadata"}

// lost names a field of s that an API server with the schema to drops or refuses: one that is not there, or that has another type.
// Empty where there is none.
func (s Schema) lost(to Schema, path string) string {
	if to.Type != "" && (s.Type != "" && s.Type != to.Type || s.IntOrStr) {
		return name(path)
	}
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		inner := path + "." + field
		next, ok := to.Properties[field]
		switch {
		case path == "" && slices.Contains(topLevel, field), to.Embedded && slices.Contains(topLevel, field):
		case ok:
			if lost := s.Properties[field].lost(next, inner); lost != "" {
				return lost
			}
		case to.Additional != nil && !to.Additional.Any:
			if lost := s.Properties[field].lost(to.Additional.Schema, inner); lost != "" {
				return lost
			}
		case !to.Preserve && to.Additional == nil:
			return name(inner)
		}
	}
	if s.Items != nil && to.Items != nil {
		if lost := s.Items.lost(*to.Items, path+"[]"); lost != "" {
			return lost
		}
	}
	return s.lostKeys(to, path)
}

// lostKeys looks at fields that the schema does not name one by one.
func (s Schema) lostKeys(to Schema, path string) string {
	open := s.Preserve || s.Additional != nil
	switch {
	case !open || to.Preserve || to.Additional != nil && to.Additional.Any:
		return ""
	case to.Additional == nil:
		return name(path + ".*")
	case s.Additional == nil || s.Additional.Any:
		return ""
	}
	return s.Additional.lost(to.Additional.Schema, path+".*")
}

func name(path string) string {
	if path == "" {
		return "the object"
	}
	return path[1:]
}
