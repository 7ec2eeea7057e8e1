// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"go/types"
	"strings"
)

// direction is one of the two ways between a spoke and the hub.
type direction bool

const (
	toHub   direction = true
	fromHub direction = false
)

func (d direction) types(r *route) (from, to types.Type) {
	if d == toHub {
		return r.spoke, r.hub
	}
	return r.hub, r.spoke
}

func (d direction) function(p *pair) *function {
	if d == toHub {
		return &p.toHub
	}
	return &p.fromHub
}

// renderer writes the functions of one spoke's package.
type renderer struct {
	spoke, hub *types.Package
	version    string // of the hub, as part of names: V2
	imports    *imports
	loops      int    // around the statement that is being written
	field      string // which it converts, as JSON calls it in the source
	out        strings.Builder
}

// name finds names for the functions of all pairs. What the package has already is called and not written again.
func (r *renderer) name(pairs []*pair) {
	taken := map[string]bool{}
	for _, p := range pairs {
		for _, d := range []direction{toHub, fromHub} {
			*d.function(p) = r.nameOne(p, d, taken)
		}
	}
	for changed := true; changed; { // what calls one that can fail can fail
		changed = false
		for _, p := range pairs {
			for _, d := range []direction{toHub, fromHub} {
				f := d.function(p)
				if !f.written && !f.fallible && (p.open() || callsFallible(p, d)) {
					f.fallible, changed = true, true
				}
			}
		}
	}
}

func callsFallible(p *pair, d direction) bool {
	for _, m := range p.matches {
		for r := m.route; r != nil; r = r.elem {
			if r.call != nil && d.function(r.call).fallible {
				return true
			}
		}
	}
	return false
}

func (r *renderer) nameOne(p *pair, d direction, taken map[string]bool) function {
	base := called(p.spoke)
	if named, ok := p.spoke.(*types.Named); ok && !p.byHand && named.Obj().Pkg() != r.spoke {
		base = named.Obj().Pkg().Name() + base
	}
	way := "From"
	if d == toHub {
		way = "To"
	}
	base = lower(base) + way + r.version
	if other := called(p.hub); other != called(p.spoke) {
		base += upper(other)
	}
	in, out := types.NewPointer(p.spoke), types.NewPointer(p.hub)
	if d == fromHub {
		in, out = out, in
	}
	name := base
	for n := 2; ; n++ {
		object := r.spoke.Scope().Lookup(name)
		if signature := converts(object, in, out); signature != nil && !taken[name] {
			taken[name] = true
			return function{name: name, written: true, fallible: signature.Results().Len() > 0}
		}
		if object == nil && !taken[name] {
			taken[name] = true
			return function{name: name}
		}
		name = fmt.Sprintf("%s%d", base, n)
	}
}

// called is what names of functions call a type: int32List of []int32.
func called(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		return t.Obj().Name()
	case *types.Basic:
		return t.Name()
	case *types.Pointer:
		return called(t.Elem()) + "Pointer"
	case *types.Map:
		return called(t.Elem()) + "Map"
	case interface{ Elem() types.Type }: // a slice, an array
		return called(t.Elem()) + "List"
	default:
		return "value"
	}
}

// converts is the object's signature if it is a function like ours.
func converts(object types.Object, in, out types.Type) *types.Signature {
	f, ok := object.(*types.Func)
	if !ok {
		return nil
	}
	signature := f.Signature()
	parameters, results := signature.Params(), signature.Results()
	fits := parameters.Len() == 2 && types.Identical(parameters.At(0).Type(), in) &&
		types.Identical(parameters.At(1).Type(), out) &&
		(results.Len() == 0 || results.Len() == 1 &&
			types.Identical(results.At(0).Type(), types.Universe.Lookup("error").Type()))
	if !fits {
		return nil
	}
	return signature
}

func (r *renderer) line(depth int, format string, args ...any) {
	fmt.Fprintf(&r.out, strings.Repeat("\t", depth)+format+"\n", args...)
}

// comment begins a declaration with a comment, in lines of usual length.
func (r *renderer) comment(format string, args ...any) {
	const longest = 120
	line := "//"
	r.out.WriteString("\n")
	for word := range strings.FieldsSeq(fmt.Sprintf(format, args...)) {
		if len(line)+len(" ")+len(word) > longest {
			r.line(0, "%s", line)
			line = "//"
		}
		line += " " + word
	}
	r.line(0, "%s", line)
}

// functions writes those that the package lacks: those of a pair next to each other, and what a person fills in last.
func (r *renderer) functions(pairs []*pair) {
	for _, byHand := range []bool{false, true} {
		for _, p := range pairs {
			for _, d := range []direction{toHub, fromHub} {
				if p.byHand == byHand && !d.function(p).written {
					r.function(p, d)
				}
			}
		}
	}
}

func (r *renderer) function(p *pair, d direction) {
	f := d.function(p)
	from, to, target := p.spoke, p.hub, r.hub.Name()
	if d == fromHub {
		from, to, target = to, from, r.spoke.Name()
	}
	result := ""
	if f.fallible {
		result = " error"
	}
	if p.byHand {
		r.comment("%s converts %s to %s of %s. out is empty before. It is called for", f.name, short(from), short(to), target)
		r.line(0, "//")
		for _, use := range p.uses {
			r.line(0, "//\t%s", use)
		}
	} else {
		r.comment("%s converts %s to %s. out is empty before, and shares memory with in afterwards.", f.name, short(from),
			target)
	}
	r.line(0, "func %s(in *%s, out *%s)%s {", f.name, r.typ(from), r.typ(to), result)
	for _, m := range p.matches {
		in, out := d.selectors(m)
		r.field = m.hub.json
		if d == toHub {
			r.field = m.spoke.json
		}
		r.assign(m.route, d, in, out, 1)
	}
	r.todo(p, d)
	if f.fallible {
		r.line(1, "return nil")
	}
	r.line(0, "}")
}

