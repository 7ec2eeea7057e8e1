// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// way says how a value gets from one version to the other; the same in both directions.
type way int

const (
	wayNone    way = iota // a person has to say
	wayCopy               // the types are the same
	wayCast               // Go converts between them, and their JSON is the same
	wayPointer            // by what is pointed to
	waySlice              // by element
	wayMap                // by value, and key
	wayCall               // by functions of their own; a person fills in those of a pair by hand
)

// route is the way between two types, with those of their parts.
type route struct {
	way        way
	spoke, hub types.Type
	elem, key  *route
	call       *pair
}

// pair is two types, one of each version, that are converted into each other: structs, or any others by hand.
type pair struct {
	spoke, hub         types.Type
	byHand             bool     // only a person can write its functions
	uses               []string // by hand: the fields that have these types
	matches            []match  // with a route each, which may be wayNone
	onlySpoke, onlyHub []field
	toHub, fromHub     function
}

// match is a field that both structs have.
type match struct {
	spoke, hub field
	route      *route
}

// field is a field of a struct; of one that is embedded for its JSON, the fields are the outer struct's.
type field struct {
	variable *types.Var
	selector string // as in Go: "Size", or "Common.Size" through an embedded struct that is exported
	json     string // the name in JSON, or else in Go
	embedded bool   // its JSON has no name of its own
	ignored  bool   // it is not in JSON
	// omitEmpty and omitZero are the options of its tag.
	omitEmpty, omitZero bool
}

// function converts in one direction.
type function struct {
	name     string
	written  bool // by the project; nothing is generated
	fallible bool // it returns an error
}

// open reports whether a person has something to say about the pair itself.
func (p *pair) open() bool {
	return p.byHand || len(p.onlySpoke) > 0 || len(p.onlyHub) > 0 ||
		slices.ContainsFunc(p.matches, func(m match) bool { return m.route.way == wayNone })
}

// decider compares types. It knows each pair once, so that types may contain themselves, and so that a person has one
// place for each pair.
type decider struct {
	spoke *types.Package            // where the code is written
	own   func(*types.Package) bool // is it the project's
	known map[[2]*types.Named]*pair
	pairs []*pair                // in the order in which they were met
	under map[[2]types.Type]bool // whose route is being looked for, within one struct
}

func newDecider(spoke *types.Package, own func(*types.Package) bool) *decider {
	return &decider{spoke: spoke, own: own, known: map[[2]*types.Named]*pair{}}
}

// kind compares the structs of a kind, but for their TypeMeta.
func (d *decider) kind(spoke, hub *types.Named) *pair {
	isType := func(f field) bool { return f.embedded && f.variable.Name() == "TypeMeta" }
	return d.compare(spoke, hub, isType)
}

func (d *decider) compare(spoke, hub *types.Named, without func(field) bool) *pair {
	key := [2]*types.Named{spoke, hub}
	if known := d.known[key]; known != nil {
		return known
	}
	defer func(under map[[2]types.Type]bool) { d.under = under }(d.under)
	d.under = map[[2]types.Type]bool{} // functions may call each other
	p := &pair{spoke: spoke, hub: hub}
	d.known[key] = p
	d.pairs = append(d.pairs, p)
	ours, theirs := fieldsOf(spoke, ""), fieldsOf(hub, "")
	ours, theirs = slices.DeleteFunc(ours, without), slices.DeleteFunc(theirs, without)
	order := map[string]int{}
	number(order, ours)
	take := func(same func(a, b field) bool) {
		for _, a := range slices.Clone(ours) {
			at := slices.IndexFunc(theirs, func(b field) bool { return same(a, b) })
			if at < 0 {
				continue
			}
			p.matches = append(p.matches, match{a, theirs[at], d.routeOf(a, theirs[at])})
			ours = slices.DeleteFunc(ours, func(f field) bool { return f == a })
			theirs = slices.Delete(theirs, at, at+1)
		}
	}
	take(func(a, b field) bool {
		return a.embedded && b.embedded && types.Identical(a.variable.Type(), b.variable.Type())
	})
	ours, theirs = flat(ours), flat(theirs)
	take(func(a, b field) bool { return a.json == b.json }) // what clients see
	take(func(a, b field) bool { return a.variable.Name() == b.variable.Name() })
	p.onlySpoke, p.onlyHub = ours, theirs
	slices.SortFunc(p.matches, func(a, b match) int { return order[a.spoke.selector] - order[b.spoke.selector] })
	return p
}

