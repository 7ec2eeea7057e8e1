// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Target is what has to decode the stored objects.
type Target struct {
	// Name is the name for users: "Kubernetes 1.36".
	Name string
	// Table says what the target can decode of the built-in resources.
	Table Table
	// The CRDs of the target if it is another cluster; nil if it keeps those of this cluster.
	CRDs map[schema.GroupResource]CRD
	// Aggregated are the versions that aggregated API servers of the target declare they can decode, by resource. The
	// API servers of all other resources count as unchanged.
	Aggregated map[schema.GroupResource][]schema.GroupVersion
}

// crd returns the target's CRD of a custom resource, or nil.
func (t *Target) crd(f Facts) *CRD {
	if t.CRDs == nil {
		return f.CRD
	}
	if d, ok := t.CRDs[f.Resource]; ok {
		return &d
	}
	return nil
}

// decodes reports whether the target can decode a version of a resource.
func (t *Target) decodes(f Facts, hash string) bool {
	if f.CRD != nil {
		d := t.crd(f)
		return d != nil && d.defines(hash)
	}
	known := t.Table.Decodable[f.Resource]
	return slices.ContainsFunc(known.Versions,
		func(gv schema.GroupVersion) bool { return storageversion.Hash(gv.WithKind(known.Kind)) == hash })
}

// cannot returns the end of a sentence about versions that the target cannot decode.
func (t *Target) cannot(f Facts) string {
	switch _, known := t.Table.Decodable[f.Resource]; {
	case f.CRD != nil && t.crd(f) == nil:
		return "and " + t.Name + " has no CustomResourceDefinition of it"
	case f.CRD != nil && t.CRDs == nil:
		return "which its CustomResourceDefinition does not have"
	case f.CRD != nil:
		return "which its CustomResourceDefinition at " + t.Name + " does not have"
	case !known:
		return "and " + t.Name + " does not have the resource"
	}
	return "which " + t.Name + " cannot decode"
}
