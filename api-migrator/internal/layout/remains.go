// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Remains is what the old version's package has of a declaration afterwards.
type Remains string

// What can remain, from all to nothing.
const (
	RemainsWhole   Remains = "whole"   // its code
	RemainsWrapped Remains = "wrapped" // a kind's code, whose fields are of the new version's types
	RemainsDefined Remains = "defined" // a kind: a type defined as the new version's, and its methods
	RemainsNamed   Remains = "named"   // its names: aliases, constants, functions that call the other package's
	RemainsNothing Remains = "nothing"
)

// RemainsOf decides what the old version has of a declaration.
//
// A kind must never be an alias of the new version's: a scheme would have two GroupVersionKinds for one Go type, and
// clients could not tell which is meant.
func (l *Layout) RemainsOf(d *split.Declaration) Remains {
	if _, ok := l.former[d]; ok || l.onlyImporters {
		return RemainsWhole
	}
	switch l.DestinationOf(d) {
	case split.Shared:
		switch {
		case l.HomeOf(d, OldPackage) == OldPackage:
			return RemainsWhole
		case l.Request.Old == request.OldRemove || !ast.IsExported(d.Name):
			return RemainsNothing
		}
		return RemainsNamed
	case split.New:
		return l.remainsOfMoved(d)
	case split.Stay, split.Anchor:
	}
	return RemainsWhole
}

func (l *Layout) remainsOfMoved(d *split.Declaration) Remains {
	switch {
	case l.Request.Old == request.OldKeep || l.kept[d]:
		return RemainsWhole
	case l.Request.Old == request.OldRemove:
		return RemainsNothing
	case d.Name == "_": // an assertion, which each version makes
		return RemainsWhole
	case l.isKind(d) && l.Request.Old == request.OldAlias:
		return RemainsDefined
	case l.isKind(d) || l.isList(d):
		return RemainsWrapped
	case !slices.ContainsFunc(d.Names, ast.IsExported):
		return RemainsNothing
	case !l.bound[d]:
		return RemainsNamed
	}
	return RemainsWhole
}

func (l *Layout) isKind(d *split.Declaration) bool {
	return d.What == "type" && slices.Contains(l.Request.Kinds, d.Name)
}

func (l *Layout) isList(d *split.Declaration) bool {
	return d.What == "type" && slices.ContainsFunc(l.Old.Kinds, func(k project.Kind) bool {
		return k.List == d.Name && slices.Contains(l.Request.Kinds, k.Name)
	})
}

// Remaining are the pieces of a declaration's code that stay in the old version.
func (l *Layout) Remaining(d *split.Declaration) []split.Part {
	switch l.RemainsOf(d) {
	case RemainsWhole, RemainsWrapped:
		return d.Parts
	case RemainsDefined:
		return d.Parts[1:]
	case RemainsNamed, RemainsNothing:
	}
	return nil
}

// Leaves reports whether a piece of code registers kinds that the old version does not have any more, and nothing else.
func (l *Layout) Leaves(file *project.File, node ast.Node) bool {
	gone, others := false, false
	l.EachUse(file, []ast.Node{node}, func(_ *ast.Ident, d *split.Declaration) {
		switch at := l.DestinationOf(d); {
		case at == split.New && l.RemainsOf(d) == RemainsNothing:
			gone = true
		case at != split.Anchor:
			others = true
		}
	})
	return gone && !others
}
