// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package inventory knows which resources a cluster has: of every group, built-in, custom and aggregated, in which
// versions they are served, in which one they are stored, and whether they can be migrated.
//
// It owns the reading of discovery, the meaning of the names that users type, and the order in which resources are
// worth migrating. It never writes, and never reads an object: at most the metadata of one, to count the others.
//
// Invariants:
//   - A resource that is stored once is listed once, however many groups serve it.
//   - A resource without a Problem has an endpoint that can be listed and patched, and a storage version hash.
//   - What could not be read is in Failures; an inventory never looks more complete than it is.
package inventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// Inventory is what a cluster has, as one look at its discovery shows. It is not changed after Take and may be
// read concurrently.
type Inventory struct {
	// Resources are in the order of discovery: the core group first, then the groups as the API server prefers
	// them; then CRDs that discovery does not show.
	Resources []Resource
	// Failures are the parts that could not be read.
	Failures []Failure

	// names are all names of all resources, also those of shared storage, in the order of discovery.
	names []name
}

// name is one group and plural that leads to a resource.
type name struct {
	schema.GroupResource
	resource int // index in Resources
}

// Resource is what is stored once: its objects are listed by any of its endpoints.
type Resource struct {
	// GroupResource is the name: the group in which it is stored, where several groups serve it.
	schema.GroupResource
	Kind       string
	Singular   string
	ShortNames []string
	Namespaced bool
	// Origin is empty where the CustomResourceDefinitions could not be read: built-in or custom.
	Origin migrate.Origin
	// Service is the namespace/name of the Service behind an aggregated resource.
	Service string
	// Versions are the served versions of the resource's own group, preferred first.
	Versions []Version
	// Aliases are the endpoints of other groups that serve the same stored objects.
	Aliases []schema.GroupVersionResource
	// StorageVersionHash is what discovery shows. Where it shows none, and a CRD or a StorageVersion tells the
	// storage version, it is computed from that.
	StorageVersionHash string
	// StorageVersion is the group and version whose hash that is; zero where no candidate has it.
	StorageVersion schema.GroupVersion
	// CRD is set for custom resources.
	CRD *CRD
	// Endpoint is the version to list and patch: the storage version where it is served, else the preferred one
	// that can do both; or the one that the user asked for. Empty where there is none.
	Endpoint string
	// Problem says why the resource cannot be migrated; nil where it can.
	Problem *Problem
}

// Version is one served version of a resource.
type Version struct {
	Name  string
	Verbs []string
}

// can reports whether the version can be listed and patched.
func (v Version) can() bool {
	return slices.Contains(v.Verbs, "list") && slices.Contains(v.Verbs, "patch")
}

// CRD is what a CustomResourceDefinition says about storage.
type CRD struct {
	Name       string
	UID        types.UID
	Generation int64
	// StorageVersion is the version that spec marks.
	StorageVersion string
	// StoredVersions are those that status claims.
	StoredVersions []string
	// Versions are all versions of spec, served or not.
	Versions []string
	// Conversion is the strategy: None or Webhook.
	Conversion string
}

// ProblemReason is why a resource cannot be migrated; a closed set.
type ProblemReason string

// The reasons.
const (
	// NotPersisted: there is nothing to migrate. The API server computes it, or only answers to it.
	NotPersisted ProblemReason = "NotPersisted"
	// NoStorageVersionHash: it can be written, but its API server does not tell in which version it stores it.
	NoStorageVersionHash ProblemReason = "NoStorageVersionHash"
	// NotListable: no served version has the verb list.
	NotListable ProblemReason = "NotListable"
	// NotPatchable: no served version that has the verb list has the verb patch.
	NotPatchable ProblemReason = "NotPatchable"
	// NotEstablished: the CRD is not accepted, or is being deleted.
	NotEstablished ProblemReason = "NotEstablished"
	// NotServed: the CRD serves no version.
	NotServed ProblemReason = "NotServed"
	// NotDiscovered: the CRD is established and serves a version, but discovery does not show it.
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
	// Group is the group whose resources may be missing; empty where the failure concerns none or all.
	Group string
	// APIService and Service (namespace/name) name the aggregated API server, where it is one.
	APIService, Service string
	// Reason is what the API server says.
	Reason string
	// Unusable: it answered, with more than may be read or with what cannot be true.
	Unusable bool
}

// String is one line for people.
func (f Failure) String() string {
	if f.Service != "" && f.Unusable {
		return f.What + " is served by the service " + f.Service + ", whose answer cannot be used: " + f.Reason
	}
	if f.Service != "" {
		return f.What + " is served by the service " + f.Service + ", which does not answer: " + f.Reason
	}
	return f.What + " could not be read: " + f.Reason
}

// Target returns the resource as something to rewrite. It makes sense only where Problem is nil.
func (r Resource) Target() migrate.Target {
	return migrate.Target{
		Resource:   r.WithVersion(r.Endpoint),
		Kind:       r.Kind,
		Namespaced: r.Namespaced,
		Origin:     r.Origin,
	}
}

// Storage is the storage version for people: "v2", with its group where that is another one, "" where unknown.
func (r Resource) Storage() string {
	if r.StorageVersion.Group == r.Group {
		return r.StorageVersion.Version
	}
	return r.StorageVersion.String()
}

// Names are the full names of the resource, its own first.
func (r Resource) Names() []string {
	names := []string{r.String()}
	for _, alias := range r.Aliases {
		if n := alias.GroupResource().String(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// answersTo reports whether word, in lower case, is what a user may call a resource of this kind.
func (r Resource) answersTo(word string) bool {
	return word == r.Singular || word == strings.ToLower(r.Kind)
}
