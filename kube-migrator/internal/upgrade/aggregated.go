// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// A release of Kubernetes does not determine what an aggregated API server can decode: the author of that server does.
// So for an aggregated resource the target is what its API servers declare: those of the target or, if none declare
// anything there, those of this cluster, which the upgrade does not change. If no server declares anything, only the
// version that the servers write is certain to be decodable.

// declared returns the versions that the API servers of an aggregated resource declare they can decode, which count if
// there is a target; nil if they declare nothing, and for other resources. at says where they declare it, for users;
// it is empty for this cluster.
func (q Question) declared(f Facts) (versions []schema.GroupVersion, at string) {
	if q.Target == nil || !f.Aggregated {
		return nil, ""
	}
	if versions, ok := q.Target.Aggregated[f.Resource]; ok {
		return append([]schema.GroupVersion{}, versions...), " at " + q.Target.Name
	}
	return f.Decodable, ""
}

// decodes reports whether a stored version is among the declared ones.
func (f Facts) decodes(declared []schema.GroupVersion, s stored) bool {
	return slices.ContainsFunc(declared,
		func(gv schema.GroupVersion) bool { return storageversion.Hash(gv.WithKind(f.Kind)) == s.hash })
}

// unnamed says that a stored version cannot be compared with the declared ones, because only its hash is known, and the
// author of its server may compute hashes differently from Kubernetes. It returns "" if all can be compared.
func (q Question) unnamed(f Facts, all []stored) string {
	declared, at := q.declared(f)
	for _, s := range all {
		if declared != nil && s.hash != v1alpha1.Unknown && s.name == s.hash && !f.decodes(declared, s) {
			return "its API servers" + at + " declare versions, and the hash " + s.hash + " is that of none that is known"
		}
	}
	return ""
}
