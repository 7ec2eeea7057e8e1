// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package split

import "slices"

// inPlace decides what a kind with another name in the same package needs of its own: what is named after the old kind,
// and what mentions that. Everything else is there for both.
func (d *decision) inPlace() {
	copied := map[*Declaration]bool{}
	for changed := true; changed; {
		changed = false
		for _, declaration := range d.Graph.Declarations {
			placement := d.placed[declaration]
			if placement.Destination != New || copied[declaration] {
				continue
			}
			if placement.Reason = d.whyCopied(declaration, copied); placement.Reason != "" {
				copied[declaration], changed = true, true
				d.placed[declaration] = placement
			}
		}
	}
	for _, declaration := range d.Graph.Declarations {
		placement := d.placed[declaration]
		switch {
		case copied[declaration] || placement.Destination == Stay:
			continue
		case placement.Destination == Anchor:
			placement.Reason = "the package has it already"
		default:
			placement.Reason = "the old and the new kind use it"
		}
		placement.Destination = Stay
		d.placed[declaration] = placement
	}
}

// whyCopied is empty for what both kinds can use.
func (d *decision) whyCopied(declaration *Declaration, copied map[*Declaration]bool) string {
	if d.kinds[declaration] == New {
		return "the kind that gets another name"
	}
	if d.assigned[declaration] == New {
		return "assigned by the user"
	}
	if slices.ContainsFunc(declaration.Names, d.NamedAfter) {
		return "only the kind uses it, after which it is named"
	}
	for _, other := range d.Graph.Declarations {
		if copied[other] && declaration.refs[other] {
			return "it uses " + other.Name + ", which gets another name"
		}
	}
	return ""
}