// selectors are a field of what is converted, and of what it is converted to.
func (d direction) selectors(m match) (in, out string) {
	if d == toHub {
		return "in." + m.spoke.selector, "out." + m.hub.selector
	}
	return "in." + m.hub.selector, "out." + m.spoke.selector
}

// todo is the one place of a function in which a person fills in what cannot be converted automatically.
func (r *renderer) todo(p *pair, d direction) {
	var fields []string
	for _, m := range p.matches {
		if m.route.way == wayNone {
			in, out := d.selectors(m)
			from, to := d.types(m.route)
			fields = append(fields, fmt.Sprintf("%s is of type %s, %s of type %s", out, short(to), in, short(from)))
		}
	}
	ours, theirs := p.onlySpoke, p.onlyHub
	if d == fromHub {
		ours, theirs = theirs, ours
	}
	for _, one := range ours {
		fields = append(fields, "in."+one.selector+" has no counterpart")
	}
	for _, one := range theirs {
		fields = append(fields, "out."+one.selector+" has no counterpart")
	}
	switch {
	case p.byHand:
		r.line(1, "// TODO: set out to what in means.")
	case len(fields) > 0:
		r.line(1, "// TODO: convert these fields:")
		for _, field := range fields {
			r.line(1, "//   - %s", field)
		}
	}
}

// assign writes the statements that convert the expression in to the expression out, which is empty.
func (r *renderer) assign(way *route, d direction, in, out string, depth int) {
	switch way.way {
	case wayNone: // todo
	case wayCopy, wayCast:
		r.line(depth, "%s = %s", out, r.value(way, d, in))
	case wayCall:
		f := d.function(way.call)
		if !f.fallible {
			r.line(depth, "%s(%s, %s)", f.name, address(in), address(out))
			return
		}
		r.line(depth, "if err := %s(%s, %s); err != nil {", f.name, address(in), address(out))
		if way.call.byHand { // what a person writes there knows neither the field nor its struct
			r.line(depth+1, "return %s.Errorf(\"convert %s: %%w\", err)", r.imports.name("fmt", "fmt"), r.field)
		} else {
			r.line(depth+1, "return err")
		}
		r.line(depth, "}")
	case wayPointer, waySlice, wayMap:
		r.line(depth, "if %s != nil {", in)
		r.parts(way, d, in, out, depth+1)
		r.line(depth, "}")
	}
}

// parts writes what converts what a pointer, a slice or a map holds. What is nil stays nil, what is empty stays empty.
func (r *renderer) parts(way *route, d direction, in, out string, depth int) {
	_, to := d.types(way)
	suffix := ""
	if r.loops > 0 {
		suffix = fmt.Sprint(r.loops + 1)
	}
	if way.way != wayPointer {
		r.loops++
		defer func() { r.loops-- }()
	}
	switch way.way {
	case wayPointer:
		r.line(depth, "%s = new(%s)", out, r.typ(to.Underlying().(*types.Pointer).Elem()))
		r.assign(way.elem, d, "*"+in, "*"+out, depth)
	case waySlice:
		index := "i" + suffix
		r.line(depth, "%s = make(%s, len(%s))", out, r.typ(to), in)
		r.line(depth, "for %s := range %s {", index, in)
		r.assign(way.elem, d, operand(in)+"["+index+"]", operand(out)+"["+index+"]", depth+1)
		r.line(depth, "}")
	case wayMap:
		key, value, converted := "key"+suffix, "value"+suffix, "converted"+suffix
		r.line(depth, "%s = make(%s, len(%s))", out, r.typ(to), in)
		r.line(depth, "for %s, %s := range %s {", key, value, in)
		into := operand(out) + "[" + r.value(way.key, d, key) + "]"
		if way.elem.way == wayCopy || way.elem.way == wayCast {
			r.line(depth+1, "%s = %s", into, r.value(way.elem, d, value))
		} else {
			r.line(depth+1, "var %s %s", converted, r.typ(to.Underlying().(*types.Map).Elem()))
			r.assign(way.elem, d, value, converted, depth+1)
			r.line(depth+1, "%s = %s", into, converted)
		}
		r.line(depth, "}")
	case wayNone, wayCopy, wayCast, wayCall: // they have no parts
	}
}

// value is the expression in with the type on the other side.
func (r *renderer) value(way *route, d direction, in string) string {
	if way.way == wayCopy {
		return in
	}
	_, to := d.types(way)
	name := r.typ(to)
	if strings.HasPrefix(name, "*") {
		name = "(" + name + ")"
	}
	return name + "(" + in + ")"
}

func address(expression string) string {
	if pointer, ok := strings.CutPrefix(expression, "*"); ok {
		return pointer
	}
	return "&" + expression
}

func operand(expression string) string {
	if strings.HasPrefix(expression, "*") {
		return "(" + expression + ")"
	}
	return expression
}

func (r *renderer) typ(t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string {
		if pkg == r.spoke {
			return ""
		}
		return r.imports.name(pkg.Path(), pkg.Name())
	})
}
