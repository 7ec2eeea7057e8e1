// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Destination is where a declaration goes.
type Destination string

// Destinations.
const (
	New    Destination = "new"    // the new version's package
	Stay   Destination = "stay"   // only in the old version's package
	Shared Destination = "shared" // the package that versions share
	Anchor Destination = "anchor" // each version has its own
)

// Placement is the decision about one declaration.
type Placement struct {
	*Declaration
	Destination Destination
	Reason      string
	// Guess: nothing in the code decides, so that a person should look.
	Guess bool
}

// Input is what Decide decides from.
type Input struct {
	Graph *Graph
	// Moving and Staying are the kinds.
	Moving, Staying []project.Kind
	// Users are the files outside the package, each with the declarations that it mentions.
	Users []map[*Declaration]bool
	// Assign overrides the decision, by name.
	Assign map[string]Destination
	// Idle is where an exported declaration goes that nothing decides about: Stay, also if empty, or Shared.
	Idle Destination
	// Separate: what is shared goes to a package that can import neither version.
	Separate bool
	// NamedAfter is for a kind that gets another name in the same package: it says whether a name is made of the old
	// one. New is then what is copied under another name, and everything else stays, for both kinds. Nil means another
	// package.
	NamedAfter func(name string) bool
}

// decision is one being made. Roots grow while declarations that no kind mentions are placed.
type decision struct {
	Input
	kinds                    map[*Declaration]Destination // the kinds and their lists
	assigned                 map[*Declaration]Destination // by the user
	moving, staying, sharing []*Declaration               // roots
	kept                     map[*Declaration]string      // what both sides use and the old version keeps, and why
	placed                   map[*Declaration]Placement
}

// Decide places every declaration, in the graph's order.
func (in Input) Decide() ([]Placement, error) {
	d := &decision{Input: in, kinds: map[*Declaration]Destination{}, assigned: map[*Declaration]Destination{},
		kept: map[*Declaration]string{}}
	d.moving = d.rootsOf(in.Moving, New)
	d.staying = d.rootsOf(in.Staying, Stay)
	for _, name := range slices.Sorted(maps.Keys(in.Assign)) {
		if err := d.assign(name, in.Assign[name]); err != nil {
			return nil, err
		}
	}
	d.helpersOfAnchors()
	d.reachAll()
	for d.keepBound() {
		d.reachAll()
	}
	for d.pullValues() {
		d.reachAll()
	}
	for next := d.nextUnreached(); next != nil; next = d.nextUnreached() {
		d.placeUnreached(next)
		d.reachAll()
	}
	if in.NamedAfter != nil {
		d.inPlace()
	}
	placements := make([]Placement, 0, len(in.Graph.Declarations))
	for _, declaration := range in.Graph.Declarations {
		placements = append(placements, d.placed[declaration])
	}
	return placements, nil
}

// helpersOfAnchors makes anchors of what only anchors use: a constant with the version's name, a function that
// registers kinds. The new version's would otherwise register the old one.
func (d *decision) helpersOfAnchors() {
	stop := map[*Declaration]bool{}
	for kind := range d.kinds {
		stop[kind] = true
	}
	var roots []*Declaration
	for _, declaration := range d.Graph.Declarations {
		if declaration.Anchor {
			roots = append(roots, declaration)
		}
	}
	used := d.Graph.reach(slices.Concat(d.moving, d.staying, d.sharing), stop)
	for helper := range d.Graph.reach(roots, stop) {
		helper.Anchor = helper.Anchor || !used[helper]
	}
}

func (d *decision) named(name string) *Declaration {
	for _, declaration := range d.Graph.Declarations {
		if slices.Contains(declaration.Names, name) {
			return declaration
		}
	}
	return nil
}

func (d *decision) rootsOf(kinds []project.Kind, to Destination) []*Declaration {
	var roots []*Declaration
	for _, kind := range kinds {
		for _, name := range []string{kind.Name, kind.List} {
			if declaration := d.named(name); declaration != nil {
				d.kinds[declaration] = to
				roots = append(roots, declaration)
			}
		}
	}
	return roots
}

