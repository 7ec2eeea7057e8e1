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

// Question is what is asked about every resource.
type Question struct {
	// Program is what the user calls us, for commands to try.
	Program string
	Now     time.Time
	// MaxAge is how old the heartbeat of a StorageState may be. 0: as old as it can become while a controller renews it
	// every heartbeatPeriodSeconds.
	MaxAge time.Duration
	// AnyAge believes a StorageState however old it is.
	AnyAge bool
	// Installed: the cluster serves StorageStates. Where it does not, storedVersions and empty collections say what can
	// be said.
	Installed bool
	// Target is who is to decode what is stored; nil for the API servers of now, whose present versions are wanted.
	Target *Target
	// Etcd: Facts.Held was read.
	Etcd bool
	// Applying: CustomResourceDefinitions are asked about (JudgeCRD).
	Applying bool
}

func (q Question) targetName() string {
	if q.Target == nil {
		return ""
	}
	return q.Target.Name
}

// Facts are what is known of one resource.
type Facts struct {
	Resource schema.GroupResource
	Kind     string
	// NotStored: the API server computes the resource, or only answers to it.
	NotStored bool
	// Aggregated: another API server than kube-apiserver stores it.
	Aggregated bool
	// Decodable are the versions that all its API servers declare that they can decode. It is nil unless the resource
	// is aggregated and each of its servers has declared them.
	Decodable []schema.GroupVersion
	// CRD is set for custom resources.
	CRD *CRD
	// Unfit says why the resource cannot be migrated; empty where it can.
	Unfit string
	// Gone: a record exists, but the API server does not serve the resource.
	Gone bool
	// Current is the version that the API server shows it writes now, and its hash; both empty where it does not tell.
	Current     schema.GroupVersion
	CurrentHash string
	// State is the StorageState's status; nil where there is none.
	State *v1alpha1.StorageStateStatus
	// Migrations are the StorageVersionMigrations of the resource, under any of its names. They say what is being done;
	// only the StorageState says what a success has proven.
	Migrations []v1alpha1.StorageVersionMigration
	// Empty: the API server counted no object.
	Empty bool
	// Held is what etcd holds, where Question.Etcd.
	Held []Held
}

// CRD is what a CustomResourceDefinition says about storage.
type CRD struct {
	Group, Kind string
	// UID and Generation are those of the object; empty and 0 where it has none.
	UID        string
	Generation int64
	// Versions are all of spec.versions; StorageVersion is the one that it marks.
	Versions       []string
	StorageVersion string
	// StoredVersions are those of status.
	StoredVersions []string
}

// Held counts the objects that etcd holds in one version.
type Held struct {
	Version schema.GroupVersion
	Kind    string
	Objects int64
	// Opaque: encrypted or not understood; version and kind cannot be told.
	Opaque bool
}

// stored is one version that may be stored.
type stored struct {
	hash string
	name string // for people
	// objects is how many, where etcd was read; else 0.
	objects int64
}

// hashes are the hashes of versions of a CRD.
func (d *CRD) hash(version string) string {
	return storageversion.Hash(schema.GroupVersionKind{Group: d.Group, Version: version, Kind: d.Kind})
}

// defines reports whether spec.versions has a version of the hash.
func (d *CRD) defines(hash string) bool {
	return slices.ContainsFunc(d.Versions, func(v string) bool { return d.hash(v) == hash })
}

// current is the version that the API server writes, for people.
func (f Facts) current() string {
	if f.Current.Empty() {
		return f.CurrentHash
	}
	return f.short(f.Current)
}

// short is a version for people: without its group where that is the resource's own.
func (f Facts) short(gv schema.GroupVersion) string {
	if gv.Group == f.Resource.Group {
		return gv.Version
	}
	return gv.String()
}

// named returns a version by its hash, with the name that someone recorded, or one found among the known candidates.
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
