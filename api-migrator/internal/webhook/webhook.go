// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook keeps admission webhooks of kinds that move working: the path that the code serves and the version
// that it decodes follow from the Go type, and what tells the API server where to send which version has to say the
// same: markers, manifests, charts and patches.
//
// Its invariant: no marker and no manifest sends to a path that the code has ceased to serve, or a version that it
// does not decode, without a blocker or a finding at that place.
package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// hooks is the step that changes what refers to webhooks.
type hooks struct {
	*layout.Layout
	changeset.Result
	served  *served
	plurals map[string]string // resources of the kinds that move
	before  map[string][]byte // code that may have markers, as it was, by file
}

// Change makes markers and manifests send to the webhooks that the code serves after the move.
func Change(ctx context.Context, l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := &hooks{Layout: l, Result: changeset.After(before), served: readServers(l), plurals: map[string]string{},
		before: map[string][]byte{}}
	for _, kind := range l.Request.Kinds {
		s.plurals[flect.Pluralize(strings.ToLower(kind))] = kind
	}
	manifests, err := l.Project.Manifests()
	if err != nil {
		return s.Result, err
	}
	for _, manifest := range manifests {
		if manifest.Group == l.Old.Group && slices.Contains(l.Request.Kinds, manifest.Kind) {
			s.plurals[manifest.Plural] = manifest.Kind
		}
	}
	s.noteIdle()
	if err := s.editMarkers(); err != nil {
		return s.Result, err
	}
	if err := s.editProjectFile(); err != nil {
		return s.Result, err
	}
	return s.Result, s.editManifests(ctx)
}

// noteIdle reports functions that set up webhooks and that no code calls: nothing serves the paths, unless another
// project calls them.
func (s *hooks) noteIdle() {
	for place, name := range s.served.idle {
		if s.Request.Old == request.OldRemove {
			s.Warn(place, "%s sets up webhooks, and no code of this project calls it: it goes to %s, and what sends to them "+
				"follows. If another project calls it, that one has to call the one of %s before its manifests change; "+
				"otherwise nothing serves these webhooks, and with failurePolicy Fail every request is refused", name,
				s.Version, s.Version)
			continue
		}
		s.Warn(place, "%s sets up webhooks, and no code of this project calls it: what sends to them stays on %s. If "+
			"another project calls it, plan that one too, and let the paths and rules follow there", name,
			s.name(layout.OldPackage))
	}
}

// entry is what a marker or a manifest says of one webhook.
type entry struct {
	path   string
	rules  []rule
	policy string // matchPolicy; empty where it is not said
	// legacy: of admissionregistration.k8s.io/v1beta1, whose matchPolicy is Exact unless it is said.
	legacy bool
}

// rule says which requests a webhook gets.
type rule struct{ groups, versions, resources []string }

// verdict is what becomes of an entry.
type verdict struct {
	kind    string // empty: the entry is not about a kind that moves
	at      layout.Home
	path    string
	group   string // that its rules list from now on; empty where groups stay
	version string // likewise
	rules   []int  // those that do not list it yet, or list others too
	policy  bool   // matchPolicy becomes Equivalent
	notes   []string
	block   string
}

// decide says what becomes of an entry.
//
// A handler decodes one version. So a rule lists this version alone, and matchPolicy Equivalent has the API server
// convert requests in every other version to it. A rule that lists several versions, or "*", would have objects sent
// as they are; Exact would let the other versions pass without the webhook.
func (s *hooks) decide(e entry) verdict {
	servers := s.served.at(e.path)
	about := s.about(e, len(servers) > 0)
	if len(servers) == 0 {
		return s.decideUnknown(e, about)
	}
	v := verdict{kind: servers[0].kind, at: layout.NewPackage, path: servers[0].after, version: s.Version}
	for _, one := range servers {
		if one.at == layout.OldPackage {
			v.at, v.path, v.version = layout.OldPackage, e.path, s.Old.Version
		}
	}
	if len(s.Successions) > 0 && v.at == layout.OldPackage {
		return s.decideBoth(v)
	}
	for _, i := range about {
		one := e.rules[i]
		if others := s.others(one, v.kind); len(others) > 0 {
			if v.at == layout.NewPackage {
				v.block = fmt.Sprintf("sends %s of %s to %s, too, whose handler decodes %s of %s alone: give %s a "+
					"webhook of its own", strings.Join(others, " and "), strings.Join(one.groups, ", "), e.path, v.kind,
					s.name(v.at), v.kind)
			}
			continue
		}
		if len(s.Successions) > 0 {
			v.group, v.rules = s.Group, append(v.rules, i)
			continue
		}
		if slices.Equal(one.versions, []string{v.version}) {
			continue
		}
		v.rules = append(v.rules, i)
		if more := slices.DeleteFunc(slices.Clone(one.versions), func(version string) bool {
			return version == s.Old.Version || version == s.Version
		}); len(more) > 0 {
			v.notes = append(v.notes, fmt.Sprintf("listed the versions %s: its handler decodes %s alone, and "+
				"matchPolicy Equivalent converts requests in others to that", strings.Join(one.versions, ", "), v.version))
		}
	}
	isExact := strings.EqualFold(e.policy, "Exact") || e.policy == "" && e.legacy
	if len(about) > 0 && isExact && len(s.Successions) == 0 {
		v.policy = true
		v.notes = append(v.notes, fmt.Sprintf("matchPolicy becomes Equivalent: with Exact, requests in %s or %s would "+
			"pass without this webhook", s.Old.Version, s.Version))
	}
	return v
}