func (d *decision) assign(name string, to Destination) error {
	declaration := d.named(name)
	switch {
	case declaration == nil:
		return fmt.Errorf("no declaration is named %s", name)
	case declaration.Anchor || d.kinds[declaration] != "":
		return fmt.Errorf("%s cannot be assigned: every version has its own", name)
	}
	d.assigned[declaration] = to
	switch to {
	case New:
		d.moving = append(d.moving, declaration)
	case Stay:
		d.staying = append(d.staying, declaration)
	case Shared:
		d.sharing = append(d.sharing, declaration)
	case Anchor:
	}
	return nil
}

// reachAll places what the roots reach.
func (d *decision) reachAll() {
	stop := map[*Declaration]bool{}
	for kind := range d.kinds {
		stop[kind] = true
	}
	for declaration := range d.kept {
		stop[declaration] = true
	}
	moving, staying, sharing := d.Graph.reach(d.moving, stop), d.Graph.reach(d.staying, stop),
		d.Graph.reach(d.sharing, stop)
	before := d.placed
	d.placed = map[*Declaration]Placement{}
	for _, declaration := range d.Graph.Declarations {
		var to Destination
		var reason string
		switch {
		case declaration.Anchor:
			to, reason = Anchor, "every version registers itself"
		case d.kinds[declaration] == New:
			to, reason = New, "the kind that moves"
		case d.kinds[declaration] == Stay:
			to, reason = Stay, "a kind that stays"
		case d.assigned[declaration] != "":
			to, reason = d.assigned[declaration], "assigned by the user"
		case d.kept[declaration] != "":
			to, reason = Stay, d.kept[declaration]
		case sharing[declaration], moving[declaration] && staying[declaration]:
			to, reason = Shared, "kinds that move and kinds that stay use it"
		case moving[declaration]:
			to, reason = New, "only kinds that move use it"
		case staying[declaration]:
			to, reason = Stay, "only kinds that stay use it"
		default:
			continue
		}
		if old, ok := before[declaration]; ok && old.Destination == to {
			d.placed[declaration] = old // the first reason is the real one
			continue
		}
		d.placed[declaration] = Placement{Declaration: declaration, Destination: to, Reason: reason}
	}
}

// pullValues shares constants and variables that stand in a file of shared types and functions, although only one
// side happens to use them today: the values of a type belong together. It reports whether something changed.
func (d *decision) pullValues() bool {
	for _, declaration := range d.Graph.Declarations {
		at := d.placed[declaration].Destination
		if !declaration.isValue() || declaration.Anchor || at == Shared || d.assigned[declaration] != "" {
			continue
		}
		if d.sharable(declaration) && d.neighbours(declaration, "type", "func") == Shared {
			d.place(declaration, Shared, "it stands in "+base(declaration)+" with types that are shared")
			return true
		}
	}
	return false
}

// sharable reports whether all that a declaration mentions is shared, or would be.
func (d *decision) sharable(declaration *Declaration) bool {
	for other := range declaration.refs {
		if other.Anchor || d.kinds[other] != "" || d.placed[other].Destination != Shared {
			return false
		}
	}
	return true
}

// neighbours is where all other placed declarations of the file go, or nothing if they disagree.
func (d *decision) neighbours(declaration *Declaration, what ...string) Destination {
	var common Destination
	for _, other := range d.Graph.Declarations {
		at := d.placed[other].Destination
		if other == declaration || other.File() != declaration.File() || at == "" || at == Anchor ||
			!slices.Contains(what, other.What) {
			continue
		}
		if common != "" && common != at {
			return ""
		}
		common = at
	}
	return common
}

func (d *decision) place(declaration *Declaration, to Destination, reason string) {
	switch to {
	case New:
		d.moving = append(d.moving, declaration)
	case Shared:
		d.sharing = append(d.sharing, declaration)
	case Stay, Anchor:
		d.staying = append(d.staying, declaration)
	}
	d.placed[declaration] = Placement{Declaration: declaration, Destination: to, Reason: reason}
}

// nextUnreached is a declaration without a place: preferably one that no other of them mentions, and a constant or
// variable only after all types and functions, whose neighbour it may be.
func (d *decision) nextUnreached() *Declaration {
	mentioned := map[*Declaration]bool{}
	var open []*Declaration
	for _, declaration := range d.Graph.Declarations {
		if _, ok := d.placed[declaration]; !ok {
			open = append(open, declaration)
			for other := range declaration.refs {
				mentioned[other] = true
			}
		}
	}
	for _, values := range []bool{false, true} {
		for _, declaration := range open {
			if !mentioned[declaration] && values == declaration.isValue() {
				return declaration
			}
		}
	}
	if len(open) > 0 {
		return open[0]
	}
	return nil
}

