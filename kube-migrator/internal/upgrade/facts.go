// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Question is what to find out about every resource.
type Question struct {
	// Program is the name under which the user runs the program, for commands to try.
	Program string
	Now     time.Time
	// MaxAge is how old the heartbeat of a StorageState may be. 0: as old as it can become while a controller renews it
	// every heartbeatPeriodSeconds.
	MaxAge time.Duration
	// AnyAge accepts a StorageState of any age.
	AnyAge bool
	// Installed means that the cluster serves StorageStates. If it does not, storedVersions and empty collections are
	// the only records.
	Installed bool
	// Target is what has to decode the stored objects; nil for the present API servers, which should store everything
	// in their current versions.
	Target *Target
	// Etcd means that Facts.Held was read.
	Etcd bool
	// Snapshot is the revision of etcd at which the snapshot was taken that Facts.Held comes from. 0: a running etcd,
	// which was read after all records.
	Snapshot int64
	// Applying means that the question is about CustomResourceDefinitions (JudgeCRD).
	Applying bool
}

func (q Question) targetName() string {
	if q.Target == nil {
		return ""
	}
	return q.Target.Name
}

// Facts are what is known about one resource.
type Facts struct {
	Resource schema.GroupResource
	Kind     string
	// NotStored means that the API server computes the resource, or only answers requests.
	NotStored bool
	// Aggregated means that another API server than kube-apiserver stores it.
	Aggregated bool
	// Decodable are the versions that all its API servers declare that they can decode. It is nil unless the resource
	// is aggregated and each of its servers has declared them.
	Decodable []schema.GroupVersion
	// CRD is set for custom resources.
	CRD *CRD
	// Unfit says why the resource cannot be migrated. It is empty if it can be.
	Unfit string
	// Gone means that a record exists, but the API server does not serve the resource.
	Gone bool
	// Current is the version that the API server shows it writes now, and its hash. Both are empty if the server does
	// not show it.
	Current     schema.GroupVersion
	CurrentHash string
	// State is the status of the StorageState, or nil if there is none.
	State *v1alpha1.StorageStateStatus
	// StateVersion is the resourceVersion of the StorageState, or empty if it says nothing about the order of the
	// StorageState and the snapshot.
	StateVersion string
	// Migrations are the StorageVersionMigrations of the resource, under any of its names. They say what is in
	// progress; only the StorageState says what a success has proven.
	Migrations []v1alpha1.StorageVersionMigration
	// MayLose are fields that objects of a custom resource may have and that a migration would drop, as the schemas of its
	// CRD show: it leaves such objects alone. They change no verdict.
	MayLose []string
	// Empty means that the API server counted no object.
	Empty bool
	// Unreadable is the API server's message if it cannot list the objects as they are stored; otherwise it is empty.
	Unreadable string
	// Held is what etcd holds, if Question.Etcd.
	Held []Held
}

// CRD is the part of a CustomResourceDefinition that concerns storage.
type CRD struct {
	Group, Kind string
	// UID and Generation are those of the object, or empty and 0 if it has none.
	UID        string
	Generation int64
	// ResourceVersion is that of the object, or empty if it says nothing about the order of the CRD and the snapshot.
	ResourceVersion string
	// Versions are all of spec.versions. StorageVersion is the one that is marked as such.
	Versions       []string
	StorageVersion string
	// StoredVersions are those of status.
	StoredVersions []string
	// ClaimedBy is crd.CRD.ClaimedBy.
	ClaimedBy string
}

// Held counts the objects that etcd holds in one version.
type Held struct {
	Version schema.GroupVersion
	Kind    string
	Objects int64
	// Opaque means encrypted or not understood: version and kind cannot be determined.
	Opaque bool
}

// stored is one version that may be stored.
type stored struct {
	hash string
	name string // for users
	// objects is how many objects have the version if etcd was read, else 0.
	objects int64
}

// hashes are the hashes of versions of a CRD.
func (d *CRD) hash(version string) string {
	return storageversion.Hash(schema.GroupVersionKind{Group: d.Group, Version: version, Kind: d.Kind})
}

// defines reports whether spec.versions contains a version with the hash.
func (d *CRD) defines(hash string) bool {
	return slices.ContainsFunc(d.Versions, func(v string) bool { return d.hash(v) == hash })
}

// current returns the version that the API server writes, for users.
func (f Facts) current() string {
	if f.Current.Empty() {
		return f.CurrentHash
	}
	return f.short(f.Current)
}

// short returns a version for users: without its group if that is the resource's own.
func (f Facts) short(gv schema.GroupVersion) string {
	if gv.Group == f.Resource.Group {
		return gv.Version
	}
	return gv.String()
}

// named returns the version with a hash, with a recorded name, or one that was found among the known candidates.
func (f Facts) named(hash, recorded string) stored {
	s := stored{hash: hash, name: recorded}
	if recorded != "" && recorded != hash {
		return s
	}
	s.name = hash
	candidates := []schema.GroupVersion{f.Current}
	if f.CRD != nil {
		for _, v := range f.CRD.Versions {
			candidates = append(candidates, schema.GroupVersion{Group: f.CRD.Group, Version: v})
		}
	}
	for _, table := range tables() {
		candidates = append(candidates, table.Decodable[f.Resource].Versions...)
	}
	candidates = append(candidates, f.Decodable...)
	for _, gv := range candidates {
		if !gv.Empty() && storageversion.Hash(gv.WithKind(f.Kind)) == hash {
			s.name = f.short(gv)
			return s
		}
	}
	return s
}

func names(all []stored) []string {
	list := make([]string, len(all))
	for i, s := range all {
		list[i] = s.name
	}
	return list
}

// add appends a version unless its hash is there already.
func add(all []stored, s stored) []stored {
	if slices.ContainsFunc(all, func(other stored) bool { return other.hash == s.hash }) {
		return all
	}
	return append(all, s)
}
