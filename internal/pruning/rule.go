// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule tells which fields of one object a rewrite would drop. It is safe for concurrent use.
//
// The managedFields of an object name its fields, in the versions in which clients wrote them. A field that one of the
// schemas on the way from etcd back to etcd does not keep is lost. Where managedFields cannot tell, the object counts as
// losing the field only if the schemas show that a loss is possible at all: between the version in which it may be
// stored and the versions on the way.
type Rule struct {
	group    string
	accepted []string
	// routes are by version: what happens to an object that was written in it.
	routes map[string]route
	// other is the route of versions that the CRD does not have any more.
	other route
	// unowned are the losses that an object without managedFields may suffer.
	unowned []string

	mu    sync.Mutex
	seed  maphash.Seed
	known map[uint64][]string
}

// route is what happens to an object that was written in one version.
type route struct {
	// schema is that of the version when objects were written in it, or nil if the CRD does not have it any more.
	schema *Schema
	// stations are the schemas that the object has to pass.
	stations []station
	// always are the fields that every object of this version may have and would lose, because the API server itself
	// sets them.
	always []string
}

// station is a schema that an object has to pass.
type station struct {
	*Schema
	// before is the schema of the same version that objects passed so far. What that drops does not count; nil: none.
	before *Schema
}

// lost returns what objects of a schema lose here.
func (s station) lost(from *Schema) []Loss {
	if from == s.Schema {
		return nil
	}
	losses := from.Lost(s.Schema)
	if s.before == nil {
		return losses
	}
	known := from.Lost(s.before)
	return slices.DeleteFunc(losses, func(l Loss) bool {
		return slices.ContainsFunc(known, func(k Loss) bool { return slices.Equal(k.Path, l.Path) && k.Refused == l.Refused })
	})
}

// maxKnown bounds how many managedFields entries the rule remembers (I6). Objects of one client mostly have the same
// entry, so each is looked at once.
const maxKnown = 1024

// NewRule returns the rule for rewrites at an endpoint, which is one of the CRD's versions. accepted are fields that may
// be lost, with all fields below them, in the form of Path.String; "*" stands for all.
func NewRule(c *CRD, endpoint string, accepted []string) *Rule {
	return NewUpgradeRule(c, c, endpoint, accepted, true)
}

// NewUpgradeRule returns the rule for objects that were written under one CRD, and are rewritten under another one, at one
// of its versions. An object passes the schema of its own version there as well, which may have become narrower. If no one
// has to rewrite the objects, only those losses count that the other CRD adds: what passes the same versions of the first
// one does not lose them.
func NewUpgradeRule(was, is *CRD, endpoint string, accepted []string, rewritten bool) *Rule {
	r := &Rule{group: is.Group, accepted: accepted, seed: maphash.MakeSeed(), routes: map[string]route{}}
	at := func(v *Version) station {
		s := station{Schema: v.Schema}
		if before := was.Version(v.Name); before != nil && !rewritten {
			s.before = before.Schema
		}
		return s
	}
	var targets []station
	storage := is.Storage()
	if storage != nil {
		targets = append(targets, at(storage))
	}
	crossing := storage == nil || endpoint != storage.Name
	if v := is.Version(endpoint); v != nil && crossing {
		targets = append(targets, at(v))
	}
	for i := range is.Versions {
		v := &is.Versions[i]
		way := route{schema: v.Schema, stations: []station{at(v)}}
		if before := was.Version(v.Name); before != nil {
			way.schema = before.Schema
		}
		for _, to := range targets {
			if to.Schema != v.Schema && (!is.Webhook || crossing || way.schema.NarrowsTo(to.Schema)) {
				way.stations = append(way.stations, to)
			}
		}
		for _, to := range way.stations {
			r.add(&way, to.lost(way.schema))
		}
		// A webhook gives what is stored other fields than managedFields of this version name.
		if stored := was.Storage(); is.Webhook && stored != nil && stored.Name != v.Name && is.Version(stored.Name) != nil {
			for _, l := range (station{Schema: is.Version(stored.Name).Schema}).lost(stored.Schema) {
				l.Defaulted = true
				r.add(&way, []Loss{l})
			}
		}
		r.routes[v.Name] = way
	}
	r.other = route{stations: targets}
	slices.Sort(r.unowned)
	r.unowned = slices.Compact(r.unowned)
	return r
}

// add adds losses to a route.
func (r *Rule) add(way *route, losses []Loss) {
	for _, l := range losses {
		if name := l.Path.String(); !l.Refused && !r.accepts(name) {
			r.unowned = append(r.unowned, name)
			if l.Defaulted {
				way.always = append(way.always, name)
			}
		}
	}
}

// NarrowsTo reports whether another schema has less than s and nothing more: then a conversion webhook has no field into
// which it could move what the other schema lacks. Where the other schema has fields of its own, the webhook is trusted
// to move the values, as for every other request.
//
// What s keeps without naming it shows nothing about what objects have.
func (s *Schema) NarrowsTo(to *Schema) bool {
	named := func(l Loss) bool { return len(l.Path) == 0 || l.Path[len(l.Path)-1] != Any }
	return slices.ContainsFunc(s.Lost(to), named) && len(to.Lost(s)) == 0
}

// Possible returns the fields that an object may have and would lose, as the schemas show, sorted. An object may lose
// other fields, too: those that its managedFields name and no schema has any more.
func (r *Rule) Possible() []string { return r.unowned }

