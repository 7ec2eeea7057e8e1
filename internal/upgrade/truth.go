// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// held converts what etcd holds to versions that may be stored.
func (f Facts) held(h Held) stored {
	gvk := h.Version.WithKind(f.Kind)
	if h.Kind != "" {
		gvk.Kind = h.Kind
	}
	return stored{hash: storageversion.Hash(gvk), name: f.short(h.Version), objects: h.Objects}
}

// Understated names the records of one resource that contain fewer versions than etcd holds (I1). Encrypted values are
// not compared, because their version is unknown.
func (q Question) Understated(f Facts) (all []Understatement) {
	name := f.Resource.String()
	if s := f.State; s != nil && !slices.Contains(s.PersistedStorageVersionHashes, v1alpha1.Unknown) {
		claims := []string{}
		for i, hash := range s.PersistedStorageVersionHashes {
			recorded := ""
			if len(s.PersistedVersions) == len(s.PersistedStorageVersionHashes) {
				recorded = s.PersistedVersions[i]
			}
			claims = append(claims, f.named(hash, recorded).name)
		}
		record := "storagestates.migration.k8s.io/" + name
		all = f.compare(all, record, claims, "kubectl delete "+record, func(s stored) bool {
			return slices.Contains(f.State.PersistedStorageVersionHashes, s.hash)
		})
	}
	if d := f.CRD; d != nil {
		record := "customresourcedefinitions.apiextensions.k8s.io/" + name
		claims := append([]string{}, d.StoredVersions...)
		all = f.compare(all, record, claims, q.Program+" migrate "+name, func(s stored) bool {
			return slices.ContainsFunc(d.StoredVersions, func(v string) bool { return d.hash(v) == s.hash })
		})
	}
	return all
}

// compare adds an understatement if etcd holds a version that the record does not contain.
func (f Facts) compare(all []Understatement, record string, claims []string, next string, claimed func(stored) bool) []Understatement {
	u := Understatement{Record: record, Claims: claims, Next: next}
	for _, h := range f.Held {
		if h.Opaque {
			continue
		}
		if s := f.held(h); !claimed(s) {
			u.Missing, u.Objects = append(u.Missing, s.name), u.Objects+s.objects
		}
	}
	if len(u.Missing) == 0 {
		return all
	}
	return append(all, u)
}

// stray judges objects in etcd whose resource is otherwise unknown.
func (q Question) stray(f Facts, finding Finding) Finding {
	finding.Source = ByEtcd
	for _, h := range f.Held {
		if !h.Opaque {
			finding.Stored = append(finding.Stored, f.short(h.Version))
		}
	}
	return finding.is(Undetermined, "etcd holds objects of it, and the API server does not have the resource", "")
}
