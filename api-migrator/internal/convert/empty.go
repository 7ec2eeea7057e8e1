// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"go/types"
	"strings"
)

// What a field is in JSON while it has no value; besides these, its empty value itself.
const (
	absent = "absent"
	null   = "null"
)

// emptiness says how encoding/json writes a field that has no value, in one version.
type emptiness struct {
	hasNil bool   // it can be nil, and is that where JSON has nothing or null
	none   string // what nil is in JSON: absent or null
	empty  string // what the empty value is in JSON: absent, or a literal such as 0 or []
}

// emptinessOf is false for what the type does not tell: types that define their own JSON, arrays, and fields that are
// not in JSON.
func emptinessOf(f field) (emptiness, bool) {
	t := types.Unalias(f.variable.Type())
	if f.embedded || f.ignored || !f.variable.Exported() || ownJSON(t) || f.omitZero && saysZero(t) {
		return emptiness{}, false
	}
	e := emptiness{none: null, empty: literal(t)}
	omitsEmpty := f.omitEmpty || f.omitZero
	switch t.Underlying().(type) {
	case *types.Basic:
	case *types.Pointer, *types.Interface: // what they refer to is written even if it is empty
		e.hasNil, omitsEmpty = true, false
	case *types.Slice, *types.Map: // one that is empty is not zero
		e.hasNil, omitsEmpty = true, f.omitEmpty
	case *types.Struct: // one that is zero is not empty
		omitsEmpty = f.omitZero
	default:
		return emptiness{}, false
	}
	if f.omitEmpty || f.omitZero {
		e.none = absent
	}
	if omitsEmpty {
		e.empty = absent
	}
	if _, ok := t.Underlying().(*types.Interface); ok {
		e.empty = e.none // it has no other
	}
	return e, e.empty != ""
}

// literal is the empty value of a type, as people write it in JSON.
func literal(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0:
			return "false"
		case u.Info()&types.IsNumeric != 0:
			return "0"
		case u.Info()&types.IsString != 0:
			return `""`
		}
	case *types.Pointer:
		return literal(u.Elem())
	case *types.Slice:
		if basic, ok := u.Elem().Underlying().(*types.Basic); ok && basic.Kind() == types.Uint8 {
			return `""`
		}
		return "[]"
	case *types.Map:
		return "{}"
	case *types.Struct:
		return "an empty struct"
	case *types.Interface:
		return null
	}
	return ""
}

// saysZero reports whether omitzero asks the type.
func saysZero(t types.Type) bool {
	return types.NewMethodSet(types.NewPointer(t)).Lookup(nil, "IsZero") != nil
}

// states are what JSON of the version can be without a value.
func (e emptiness) states() []string {
	if e.hasNil && e.none != e.empty {
		return []string{e.none, e.empty}
	}
	return []string{e.empty}
}

// to is what one of the states becomes in another version, by way of Go.
func (e emptiness) to(other emptiness, state string) string {
	if e.hasNil && (state == absent || state == null) {
		return other.none
	}
	return other.empty
}

// emptyChanges says what becomes of a field without a value, for a field that both versions have in the same shape. It
// is empty where nothing changes. isLost: one of its states does not come back.
func emptyChanges(spoke, hub emptiness, spokeName, hubName string) (change string, isLost bool) {
	var said []string
	told := map[[2]string]bool{} // what the spoke and the hub have
	for _, from := range spoke.states() {
		to := spoke.to(hub, from)
		told[[2]string{from, to}] = true
		back := hub.to(spoke, to)
		if change := emptyChange(from, to, back, spokeName, hubName); change != "" {
			said, isLost = append(said, change), isLost || from != back
		}
	}
	for _, from := range hub.states() {
		to := hub.to(spoke, from)
		if told[[2]string{to, from}] {
			continue
		}
		back := spoke.to(hub, to)
		if change := emptyChange(from, to, back, hubName, spokeName); change != "" {
			said, isLost = append(said, change), isLost || from != back
		}
	}
	return strings.Join(said, "; "), isLost
}

func emptyChange(from, to, back, fromName, toName string) string {
	switch {
	case from == to && from == back:
		return ""
	case from == back:
		return fmt.Sprintf("%s in %s is %s in %s", from, fromName, to, toName)
	default:
		return fmt.Sprintf("%s in %s is %s in %s, and comes back as %s", from, fromName, to, toName, back)
	}
}

// pointerLoss is for a pointer in one version and its value in the other, which cannot tell nil from the empty value.
// It is empty for other fields.
func pointerLoss(m match, spokeName, hubName string) string {
	pointer, value, pointerName, valueName := m.spoke, m.hub, spokeName, hubName
	if _, ok := m.route.spoke.Underlying().(*types.Pointer); !ok {
		pointer, value, pointerName, valueName = m.hub, m.spoke, hubName, spokeName
	}
	to, ok := types.Unalias(pointer.variable.Type()).Underlying().(*types.Pointer)
	if !ok || !sameShape(to.Elem(), value.variable.Type()) {
		return ""
	}
	with, known := emptinessOf(pointer)
	without, alsoKnown := emptinessOf(value)
	if !known || !alsoKnown {
		return ""
	}
	return fmt.Sprintf("%s and %s in %s are both %s in %s: one of them comes back as the other",
		with.none, with.empty, pointerName, without.empty, valueName)
}

// sameShape reports whether values of two types are both scalars, structs, lists or maps of what can be the same.
func sameShape(a, b types.Type) bool {
	a, b = types.Unalias(a), types.Unalias(b)
	_, aStruct := a.Underlying().(*types.Struct)
	_, bStruct := b.Underlying().(*types.Struct)
	return aStruct && bStruct || castable(a, b)
}
