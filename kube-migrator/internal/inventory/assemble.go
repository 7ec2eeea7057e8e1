// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// assemble turns facts into an inventory. It is pure.
func assemble(f *facts) *Inventory {
	found := served(f)
	addCRDs(f, found)
	resolve := candidatesOf(f, found.list)
	for _, r := range found.list {
		settle(f, r, resolve)
	}
	inv := share(found.list)
	inv.Failures = f.failures
	return inv
}

// found are resources by name, in the order in which they were found.
type found struct {
	list []*Resource
	by   map[schema.GroupResource]*Resource
}

func (f *found) at(name schema.GroupResource) *Resource {
	r, ok := f.by[name]
	if !ok {
		r = &Resource{GroupResource: name}
		f.by[name] = r
		f.list = append(f.list, r)
	}
	return r
}

// served collects the resources of all documents.
func served(f *facts) *found {
	all := &found{by: map[schema.GroupResource]*Resource{}}
	for _, group := range f.groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			for _, listed := range f.resources[gv] {
				all.at(schema.GroupResource{Group: gv.Group, Resource: listed.Name}).serve(f, gv, listed)
			}
		}
	}
	return all
}

// serve adds a version. The first version, which is the preferred one, describes the resource.
func (r *Resource) serve(f *facts, gv schema.GroupVersion, listed metav1.APIResource) {
	if len(r.Versions) == 0 {
		r.Kind, r.Singular, r.ShortNames, r.Namespaced = listed.Kind, strings.ToLower(listed.SingularName),
			listed.ShortNames, listed.Namespaced
		if s, ok := f.services[gv]; ok {
			r.Origin, r.Service = migrate.Aggregated, s.Name
		} else if f.crdsKnown {
			r.Origin = migrate.BuiltIn // unless a CRD says otherwise
		}
	}
	r.Versions = append(r.Versions, Version{Name: gv.Version, Verbs: listed.Verbs})
	if r.StorageVersionHash == "" {
		r.StorageVersionHash = listed.StorageVersionHash
	}
}

// addCRDs marks the custom resources, and adds those that discovery does not show.
func addCRDs(f *facts, all *found) {
	for _, d := range f.crds {
		r := all.at(d.GroupResource)
		if r.Origin == migrate.Aggregated { // an APIService of this group and version hides the CRD
			continue
		}
		r.Origin, r.CRD = migrate.Custom, &d.CRD
		r.Kind, r.Singular, r.ShortNames, r.Namespaced = d.Kind, d.Singular, d.ShortNames, d.Namespaced
		switch {
		case d.NotEstablished != "":
			r.Problem = &Problem{NotEstablished, "its CRD is not established: " + d.NotEstablished}
		case !d.Served:
			r.Problem = &Problem{NotServed, "its CRD serves no version"}
		case len(r.Versions) == 0:
			r.Problem = &Problem{NotDiscovered, "its CRD serves a version that discovery does not show"}
		}
	}
}

// settle decides the storage version, the endpoint and the problem of a resource.
func settle(f *facts, r *Resource, resolve func(*Resource) schema.GroupVersion) {
	if r.StorageVersionHash == "" && r.CRD != nil && r.CRD.StorageVersion != "" {
		// Discovery shows the hash only while the storage version is served.
		r.StorageVersion = schema.GroupVersion{Group: r.Group, Version: r.CRD.StorageVersion}
		r.StorageVersionHash = storageversion.Hash(r.StorageVersion.WithKind(r.Kind))
	} else if r.StorageVersionHash != "" {
		r.StorageVersion = resolve(r)
	} else if declared := f.declared.of(r); declared.Version != "" {
		// The hash is optional.
		r.StorageVersion, r.StorageVersionHash = declared, storageversion.Hash(declared.WithKind(r.Kind))
	}
	r.Endpoint = endpoint(r)
	if r.Problem == nil {
		r.Problem = problem(r)
	}
	if r.Problem != nil && r.Problem.Reason == NotDiscovered {
		for _, failure := range f.failures {
			if failure.Group == r.Group {
				r.Problem.Message += " (" + failure.String() + ")"
			}
		}
	}
}

// endpoint returns the version to list and patch, or "" if no version allows both.
func endpoint(r *Resource) string {
	storage := ""
	if r.StorageVersion.Group == r.Group {
		storage = r.StorageVersion.Version
	}
	return discovery.Endpoint(r.Versions, storage)
}