// placeUnreached decides about a declaration that no kind mentions: by what it mentions, then by its name, its
// neighbours, and its users elsewhere in the project.
func (d *decision) placeUnreached(declaration *Declaration) {
	touched := d.touched(declaration)
	value := declaration.isValue()
	switch byName, near, used := d.byName(declaration), d.neighbours(declaration, "type", "func", "const",
		"var"), d.byUse(declaration); {
	case touched[New] != nil && touched[Stay] != nil:
		d.placeGuess(declaration, Stay, fmt.Sprintf("it uses %s, which moves, and %s, which stays",
			touched[New].Name, touched[Stay].Name))
	case touched[New] != nil:
		d.place(declaration, New, "it uses "+touched[New].Name+", which only kinds that move use")
	case touched[Stay] != nil:
		d.place(declaration, Stay, "it uses "+touched[Stay].Name+", which stays")
	case touched[Shared] != nil:
		d.place(declaration, Shared, "it uses "+touched[Shared].Name+", which is shared")
	case byName != "":
		d.place(declaration, byName, "it is named after a kind")
	case value && near != "":
		d.place(declaration, near, "the other declarations in "+base(declaration)+" go there")
	case used != "":
		d.place(declaration, used, "by its users elsewhere in the project")
	case near != "":
		d.place(declaration, near, "the other declarations in "+base(declaration)+" go there")
	case declaration.Name == "_":
		d.place(declaration, Stay, "it has no name, and uses nothing of the package")
	default:
		to, reason := Stay, "nothing uses it"
		if ast.IsExported(declaration.Name) {
			to = cmp.Or(d.Idle, Stay)
		}
		if slices.ContainsFunc(d.Users, func(user map[*Declaration]bool) bool { return user[declaration] }) {
			reason = "the files that use it use code that moves and code that stays, or neither"
		}
		d.placeGuess(declaration, to, reason)
	}
}

// touched is the first declaration of each destination that a declaration mentions, itself or by others without a place.
// What those with a place mention says nothing more: a kind that moves may well have a method about one that stays.
func (d *decision) touched(declaration *Declaration) map[Destination]*Declaration {
	placed := map[*Declaration]bool{}
	for other := range d.placed {
		placed[other] = true
	}
	mentioned := map[*Declaration]bool{}
	for open := range d.Graph.reach([]*Declaration{declaration}, placed) {
		for other := range open.refs {
			mentioned[other] = placed[other]
		}
	}
	touched := map[Destination]*Declaration{}
	for _, other := range d.Graph.Declarations { // positions say nothing, as files are parsed side by side
		if at := d.placed[other].Destination; mentioned[other] && touched[at] == nil {
			touched[at] = other
		}
	}
	return touched
}

func (d *decision) placeGuess(declaration *Declaration, to Destination, reason string) {
	d.place(declaration, to, reason)
	placement := d.placed[declaration]
	placement.Guess = true
	d.placed[declaration] = placement
}

// byName looks for the longest name of a kind within the declaration's name.
func (d *decision) byName(declaration *Declaration) Destination {
	var longest string
	var to Destination
	for kind, at := range d.kinds {
		switch {
		case len(kind.Name) < len(longest) || !strings.Contains(strings.ToLower(declaration.Name),
			strings.ToLower(kind.Name)):
		case len(kind.Name) > len(longest):
			longest, to = kind.Name, at
		case at != to: // two kinds, neither longer: the name says nothing
			to = ""
		}
	}
	return to
}

// byUse looks at the files outside the package that use the declaration: which side else do they use?
func (d *decision) byUse(declaration *Declaration) Destination {
	moving, staying := false, false
	for _, user := range d.Users {
		if !user[declaration] {
			continue
		}
		for other := range user {
			moving = moving || d.placed[other].Destination == New
			staying = staying || d.placed[other].Destination == Stay
		}
	}
	switch {
	case moving && staying:
		return "" // it says nothing, and staying breaks no one
	case moving:
		return New
	case staying:
		return Stay
	default:
		return ""
	}
}

func base(declaration *Declaration) string {
	path := declaration.File().Path
	return path[strings.LastIndexByte(path, '/')+1:]
}