func never(field) bool { return false }

// routeOf finds the way of a field. What code of this package cannot set is left to a person.
func (d *decider) routeOf(a, b field) *route {
	if !a.variable.Exported() || !b.variable.Exported() {
		return &route{spoke: a.variable.Type(), hub: b.variable.Type()}
	}
	return d.route(a.variable.Type(), b.variable.Type())
}

func (d *decider) route(spoke, hub types.Type) *route {
	spoke, hub = types.Unalias(spoke), types.Unalias(hub)
	r := &route{spoke: spoke, hub: hub}
	key := [2]types.Type{spoke, hub}
	switch {
	case types.Identical(spoke, hub):
		r.way = wayCopy
		return r
	case d.under[key]: // a map or slice that contains itself: only a struct's function can call itself
		return r
	case d.hidden(spoke) || d.hidden(hub):
		return r
	case ownJSON(spoke) || ownJSON(hub):
		r.byHand(d)
		return r
	case castable(spoke, hub):
		r.way = wayCast
		return r
	}
	d.under[key] = true
	defer delete(d.under, key)
	switch a := spoke.Underlying().(type) {
	case *types.Pointer:
		if b, ok := hub.Underlying().(*types.Pointer); ok {
			r.by(wayPointer, d.route(a.Elem(), b.Elem()))
		}
	case *types.Slice:
		if b, ok := hub.Underlying().(*types.Slice); ok {
			r.by(waySlice, d.route(a.Elem(), b.Elem()))
		}
	case *types.Map:
		if b, ok := hub.Underlying().(*types.Map); ok {
			if r.key = d.key(a.Key(), b.Key()); r.key.way != wayNone {
				r.by(wayMap, d.route(a.Elem(), b.Elem()))
			}
		}
	case *types.Struct:
		if ours, theirs := d.ownStruct(spoke), d.ownStruct(hub); ours != nil && theirs != nil {
			r.way, r.call = wayCall, d.compare(ours, theirs, never)
		}
	}
	if r.way == wayNone {
		r.byHand(d)
	}
	return r
}

// key is the way of the keys of maps, which are not converted by functions.
func (d *decider) key(spoke, hub types.Type) *route {
	r := &route{spoke: types.Unalias(spoke), hub: types.Unalias(hub)}
	switch {
	case types.Identical(spoke, hub):
		r.way = wayCopy
	case !d.hidden(r.spoke) && !d.hidden(r.hub) && !ownJSON(r.spoke) && !ownJSON(r.hub) && castable(r.spoke, r.hub):
		r.way = wayCast
	}
	return r
}

// byHand leaves the types to functions that a person fills in, if code can say them.
func (r *route) byHand(d *decider) {
	if !d.canSay(r.spoke) || !d.canSay(r.hub) {
		return
	}
	r.way = wayCall
	for _, known := range d.pairs {
		if known.byHand && types.Identical(known.spoke, r.spoke) && types.Identical(known.hub, r.hub) {
			r.call = known
			return
		}
	}
	r.call = &pair{spoke: r.spoke, hub: r.hub, byHand: true}
	d.pairs = append(d.pairs, r.call)
}

// canSay reports whether a parameter of a function in the spoke's package can have the type.
func (d *decider) canSay(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return !d.hidden(t) && t.TypeArgs() == nil
	case *types.Basic:
		return t.Kind() != types.UnsafePointer
	case *types.Map:
		return d.canSay(t.Key()) && d.canSay(t.Elem())
	case *types.Pointer, *types.Slice, *types.Array:
		return d.canSay(t.(interface{ Elem() types.Type }).Elem())
	case *types.Interface:
		return t.Empty()
	default:
		return false
	}
}

