// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package typeschema finds the fields of a Go type that an API server does not keep: encoding/json writes them, and
// pruning by the schema of a CustomResourceDefinition drops them.
//
// It imitates neither side's rules about schemas: Dropped prunes an object that has every field with the API server's
// own code. It follows encoding/json and not controller-gen where the two differ: `json:",inline"` on a field with a
// name inlines nothing. It is pure, and does not look for CRDs or types itself.
package typeschema

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// Field is a field of an object.
type Field struct {
	// Path is where it is: spec.items[].name. A * stands for any key.
	Path string
	// Struct is the Go struct that declares it, and Name its name there. Both are those of the map for its keys, and
	// Struct is empty for a struct without a name.
	Struct, Name string
	// Pos is where it is declared.
	Pos token.Pos
	// Unknown is the type with a method MarshalJSON that writes it, if only that method knows its contents; otherwise
	// empty.
	Unknown string
	// Inline: its tag says inline, and encoding/json ignores that because the field has a name.
	Inline bool
}

// Parent is the path of the object that has the field; empty for the outermost one.
func (f Field) Parent() string {
	return f.Path[:max(0, strings.LastIndex(f.Path, "."))]
}

// Dropped returns the fields that encoding/json writes for a kind and an API server drops because of a schema, sorted by
// path. If the whole of an object is dropped, that is one field. What a schema refuses for its type is not in it: the
// API server returns an error, and drops nothing.
func Dropped(kind types.Type, schema *structuralschema.Structural) ([]Field, error) {
	w := &writer{fields: map[string]Field{}}
	object, ok := w.value(Field{}, kind, schema, true).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("compare %s with a schema: it is not written as an object", kind)
	}
	paths := structuralpruning.PruneWithOptions(object, schema, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	var dropped []Field
	for _, path := range paths {
		field, ok := w.fields[path]
		if !ok {
			return nil, fmt.Errorf("compare %s with a schema: pruning drops %s, which is not a field", kind, path)
		}
		field.Path = strings.ReplaceAll(path, "[0]", "[]")
		dropped = append(dropped, field)
	}
	slices.SortFunc(dropped, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return dropped, nil
}

// Lost divides the fields that one schema drops by what another schema did before: lost are those that it kept, and
// missing those that it dropped as well.
func Lost(before, after []Field) (lost, missing []Field) {
	for _, field := range after {
		if slices.ContainsFunc(before, func(f Field) bool { return isWithin(field.Path, f.Path) }) {
			missing = append(missing, field)
		} else {
			lost = append(lost, field)
		}
	}
	return lost, missing
}

// isWithin reports whether a path is another one, or leads to something within it.
func isWithin(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}
