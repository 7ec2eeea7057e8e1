// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package typeschema

import (
	"cmp"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// member is a field of a struct as encoding/json writes it.
type member struct {
	name  string // in JSON
	field *types.Var
	owner string // the struct that declares it; empty for one without a name
	// inline: its tag says inline, which encoding/json ignores on a field with a name.
	inline bool

	depth  int  // how many embedded structs it is promoted through
	tagged bool // the name comes from a tag
}

// level is a struct whose fields are promoted into an object, and how many fields of one depth embed it.
type level struct {
	structure types.Type
	count     int
}

// members lists what encoding/json writes for a struct: fields of embedded structs are promoted, and of several fields
// with one name the shallowest is written, then the one whose tag names it, and otherwise none.
func members(of types.Type) []member {
	var found []member
	var visited []types.Type
	depth := 0
	for next := []level{{of, 1}}; len(next) > 0; depth++ {
		current := next
		next = nil
		for _, at := range current {
			if slices.ContainsFunc(visited, func(t types.Type) bool { return types.Identical(t, at.structure) }) {
				continue
			}
			visited = append(visited, at.structure)
			structure := at.structure.Underlying().(*types.Struct)
			for i := range structure.NumFields() {
				one, embedded, ok := memberOf(structure, i)
				switch {
				case !ok:
				case embedded != nil:
					next = embed(next, embedded)
				default:
					one.owner, one.depth = nameOf(at.structure), depth
					found = append(found, one)
					if at.count > 1 {
						found = append(found, one) // so that neither is written
					}
				}
			}
		}
	}
	return dominant(found)
}

// memberOf is what one field of a struct becomes: a member, or an embedded struct whose fields are promoted. It is not
// ok if encoding/json ignores the field.
func memberOf(structure *types.Struct, i int) (one member, embedded types.Type, ok bool) {
	field := structure.Field(i)
	to := pointee(field.Type())
	_, isStruct := to.Underlying().(*types.Struct)
	tag := reflect.StructTag(structure.Tag(i)).Get("json")
	if tag == "-" || !field.Exported() && (!field.Embedded() || !isStruct) {
		return member{}, nil, false
	}
	name, options, _ := strings.Cut(tag, ",")
	if strings.ContainsFunc(name, isForbidden) {
		name = ""
	}
	if name == "" && field.Embedded() && isStruct {
		return member{}, to, true
	}
	return member{
		name: cmp.Or(name, field.Name()), field: field, tagged: name != "",
		inline: name == "" && slices.Contains(strings.Split(options, ","), "inline"),
	}, nil, true
}

// embed counts an embedded struct.
func embed(next []level, structure types.Type) []level {
	i := slices.IndexFunc(next, func(l level) bool { return types.Identical(l.structure, structure) })
	if i < 0 {
		return append(next, level{structure, 1})
	}
	next[i].count++
	return next
}

// dominant leaves one member of each name, or none.
func dominant(all []member) []member {
	slices.SortStableFunc(all, func(a, b member) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.depth, b.depth), compareBool(b.tagged, a.tagged))
	})
	var left []member
	for i := 0; i < len(all); {
		same := i + 1
		for same < len(all) && all[same].name == all[i].name {
			same++
		}
		if same == i+1 || all[i].depth != all[i+1].depth || all[i].tagged != all[i+1].tagged {
			left = append(left, all[i])
		}
		i = same
	}
	return left
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// isForbidden reports whether a name in a tag with this character is ignored.
func isForbidden(r rune) bool {
	return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// pointee is what a pointer points to, and any other type itself.
func pointee(t types.Type) types.Type {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		return types.Unalias(pointer.Elem())
	}
	return types.Unalias(t)
}

// nameOf is the name of a type without its package; empty for one without a name.
func nameOf(t types.Type) string {
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