// Lossless reports whether no object can lose a field, whatever its managedFields say: every schema on the way keeps
// every field.
func (r *Rule) Lossless() bool {
	for _, way := range r.routes {
		for _, s := range way.stations {
			if !s.root().whole {
				return false
			}
		}
	}
	return len(r.routes) > 0
}

// Lost returns the fields that an object with these managedFields would lose, sorted. A field that it may have, and of
// which its managedFields do not say so, is among them.
func (r *Rule) Lost(entries []metav1.ManagedFieldsEntry) (fields []string) {
	silent := true
	for i := range entries {
		if entries[i].FieldsV1 == nil {
			continue
		}
		silent = false
		fields = append(fields, r.ofEntry(entries[i].APIVersion, FieldsOf(entries[i].FieldsV1))...)
	}
	if silent {
		return r.unowned
	}
	if len(fields) == 0 {
		return nil
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// ofEntry returns what one entry shows, from memory if it was seen before.
func (r *Rule) ofEntry(apiVersion, fields string) []string {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteString(apiVersion)
	h.WriteByte(0)
	h.WriteString(fields)
	key := h.Sum64()
	r.mu.Lock()
	lost, ok := r.known[key]
	r.mu.Unlock()
	if ok {
		return lost
	}
	lost = r.judge(apiVersion, fields)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown || r.known == nil {
		r.known = make(map[uint64][]string)
	}
	r.known[key] = lost
	return lost
}

// judge compares the fields of an entry with the schemas on the way of its version.
func (r *Rule) judge(apiVersion, fields string) []string {
	version, ours := strings.CutPrefix(apiVersion, r.group+"/")
	way, ok := r.routes[version]
	if !ours || !ok {
		way = r.other
	}
	var owned map[string]json.RawMessage
	if json.Unmarshal([]byte(fields), &owned) != nil {
		return r.unowned // it shows nothing
	}
	found := map[string]bool{}
	for _, name := range way.always {
		found[name] = true
	}
	from := place{}
	if way.schema != nil {
		from = way.schema.root()
	}
	for _, to := range way.stations {
		here := map[string]bool{}
		walk(owned, from, to.root(), nil, here)
		if to.before != nil {
			known := map[string]bool{}
			walk(owned, from, to.before.root(), nil, known)
			maps.DeleteFunc(here, func(name string, _ bool) bool { return known[name] })
		}
		maps.Copy(found, here)
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return r.accepts(name) })
	if len(found) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(found))
}

// maxDepth bounds how deep managedFields are followed. Clients can write them as they like.
const maxDepth = 200

// walk follows owned fields, in the format FieldsV1, through a schema, and adds those that it drops. Below a field that
// is owned as a whole, the schema from says what there may be.
func walk(owned map[string]json.RawMessage, from, to place, path Path, lostFields map[string]bool) {
	if to.whole {
		return
	}
	if len(path) > maxDepth {
		lostFields[path.String()] = true // a client made this up, and each level costs
		return
	}
	for key, raw := range owned {
		if key == "." {
			continue
		}
		var before, after place
		var inner Path
		if name, isField := strings.CutPrefix(key, "f:"); isField {
			inner = path.to(name)
			var kept bool
			before, _ = from.field(name)
			if after, kept = to.field(name); !kept {
				lostFields[inner.String()] = true
				continue
			}
		} else { // an item of a list
			inner = path.to(Each)
			before, after = from.item(), to.item()
		}
		var below map[string]json.RawMessage
		if json.Unmarshal(raw, &below) != nil || len(below) == 0 {
			for _, l := range lost(before, after, inner, false) {
				if !l.Refused {
					lostFields[l.Path.String()] = true
				}
			}
			continue
		}
		walk(below, before, after, inner, lostFields)
	}
}

// Kept returns owned fields, in the format FieldsV1, without those that an API server with the schema does not keep: no
// object has them, so no one can own them, and a rule would say that they are lost.
func (s *Schema) Kept(fields string) string {
	var owned map[string]json.RawMessage
	if json.Unmarshal([]byte(fields), &owned) != nil {
		return fields
	}
	dropped := false
	raw, err := json.Marshal(keep(owned, s.root(), 0, &dropped))
	if err != nil || !dropped {
		return fields
	}
	return string(raw)
}

func keep(owned map[string]json.RawMessage, at place, depth int, dropped *bool) map[string]json.RawMessage {
	if at.whole || depth > maxDepth {
		return owned
	}
	kept := map[string]json.RawMessage{}
	for key, raw := range owned {
		inner, isKept := at.item(), true
		if name, isField := strings.CutPrefix(key, "f:"); isField {
			inner, isKept = at.field(name)
		}
		var below map[string]json.RawMessage
		if isKept && key != "." && json.Unmarshal(raw, &below) == nil && len(below) > 0 {
			below = keep(below, inner, depth+1, dropped)
			isKept = len(below) > 0
			if again, err := json.Marshal(below); err == nil {
				raw = again
			}
		}
		if *dropped = *dropped || !isKept; isKept {
			kept[key] = raw
		}
	}
	return kept
}

// accepts reports whether a field may be lost.
func (r *Rule) accepts(field string) bool { return Accepts(r.accepted, field) }

// Accepts reports whether a field, or one above it, is among those that may be lost.
func Accepts(accepted []string, field string) bool {
	return slices.ContainsFunc(accepted, func(a string) bool {
		rest, below := strings.CutPrefix(field, a)
		return a == "*" || below && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// maxNamed is how many fields a message names.
const maxNamed = 5

// Describe returns the fields for a message.
func Describe(fields []string) string {
	text := strings.Join(fields[:min(maxNamed, len(fields))], ", ")
	if more := len(fields) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
