// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/types"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Crossings are the functions and methods that stay in the old version and have kinds that move in their parameters or
// results. They go on with the old version's types, so that code which uses the new ones cannot call them.
func (l *Layout) Crossings() (crossings []*types.Func) {
	c := &clients{decision: &decision{Layout: l}, known: map[*types.Named]bool{}}
	pkg := l.Old.Package.Types
	add := func(object types.Object) {
		if function, ok := object.(*types.Func); ok && object.Pkg() == pkg && c.mentions(object.Type()) &&
			!slices.Contains(crossings, function) {
			crossings = append(crossings, function)
		}
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if d := l.Graph.Owner(object); d == nil || l.DestinationOf(d) != split.Stay {
			continue
		}
		add(object)
		if _, isType := object.(*types.TypeName); isType {
			for method := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
				add(method.Obj())
			}
		}
	}
	return crossings
}
