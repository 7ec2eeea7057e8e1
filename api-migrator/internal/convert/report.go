// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Spoke is a version that is converted to and from the hub.
type Spoke struct {
	Version string `json:"version"` // without the group
	// The first are fields that are converted as they are, Differing those that a person has to convert, or to accept
	// as lost.
	Rote      []Field `json:"rote"`
	Differing []Field `json:"differing"`
	// Empty are fields that both versions have, whose missing or empty values change or are lost between them.
	Empty []Field `json:"empty"`
	// Same: every field is in both versions, under the same name. Conversion strategy None may do, without any code.
	Same bool `json:"same"`
	// File is where its conversion is, or is to be written; Skipped says why it is not.
	File    string `json:"file"`
	Skipped string `json:"skipped,omitempty"`
}

// Field is a field of one version or of both, by its path: "spec.parts[].name", with * for the keys of a map.
type Field struct {
	Path string `json:"path"`
	How  string `json:"how"`
}

// survey walks the fields of a pair by their paths.
type survey struct {
	spokeName, hubName string // of the versions
	rote, differing    []Field
	empty              []Field
	renamed            bool // a field has another name in JSON
	preserve           bool // an annotation keeps what does not come back
	losesEmpty         bool // a field's missing or empty value does not come back without it
	spokeKeys, hubKeys map[string][]string
	keys               func(*types.Var) []string // of a list
	within             []*pair                   // the way to here, since types may contain themselves
}

func (s *survey) pair(p *pair, spokePath, hubPath string) {
	if slices.Contains(s.within, p) {
		s.rote = append(s.rote, Field{strings.TrimSuffix(spokePath, "."), "as above"})
		return
	}
	s.within = append(s.within, p)
	for _, m := range p.matches {
		spoke, hub := under(spokePath, m.spoke), under(hubPath, m.hub)
		s.renamed = s.renamed || m.spoke.json != m.hub.json
		s.noteEmpty(m, both(spoke, hub))
		if m.route.way == wayNone {
			s.differ(m.route, spoke, hub)
			continue
		}
		s.list(m, spoke, hub)
		s.route(m.route, spoke, hub)
	}
	for _, one := range p.onlySpoke {
		s.differing = append(s.differing, Field{under(spokePath, one), "only in " + s.spokeName})
	}
	for _, one := range p.onlyHub {
		s.differing = append(s.differing, Field{under(hubPath, one), "only in " + s.hubName})
	}
	s.within = s.within[:len(s.within)-1]
}

// differ notes a field whose types differ.
func (s *survey) differ(r *route, spoke, hub string) {
	s.differing = append(s.differing, Field{both(spoke, hub),
		fmt.Sprintf("%s in %s, %s in %s", short(r.spoke), s.spokeName, short(r.hub), s.hubName)})
}

// noteEmpty notes what becomes of a field without a value.
func (s *survey) noteEmpty(m match, path string) {
	how, isLost := "", false
	if m.route.way == wayNone || m.route.call != nil && m.route.call.byHand {
		how = pointerLoss(m, s.spokeName, s.hubName)
		isLost = how != ""
	} else {
		spoke, known := emptinessOf(m.spoke)
		hub, alsoKnown := emptinessOf(m.hub)
		if known && alsoKnown {
			how, isLost = emptyChanges(spoke, hub, s.spokeName, s.hubName)
		}
	}
	s.losesEmpty = s.losesEmpty || isLost
	if isLost && s.preserve {
		how += " without the annotation"
	}
	if how != "" {
		s.empty = append(s.empty, Field{path, how})
	}
}

// list notes which keys identify the elements of a list.
func (s *survey) list(m match, spoke, hub string) {
	if m.route.way != waySlice {
		return
	}
	if keys := s.keys(m.spoke.variable); keys != nil {
		s.spokeKeys[spoke] = keys
	}
	if keys := s.keys(m.hub.variable); keys != nil {
		s.hubKeys[hub] = keys
	}
}

func (s *survey) route(r *route, spoke, hub string) {
	switch r.way {
	case wayPointer:
		s.route(r.elem, spoke, hub)
	case waySlice:
		s.route(r.elem, spoke+"[]", hub+"[]")
	case wayMap:
		s.route(r.elem, spoke+".*", hub+".*")
	case wayCall:
		if r.call.byHand {
			s.differ(r, spoke, hub)
			r.call.uses = append(r.call.uses, both(spoke, hub))
			return
		}
		s.pair(r.call, spoke+".", hub+".")
	case wayCopy:
		s.rote = append(s.rote, Field{both(spoke, hub), "the same type"})
	case wayCast:
		s.rote = append(s.rote, Field{both(spoke, hub), "types of the same structure"})
	case wayNone:
	}
}

// under is the path of a field. An embedded struct has no name in JSON.
func under(path string, f field) string {
	if f.embedded {
		return strings.TrimSpace(strings.TrimSuffix(path, ".") + " (" + f.variable.Name() + ")")
	}
	return path + f.json
}

func both(spoke, hub string) string {
	if spoke == hub {
		return spoke
	}
	return spoke + " = " + hub
}

// short is how people write a type.
func short(t types.Type) string {
	return types.TypeString(t, func(pkg *types.Package) string {
		if project.Unvendored(pkg.Path()) == project.MetaPackage {
			return "metav1"
		}
		return pkg.Name()
	})
}