// problem says why a resource that discovery shows cannot be migrated.
func problem(r *Resource) *Problem {
	has := func(verb string) bool {
		return slices.ContainsFunc(r.Versions, func(v Version) bool { return slices.Contains(v.Verbs, verb) })
	}
	written := has("update") || has("patch")
	switch {
	case r.StorageVersionHash == "" && (!has("list") || !written):
		return &Problem{NotPersisted, "nothing is stored: its API server computes it, or only answers to it"}
	case !has("list"):
		return &Problem{NotListable, "no served version has the verb list"}
	case r.Endpoint == "":
		return &Problem{NotPatchable, "no served version has the verbs list and patch"}
	case r.StorageVersionHash == "":
		return &Problem{NoStorageVersionHash, "its API server does not tell in which version it stores it"}
	}
	return nil
}

// candidatesOf returns the function that finds the version that a resource's hash stands for. It tries versions of the
// resource's own group first, then those of groups that serve a resource of the same plural or kind, then those of any
// group.
func candidatesOf(f *facts, all []*Resource) func(*Resource) schema.GroupVersion {
	versions := map[string][]string{} // served, or listed in a CRD, by group
	kin := map[string][]string{}      // groups by plural and by kind
	for _, group := range f.groups {
		for _, version := range group.Versions {
			versions[group.Name] = append(versions[group.Name], version.Version)
		}
	}
	for _, r := range all {
		kin[r.Resource] = append(kin[r.Resource], r.Group)
		kin[r.Kind] = append(kin[r.Kind], r.Group)
		if r.CRD != nil {
			versions[r.Group] = append(versions[r.Group], r.CRD.Versions...)
		}
	}
	return func(r *Resource) schema.GroupVersion {
		groups := slices.Concat([]string{r.Group}, kin[r.Resource], kin[r.Kind])
		for _, group := range f.groups {
			groups = append(groups, group.Name)
		}
		for _, group := range groups {
			for _, version := range slices.Concat(versions[group], usualVersions) {
				gv := schema.GroupVersion{Group: group, Version: version}
				if storageversion.Hash(gv.WithKind(r.Kind)) == r.StorageVersionHash {
					return gv
				}
			}
		}
		return schema.GroupVersion{}
	}
}

// usualVersions are likely names of versions that are no longer served, or not served yet.
var usualVersions = func() (names []string) {
	for _, major := range []string{"v1", "v2", "v3"} {
		names = append(names, major)
		for _, stage := range []string{"alpha", "beta"} {
			for _, minor := range []string{"1", "2", "3"} {
				names = append(names, major+stage+minor)
			}
		}
	}
	return names
}()

// share joins the resources that share storage: same plural and same hash, in several groups. They get the group of the
// storage version or, if that is unknown or does not serve them in a way that can be migrated, the first group.
// Cohabitation:
// https://github.com/kubernetes/kubernetes/blob/master/pkg/kubeapiserver/default_storage_factory_builder.go
func share(all []*Resource) *Inventory {
	type storage struct{ plural, hash string }
	of := map[storage][]*Resource{}
	for _, r := range all {
		if r.StorageVersionHash != "" {
			key := storage{r.Resource, r.StorageVersionHash}
			of[key] = append(of[key], r)
		}
	}
	inv, index := &Inventory{}, map[*Resource]int{}
	for _, r := range all {
		canonical := r
		if sharing := of[storage{r.Resource, r.StorageVersionHash}]; len(sharing) > 1 {
			canonical = elect(sharing)
		}
		i, listed := index[canonical]
		if !listed {
			i = len(inv.Resources)
			index[canonical] = i
			inv.Resources = append(inv.Resources, *canonical)
		}
		if r != canonical {
			for _, version := range r.Versions {
				inv.Resources[i].Aliases = append(inv.Resources[i].Aliases, r.WithVersion(version.Name))
			}
		}
		inv.names = append(inv.names, name{r.GroupResource, i})
	}
	return inv
}

func elect(sharing []*Resource) *Resource {
	stored := func(r *Resource) bool { return r.Group == r.StorageVersion.Group && r.Problem == nil }
	able := func(r *Resource) bool { return r.Problem == nil }
	for _, rule := range []func(*Resource) bool{stored, able} {
		if i := slices.IndexFunc(sharing, rule); i >= 0 {
			return sharing[i]
		}
	}
	return sharing[0]
}
