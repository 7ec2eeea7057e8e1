// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
)

// Permissions returns the permissions that the user needs for the plan. They are checked before the first step:
// otherwise a missing permission for the last step would only show after every object was rewritten.
func (p Plan) Permissions(f Facts) []access.Permission {
	if p.finished() {
		return nil
	}
	d := f.CRD
	objects := schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	crds := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	var needed []access.Permission
	if p.has(Todo, Migrate) {
		for _, verb := range []string{"list", "get", "patch"} {
			needed = append(needed, access.Permission{Verb: verb, Resource: objects,
				Namespaced: d.Spec.Scope == "Namespaced"})
		}
		needed = append(needed, access.Permission{Verb: "get", Resource: crds})
	}
	if p.has(Todo, Restore, Prune) {
		needed = append(needed, access.Permission{Verb: "patch", Resource: crds, Subresource: "status"})
	}
	if p.has(Todo, Restore, Unserve, Remove) {
		needed = append(needed, access.Permission{Verb: "patch", Resource: crds})
	}
	if p.has(Todo, Pointing) { // they were found in lists, so list is allowed
		for _, in := range f.Dependents.Resources {
			needed = append(needed, in.At.permission("get"), in.At.permission("patch"))
			if isCustom(in.At.GroupResource()) && !p.has(Todo, Migrate) {
				needed = append(needed, access.Permission{Verb: "get", Resource: crds})
			}
		}
	}
	return needed
}

// has reports whether one of the steps is in a state.
func (p Plan) has(state State, names ...StepName) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.State == state && slices.Contains(names, s.Name) })
}