// decideUnknown is about an entry whose path no code is known to serve.
func (s *hooks) decideUnknown(e entry, about []int) verdict {
	kind := s.kindOfPath(e.path)
	if kind == "" && len(about) > 0 {
		for _, resource := range e.rules[about[0]].resources {
			if base, _, _ := strings.Cut(resource, "/"); s.plurals[base] != "" && kind == "" {
				kind = s.plurals[base]
			}
		}
	}
	v := verdict{kind: kind, at: layout.OldPackage, path: e.path}
	switch {
	case kind == "" || slices.Equal(s.Request.Consumers, []string{request.ConsumersNone}):
	case e.path == "" && len(s.served.pathsAfter(kind)) > 0:
		v.block = fmt.Sprintf("is a webhook of %s and does not say its path here, and the code serves %s from now on: write "+
			"the path next to the rule, without template actions", kind, strings.Join(s.served.pathsAfter(kind), " and "))
	case len(s.served.unclear) > 0:
		v.block = fmt.Sprintf("is a webhook of %s at %s, and what serves it cannot be told: %s may serve another path, or "+
			"decode another version, after the move. Name the kind and the path there, or keep that code as it is "+
			"with --consumers", kind, orNone(e.path), strings.Join(s.served.unclear, ", "))
	default:
		v.notes = append(v.notes, fmt.Sprintf("is a webhook of %s at %s, which no code of this project is known to "+
			"serve: what serves it has to go on doing so, and to decode %s", kind, orNone(e.path), s.name(layout.OldPackage)))
	}
	return v
}

// decideBoth is about an entry of a kind that gets another CRD, where code goes on serving the old kind.
func (s *hooks) decideBoth(v verdict) verdict {
	if paths := s.served.pathsAfter(v.kind); len(paths) > 0 {
		v.notes = append(v.notes, fmt.Sprintf("sends %s of %s to code that goes on serving it, and other code serves the new "+
			"kind at %s: add a webhook for the new kind", v.kind, s.Old.Group, strings.Join(paths, " and ")))
	}
	return v
}

// name is what tells a version from the other one.
func (s *hooks) name(of layout.Home) string {
	switch {
	case len(s.Successions) == 0 && of == layout.OldPackage:
		return s.Old.Version
	case len(s.Successions) == 0:
		return s.Version
	case of == layout.OldPackage:
		return s.Old.Name()
	}
	return s.Group + "/" + s.Version
}

// resource is what a rule says for a resource or subresource after the move.
func (s *hooks) resource(said string) string {
	base, below, isSub := strings.Cut(said, "/")
	for _, one := range s.Successions {
		if one.Old.Plural == base {
			base = one.Successor.Plural
			break
		}
	}
	if isSub {
		return base + "/" + below
	}
	return base
}

// ruleText is what a rule has to list, in words.
func ruleText(group, version string) string {
	if group == "" {
		return version
	}
	return "the group " + group + " and the version " + version
}

// namedByPath is what a rule has to list that a path of controller-runtime names, in words.
func (s *hooks) namedByPath() string {
	if len(s.Successions) > 0 {
		return "the group and the version that the webhook's path names, and their resource"
	}
	return "the version that the webhook's path names"
}

func orNone(path string) string {
	if path == "" {
		return "a path that is computed"
	}
	return path
}

// about lists the rules that a request about a kind that moves, in the old version, matches. If the path is that of a
// server of such a kind, a rule for all resources counts.
func (s *hooks) about(e entry, isServed bool) []int {
	var found []int
	for i, one := range e.rules {
		if has(one.groups, s.Old.Group) && has(one.versions, s.Old.Version) &&
			slices.ContainsFunc(one.resources, func(resource string) bool {
				base, _, _ := strings.Cut(resource, "/")
				return s.plurals[base] != "" || isServed && (base == "*" || artifacts.IsComputed(base))
			}) {
			found = append(found, i)
		}
	}
	return found
}

func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*") || slices.ContainsFunc(list, artifacts.IsComputed)
}

// others are the groups and resources of a rule that are not those of a kind.
func (s *hooks) others(one rule, kind string) []string {
	found := slices.DeleteFunc(slices.Clone(one.resources), func(resource string) bool {
		base, _, _ := strings.Cut(resource, "/")
		return s.plurals[base] == kind || artifacts.IsComputed(base)
	})
	for _, group := range one.groups {
		if group != s.Old.Group && !artifacts.IsComputed(group) {
			found = append(found, "the group "+group)
		}
	}
	return found
}

// kindOfPath is the kind whose webhook in the old version controller-runtime would serve at a path.
func (s *hooks) kindOfPath(path string) string {
	r := &reader{Layout: s.Layout}
	for _, kind := range s.Request.Kinds {
		for _, verb := range verbs {
			if path == r.path(verb, kind, layout.OldPackage) {
				return kind
			}
		}
	}
	return ""
}

// record takes a verdict's findings.
func (s *hooks) record(where string, e entry, v verdict) {
	if v.block != "" {
		s.Block(where, "%s", v.block)
		return
	}
	for _, note := range v.notes {
		s.Note(where, "%s", note)
	}
	switch {
	case len(v.rules) == 0:
	case v.group != "":
		s.Warn(where, "is for the new kind from now on, and the old kind has no such webhook: apply it together with the "+
			"operator that serves the new kind, and not before. An entry for the old kind that is left in a cluster makes "+
			"API servers refuse every change of old objects")
	default:
		s.Note(where, "its handler gets %s in %s from now on, also what clients send in other versions: matchPolicy "+
			"Equivalent, the default, has the API server convert it before", v.kind, v.version)
	}
}
