// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory knows which resources a cluster has, built-in, custom and aggregated: in which versions they are
// served, in which version they are stored, and whether they can be migrated.
//
// It owns the reading of discovery, the interpretation of the names that users type, and the order in which resources
// are worth migrating. It never writes. It reads no objects, except the metadata of one to count the others.
//
// Invariants:
//   - Resources that share storage are listed as one, no matter how many groups serve them.
//   - A resource without a Problem has an endpoint that can be listed and patched, and a storage version hash.
//   - Every part that could not be read is in Failures: an inventory never looks more complete than it is.
package inventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Inventory contains the resources of a cluster, as one look at its discovery shows them. It does not change after Take
// and may be read concurrently.
type Inventory struct {
	// Resources are in the order of discovery: the core group first, then the groups in the API server's order of
	// preference, then CRDs that discovery does not show.
	Resources []Resource
	// Failures are the parts that could not be read.
	Failures []Failure

	// names are all names of all resources, including those that share storage, in the order of discovery.
	names []name
}

// name is one group and plural that leads to a resource.
type name struct {
	schema.GroupResource
	resource int // index in Resources
}

// Resource is a set of objects that are stored once. Any of its endpoints lists all of them.
type Resource struct {
	// GroupResource is the name. If several groups serve the resource, it has the group in which it is stored.
	schema.GroupResource
	Kind       string
	Singular   string
	ShortNames []string
	Namespaced bool
	// Origin is empty if the CustomResourceDefinitions could not be read: the resource is built-in or custom then.
	Origin migrate.Origin
	// Service is the namespace/name of the Service behind an aggregated resource.
	Service string
	// Versions are the served versions of the resource's own group, preferred first.
	Versions []Version
	// Aliases are the endpoints of other groups that serve the same stored objects.
	Aliases []schema.GroupVersionResource
	// StorageVersionHash is the hash that discovery shows. If it shows none, the hash is computed from the storage
	// version that a CRD or a StorageVersion declares.
	StorageVersionHash string
	// StorageVersion is the group and version that the hash stands for, or zero if no candidate has this hash.
	StorageVersion schema.GroupVersion
	// CRD is set for custom resources.
	CRD *CRD
	// Endpoint is the version to list and patch: the storage version of a custom resource if it is served, else the
	// version that the user asked for, else the storage version if it is served, else the preferred version that allows
	// both. It is empty if there is none.
	Endpoint string
	// Problem says why the resource cannot be migrated. It is nil if it can be.
	Problem *Problem
}

// Version is one served version of a resource.
type Version = discovery.Version

// CRD is the part of a CustomResourceDefinition that concerns storage.
type CRD struct {
	Name       string
	UID        types.UID
	Generation int64
	// ResourceVersion is that of the object when it was read.
	ResourceVersion string
	// StorageVersion is the version that spec marks as the storage version.
	StorageVersion string
	// StoredVersions are the versions in status.storedVersions.
	StoredVersions []string
	// ClaimedBy is crd.CRD.ClaimedBy.
	ClaimedBy string
	// Versions are all versions in spec, served or not.
	Versions []string
	// Conversion is the strategy: None or Webhook.
	Conversion string
}

// ProblemReason is the reason why a resource cannot be migrated. The set is closed.
type ProblemReason string

// The reasons.
const (
	// NotPersisted means that there is nothing to migrate: the API server computes the objects, or only answers
	// requests.
	NotPersisted ProblemReason = "NotPersisted"
	// NoStorageVersionHash means that objects can be written, but the API server does not show in which version it
	// stores them.
	NoStorageVersionHash ProblemReason = "NoStorageVersionHash"
	// NotListable means that no served version has the verb list.
	NotListable ProblemReason = "NotListable"
	// NotPatchable means that no served version with the verb list has the verb patch.
	NotPatchable ProblemReason = "NotPatchable"
	// NotEstablished means that the CRD is not accepted, or is being deleted.
	NotEstablished ProblemReason = "NotEstablished"
	// NotServed means that the CRD serves no version.
	NotServed ProblemReason = "NotServed"
	// NotDiscovered means that the CRD is established and serves a version, but discovery does not show it.
	NotDiscovered ProblemReason = "NotDiscovered"
)

// Problem says why a resource cannot be migrated.
type Problem struct {
	Reason  ProblemReason
	Message string
}

// Failure is a part of the inventory that could not be read.
type Failure struct {
	// What names the part: a group and version, "CustomResourceDefinitions" or "APIServices".
	What string
	// Group is the group whose resources may be missing. It is empty if the failure concerns no group or all groups.
	Group string
	// APIService and Service (namespace/name) identify the aggregated API server, if it is one.
	APIService, Service string
	// Reason is the message of the API server.
	Reason string
	// Unusable means that the server answered, but the answer exceeds the limits or cannot be true.
	Unusable bool
}

// HidesResources reports whether resources may be missing in the inventory, and not only facts about them.
func (f Failure) HidesResources() bool { return f.What != services && f.What != crdsOf }

// String describes the failure on one line.
func (f Failure) String() string {
	if f.Service != "" && f.Unusable {
		return f.What + " is served by the service " + f.Service + ", whose answer cannot be used: " + f.Reason
	}
	if f.Service != "" {
		return f.What + " is served by the service " + f.Service + ", which does not answer: " + f.Reason
	}
	return f.What + " could not be read: " + f.Reason
}

// Listed returns a version at which the objects can be listed: Endpoint, else the first version with the verb list. It is
// empty if there is none, or if nothing is stored.
func (r Resource) Listed() string {
	if r.Endpoint != "" || r.Problem != nil && r.Problem.Reason == NotPersisted {
		return r.Endpoint
	}
	for _, v := range r.Versions {
		if slices.Contains(v.Verbs, "list") {
			return v.Name
		}
	}
	return ""
}

// Target returns the resource as something to rewrite. It is meaningful only if Problem is nil.
func (r Resource) Target() migrate.Target {
	return migrate.Target{
		Resource:   r.WithVersion(r.Endpoint),
		Kind:       r.Kind,
		Namespaced: r.Namespaced,
		Origin:     r.Origin,
	}
}

// Storage returns the storage version for users: "v2", with its group if that is another one, or "" if it is unknown.
func (r Resource) Storage() string {
	if r.StorageVersion.Group == r.Group {
		return r.StorageVersion.Version
	}
	return r.StorageVersion.String()
}

// Names returns the full names of the resource, its own first.
func (r Resource) Names() []string {
	names := []string{r.String()}
	for _, alias := range r.Aliases {
		if n := alias.GroupResource().String(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// answersTo reports whether word, in lower case, is a name that users may use for a resource of this kind.
func (r Resource) answersTo(word string) bool {
	return word == r.Singular || word == strings.ToLower(r.Kind)
}
