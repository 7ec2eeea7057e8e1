// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
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

// byEtcd relies on what etcd holds for everything in the past. For what is being written now it relies on the
// StorageState, as long as that is fresh. A snapshot speaks up to its revision: what has been recorded later counts in
// addition (I1).
func (q Question) byEtcd(f Facts) basis {
	b := basis{source: ByEtcd}
	for _, h := range f.Held {
		b.stored = add(b.stored, f.held(h))
	}
	switch {
	case f.State != nil && q.follows(f.StateVersion):
		state := q.byState(f)
		b = b.and(state, "its StorageState")
		if b.disagree, b.unknown, b.unsure = state.disagree, state.unknown, state.unsure; b.unknown != "" {
			b.unknown += "; the snapshot may be older than that"
		}
	case f.State != nil && q.outdated(f) == "":
		b.stored = f.withServers(b.stored)
		b.disagree, b.unknown = f.disagreement()
	}
	// A StorageState outweighs storedVersions, except for a new CRD, as without a snapshot.
	if f.CRD != nil && q.follows(f.CRD.ResourceVersion) && (b.later == "" || q.Applying) {
		b = b.and(f.byStoredVersions(), "status.storedVersions")
	}
	b.stored = f.withCurrent(b.stored)
	return b
}

// follows reports whether a record may be newer than the snapshot: the revisions of etcd are the resourceVersions of
// its objects.
func (q Question) follows(resourceVersion string) bool {
	if q.Snapshot == 0 {
		return false
	}
	version, err := strconv.ParseInt(resourceVersion, 10, 64)
	return err != nil || version > q.Snapshot
}

// and adds the versions of a record.
func (b basis) and(record basis, name string) basis {
	for _, s := range record.stored {
		b.stored = add(b.stored, s)
	}
	if b.later != "" {
		name = b.later + " or " + name
	}
	b.later = name
	return b
}

// inEtcd says why versions count that etcd holds, or that were added to them.
func (b basis) inEtcd(bad []stored) string {
	what := strings.Join(names(bad), ", ")
	switch n := objects(bad); {
	case n > 0:
		return fmt.Sprintf("etcd holds %s as %s", phrase.Objects(n), what)
	case b.later != "":
		return b.later + ", which may be newer than the snapshot, says that objects may be stored as " + what
	}
	return what + " is written now"
}

// Understated names the records of one resource that contain fewer versions than etcd holds (I1). Encrypted values are
// not compared, because their version is unknown; nor are records that may be newer than the snapshot: they say what was
// stored later.
func (q Question) Understated(f Facts) (all []Understatement) {
	name := f.Resource.String()
	if s := f.State; s != nil && !q.follows(f.StateVersion) &&
		!slices.Contains(s.PersistedStorageVersionHashes, v1alpha1.Unknown) {
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
	if d := f.CRD; d != nil && !q.follows(d.ResourceVersion) {
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
