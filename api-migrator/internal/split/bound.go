// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package split

import "go/ast"

// keepBound leaves an exported declaration in the old version if kinds on both sides use it and it needs what stays,
// such as a type with a method about a kind that stays. A shared package could not import the old version, but the new
// version can. It reports whether it found one; what only the new version needed because of it is not shared then.
func (d *decision) keepBound() bool {
	if !d.Separate {
		return false
	}
	for _, declaration := range d.Graph.Declarations {
		if d.placed[declaration].Destination != Shared || d.assigned[declaration] != "" || !ast.IsExported(declaration.Name) {
			continue
		}
		if needed := d.needsOld(declaration); needed != nil {
			d.kept[declaration] = "kinds that move and kinds that stay use it, and it uses " + needed.Name + ", which stays"
			d.staying = append(d.staying, declaration)
			return true
		}
	}
	return false
}

// needsOld is the first declaration of the old version that a declaration mentions. It is nil if there is none, and if
// the declaration mentions a kind that moves as well.
func (d *decision) needsOld(declaration *Declaration) *Declaration {
	var found *Declaration
	for _, other := range d.Graph.Declarations {
		switch {
		case !declaration.refs[other] || other.Anchor:
		case d.kinds[other] == New:
			return nil
		case found == nil && d.placed[other].Destination == Stay:
			found = other
		}
	}
	return found
}