// hidden reports whether code in the spoke's package cannot write the type.
func (d *decider) hidden(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return t.Obj().Pkg() != nil && t.Obj().Pkg() != d.spoke && !t.Obj().Exported()
	case *types.Map:
		return d.hidden(t.Key()) || d.hidden(t.Elem())
	case interface{ Elem() types.Type }: // a pointer, a slice, an array
		return d.hidden(t.Elem())
	default:
		return false
	}
}

// by takes the way of parts, if these have one.
func (r *route) by(way way, elem *route) {
	if elem.way != wayNone {
		r.way, r.elem = way, elem
	}
}

// ownStruct is t if it is a struct that the project declares, which alone is taken apart.
func (d *decider) ownStruct(t types.Type) *types.Named {
	named, ok := t.(*types.Named)
	if !ok || named.TypeArgs() != nil || named.Obj().Pkg() == nil || !d.own(named.Obj().Pkg()) {
		return nil
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return nil
	}
	return named
}

// castable reports whether Go converts between the types and nothing can be lost: their structure is the same, with
// the same tags. (Go also converts an int64 to an int32, or an int to a string.)
func castable(a, b types.Type) bool {
	if pointerA, ok := a.(*types.Pointer); ok {
		pointerB, ok := b.(*types.Pointer)
		return ok && !ownJSON(pointerA.Elem()) && !ownJSON(pointerB.Elem()) &&
			types.Identical(pointerA.Elem().Underlying(), pointerB.Elem().Underlying())
	}
	return types.Identical(a.Underlying(), b.Underlying())
}

// ownJSON reports whether a type says itself what its JSON is. Its structure then does not tell what is lost: Time and
// MicroTime look the same.
func ownJSON(t types.Type) bool {
	if _, ok := t.(*types.Named); !ok {
		return false
	}
	methods := types.NewMethodSet(types.NewPointer(t))
	return slices.ContainsFunc([]string{"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText"}, func(name string) bool {
		return methods.Lookup(nil, name) != nil
	})
}

func fieldsOf(named types.Type, prefix string) []field {
	structure, ok := named.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var fields []field
	for i := range structure.NumFields() {
		variable := structure.Field(i)
		tag := reflect.StructTag(structure.Tag(i)).Get("json")
		name, rest, _ := strings.Cut(tag, ",")
		options := strings.Split(rest, ",")
		one := field{variable: variable, selector: prefix + variable.Name(), json: name,
			embedded: variable.Embedded() && name == "", ignored: tag == "-",
			omitEmpty: slices.Contains(options, "omitempty"), omitZero: slices.Contains(options, "omitzero")}
		if name == "" || name == "-" {
			one.json = variable.Name()
		}
		fields = append(fields, one)
	}
	return fields
}

// flat puts the fields of embedded structs in their place.
func flat(fields []field) []field {
	var all []field
	for _, one := range fields {
		if inner, ok := one.inner(); ok {
			all = append(all, flat(inner)...)
		} else {
			all = append(all, one)
		}
	}
	return all
}

// number gives selectors the order in which fields are declared, those of an embedded struct in its place. (Positions
// have another one: files are parsed at the same time.)
func number(order map[string]int, fields []field) {
	for _, one := range fields {
		order[one.selector] = len(order)
		if inner, ok := one.inner(); ok {
			number(order, inner)
		}
	}
}

// inner are the fields of an embedded struct. Its name is left out where other packages cannot say it.
func (f field) inner() ([]field, bool) {
	if _, ok := f.variable.Type().Underlying().(*types.Struct); !f.embedded || !ok {
		return nil, false
	}
	prefix := f.selector + "."
	if !f.variable.Exported() {
		prefix = strings.TrimSuffix(f.selector, f.variable.Name())
	}
	return fieldsOf(f.variable.Type(), prefix), true
}
