// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pruning knows which fields an API server drops from custom resources: it compares schemas with each other,
// and the fields that the managedFields of an object name with the schemas under which a rewrite would store it.
//
// It owns this rule for the whole project (I3): the sweep asks it about every object, and the commands that show a loss
// beforehand ask it about CRDs. It is pure, and reads no values of objects (I9). docs/adr/0026-fields-that-a-rewrite-would-drop.md
// argues each case.
//
// An API server prunes an object when it reads it from etcd, by the schema of the version in which the object is
// stored, and again after each conversion, by the schema of the version to which it was converted:
//   - A field that the schema does not name is dropped, unless additionalProperties or
//     x-kubernetes-preserve-unknown-fields keeps it.
//   - x-kubernetes-preserve-unknown-fields keeps what the schema does not name, at every depth. A field that the schema
//     names is pruned by its own schema again. Items of a list inherit it.
//   - `additionalProperties: true` keeps the field, and drops every field below it.
//   - apiVersion, kind and metadata of an object, and of an embedded resource, are kept.
package pruning

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Schema contains the parts of a structural schema that decide which fields an API server keeps.
type Schema struct {
	Type       string             `json:"type"`
	IntOrStr   bool               `json:"x-kubernetes-int-or-string"`
	Preserve   bool               `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded   bool               `json:"x-kubernetes-embedded-resource"`
	Properties map[string]*Schema `json:"properties"`
	Items      *Schema            `json:"items"`
	Additional *Additional        `json:"additionalProperties"`
	// Default is set for fields that the API server adds by itself: managedFields need not name them.
	Default json.RawMessage `json:"default"`
}

// Everything returns the schema that keeps every field, as spec.preserveUnknownFields does.
func Everything() *Schema { return &Schema{Preserve: true} }

// Additional are additionalProperties: a schema, or a boolean, for which Schema is nil.
type Additional struct{ *Schema }

// UnmarshalJSON reads a schema or a boolean.
func (a *Additional) UnmarshalJSON(raw []byte) error {
	var anything bool
	if json.Unmarshal(raw, &anything) == nil {
		return nil
	}
	a.Schema = new(Schema)
	return json.Unmarshal(raw, a.Schema)
}

// metaFields are kept, whatever the schema says.
var metaFields = []string{"apiVersion", "kind", "metadata"}

// Path is the path of a field in an object: names of fields, Each for the items of a list, and Any for fields that a
// schema does not name.
type Path []string

// Steps of a Path that are not names of fields.
const (
	Each = "[]"
	Any  = "*"
)

// String returns the path for users: spec.rules[].name; "the object" for the empty path.
func (p Path) String() string {
	if len(p) == 0 {
		return "the object"
	}
	return strings.ReplaceAll(strings.Join(p, "."), "."+Each, Each)
}

func (p Path) to(step string) Path { return append(slices.Clone(p), step) }

// place is a schema as it applies to one value. The zero place drops every field of the value.
type place struct {
	schema *Schema
	// keeps means that fields which the schema does not name are kept.
	keeps bool
	// whole means that the value is kept as it is, whatever it contains.
	whole bool
}

// root returns the place of the whole object.
func (s *Schema) root() place {
	object := *s
	object.Embedded = true
	return at(&object, false)
}

// at returns the place of a value with a schema. keeps means that a list above keeps unknown fields.
func at(s *Schema, keeps bool) place {
	if s == nil {
		return place{}
	}
	keeps = keeps || s.Preserve
	if keeps && len(s.Properties) == 0 && s.Additional == nil && s.Items == nil {
		return place{whole: true}
	}
	return place{schema: s, keeps: keeps}
}

// field returns the place of a field, or false if the field is dropped.
func (p place) field(name string) (place, bool) {
	s := p.schema
	switch {
	case p.whole:
		return p, true
	case s == nil:
		return place{}, false
	case s.Embedded && slices.Contains(metaFields, name):
		return place{whole: true}, true
	case s.Properties[name] != nil:
		return at(s.Properties[name], false), true
	}
	return p.unnamed()
}

// unnamed returns the place of a field that the schema does not name, or false if it is dropped.
func (p place) unnamed() (place, bool) {
	s := p.schema
	switch {
	case p.whole:
		return p, true
	case s == nil:
		return place{}, false
	case s.Additional != nil:
		return at(s.Additional.Schema, false), true
	case p.keeps:
		return place{whole: true}, true
	}
	return place{}, false
}

// item returns the place of the items of a list.
func (p place) item() place {
	s := p.schema
	switch {
	case p.whole || s == nil:
		return p
	case s.Items == nil:
		return place{whole: p.keeps}
	}
	return at(s.Items, p.keeps)
}

// Loss is a field that objects of one schema can have and that another schema drops.
type Loss struct {
	Path Path
	// Defaulted means that the API server sets the field by itself, so objects have it although managedFields may not
	// name it.
	Defaulted bool
	// Refused means that the field has another type, so that the API server refuses the object, and drops nothing.
	Refused bool
}

// Lost returns the fields of s that an API server with the schema to drops or refuses. Fields below one of them are not
// listed.
func (s *Schema) Lost(to *Schema) []Loss { return lost(s.root(), to.root(), nil, false) }

func lost(from, to place, path Path, defaulted bool) (all []Loss) {
	switch {
	case to.whole, from.schema == nil && !from.whole:
		return nil
	case from.whole:
		if to.schema != nil && to.schema.isScalar() {
			return nil
		}
		return []Loss{{Path: path.to(Any), Defaulted: defaulted}}
	}
	was := from.schema
	if is := to.schema; is != nil && is.Type != "" && (was.Type != "" && was.Type != is.Type || was.IntOrStr) {
		// Of an object or a list nothing is left by then, and what is left passes where it did not change.
		return []Loss{{Path: path, Defaulted: defaulted || len(was.Default) > 0, Refused: was.isScalar()}}
	}
	defaulted = defaulted || len(was.Default) > 0
	for _, name := range names(was, to.schema) {
		before, had := from.field(name)
		inner := path.to(name)
		after, kept := to.field(name)
		switch {
		case !had:
		case kept:
			all = append(all, lost(before, after, inner, defaulted)...)
		default:
			property := was.Properties[name]
			all = append(all, Loss{Path: inner, Defaulted: defaulted || property != nil && len(property.Default) > 0})
		}
	}
	if before, had := from.unnamed(); had {
		after, kept := to.unnamed()
		if !kept {
			return append(all, Loss{Path: path.to(Any), Defaulted: defaulted})
		}
		all = append(all, lost(before, after, path.to(Any), defaulted)...)
	}
	if was.Items != nil {
		all = append(all, lost(from.item(), to.item(), path.to(Each), defaulted)...)
	}
	return all
}

func (s *Schema) isScalar() bool {
	return s.IntOrStr || s.Type != "" && s.Type != "object" && s.Type != "array"
}

// names returns the fields that one of the schemas names.
func names(was, is *Schema) []string {
	all := slices.Collect(maps.Keys(was.Properties))
	if is != nil {
		all = slices.AppendSeq(all, maps.Keys(is.Properties))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
