// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// A release of Kubernetes says nothing about an aggregated resource: the author of its API server decides what that can
// decode. So the target of such a resource is what its API servers declare, at the target or, where none declare
// anything there, in this cluster: they stay as they are. Where none declare anything at all, only the version that they
// write is sure to be decodable.

// declared are the versions that the API servers of an aggregated resource declare that they can decode, which is what
// counts where there is a target; nil where they declare nothing, and for other resources. at says where, for people:
// empty for this cluster.
func (q Question) declared(f Facts) (versions []schema.GroupVersion, at string) {
	if q.Target == nil || !f.Aggregated {
		return nil, ""
	}
	if versions, ok := q.Target.Aggregated[f.Resource]; ok {
		return append([]schema.GroupVersion{}, versions...), " at " + q.Target.Name
	}
	return f.Decodable, ""
}

// decodes reports whether a stored version is among those that are declared.
func (f Facts) decodes(declared []schema.GroupVersion, s stored) bool {
	return slices.ContainsFunc(declared,
		func(gv schema.GroupVersion) bool { return storageversion.Hash(gv.WithKind(f.Kind)) == s.hash })
}

// unnamed says that a stored version cannot be compared with what is declared, because only its hash is known, and its
// author need not make that as Kubernetes does; empty: all can be compared.
func (q Question) unnamed(f Facts, all []stored) string {
	declared, at := q.declared(f)
	for _, s := range all {
		if declared != nil && s.hash != v1alpha1.Unknown && s.name == s.hash && !f.decodes(declared, s) {
			return "its API servers" + at + " declare versions, and the hash " + s.hash + " is that of none that is known"
		}
	}
	return ""
}
