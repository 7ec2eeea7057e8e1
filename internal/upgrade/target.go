// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Target is who is to decode what is stored.
type Target struct {
	// Name is for people: "Kubernetes 1.36".
	Name string
	// Table says what it can decode of the resources that are built in.
	Table Table
	// The CRDs of the target, where it is another cluster; nil where it keeps those of this one.
	CRDs map[schema.GroupResource]CRD
	// Aggregated are the versions that aggregated API servers there declare that they can decode, by resource. A
	// resource that is not among them is taken for one whose API servers stay as they are.
	Aggregated map[schema.GroupResource][]schema.GroupVersion
}

// crd is the target's CRD of a custom resource; nil where it has none.
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

// cannot ends the sentence that begins with versions which the target cannot decode.
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
