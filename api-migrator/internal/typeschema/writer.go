// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package typeschema

import (
	"go/types"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// anyKey stands for each key of a map.
const anyKey = "*"

// writer writes an object with every field of a type, in the form in which the API server prunes it. It goes as deep as
// the schema does, so that a type that contains itself has an end.
type writer struct {
	fields map[string]Field // by their paths in the object
}

// value writes one value. addressable: encoding/json can call the methods of a pointer to it.
func (w *writer) value(at Field, t types.Type, schema *structuralschema.Structural, addressable bool) any {
	if schema == nil {
		return w.unnamed(at, t)
	}
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		return w.value(at, pointer.Elem(), schema, true)
	}
	kind, unknown := formOf(t, addressable)
	at.Unknown = unknown
	switch {
	case kind == anything:
		return w.anything(at, schema)
	case kind == scalar || !accepts(schema, kind):
		return true
	case kind == list:
		_, isSlice := t.Underlying().(*types.Slice)
		at.Path += "[0]"
		return []any{w.value(at, elementOf(t), schema.Items, addressable || isSlice)}
	case kind == keyed:
		return map[string]any{anyKey: w.value(w.at(at, anyKey), elementOf(t), property(schema, anyKey), false)}
	}
	object := map[string]any{}
	for _, one := range written(t) {
		object[one.name] = w.value(w.field(at, one), one.field.Type(), property(schema, one.name), addressable)
	}
	return object
}

// unnamed writes a value about which no schema says anything. It has its own fields, since a map of anything
// (`additionalProperties: true`) keeps a value and drops all that is in it, but theirs have none.
func (w *writer) unnamed(at Field, t types.Type) any {
	t = pointee(t)
	kind, unknown := formOf(t, true)
	at.Unknown = unknown
	switch kind {
	case keyed, anything:
		w.at(at, anyKey)
		return map[string]any{anyKey: true}
	case fields:
		object := map[string]any{}
		for _, one := range written(t) {
			w.field(at, one)
			object[one.name] = true
		}
		return object
	case list:
		element := pointee(elementOf(t))
		if kind, _ := formOf(element, true); kind != list {
			at.Path += "[0]"
			return []any{w.unnamed(at, element)}
		}
	case scalar:
	}
	return true
}

// at notes what an object has under a key.
func (w *writer) at(outer Field, key string) Field {
	outer.Path = strings.TrimPrefix(outer.Path+"."+key, ".")
	w.fields[outer.Path] = outer
	return outer
}

// field notes a field of a struct.
func (w *writer) field(outer Field, one member) Field {
	return w.at(Field{
		Path: outer.Path, Struct: one.owner, Name: one.field.Name(), Pos: one.field.Pos(), Inline: one.inline,
	}, one.name)
}

// anything writes what the schema names, and what it does not.
func (w *writer) anything(at Field, schema *structuralschema.Structural) any {
	switch {
	case schema == nil:
		w.at(at, anyKey)
		return map[string]any{anyKey: true}
	case schema.Type == "array":
		at.Path += "[0]"
		return []any{w.anything(at, schema.Items)}
	case !accepts(schema, keyed):
		return true
	}
	object := map[string]any{anyKey: w.anything(w.at(at, anyKey), property(schema, anyKey))}
	for name := range schema.Properties {
		object[name] = w.anything(w.at(at, name), property(schema, name))
	}
	return object
}

// accepts reports whether a schema is about values of a form. An API server refuses others.
func accepts(schema *structuralschema.Structural, kind form) bool {
	want := "object"
	if kind == list {
		want = "array"
	}
	return !schema.XIntOrString && slices.Contains([]string{"", want}, schema.Type)
}

// property is the schema of what an object has under a key; nil if the object's schema says nothing about that.
func property(schema *structuralschema.Structural, key string) *structuralschema.Structural {
	if named, ok := schema.Properties[key]; ok {
		return &named
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Structural
	}
	return nil
}
