// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// The APIs in which API servers publish what they store: that of kube-apiserver for built-in resources, and ours for
// aggregated ones.
const (
	kubernetesDeclares = "internal.apiserver.k8s.io"
	weDeclare          = "migration.k8s.io"
)

// declarations are the storage versions on which the entries of StorageVersion objects agree, by API and then by
// resource. They provide the storage version of a resource whose discovery shows no hash. Whether the entries belong to
// live servers, and whether all of those publish, is decided by package agreement.
type declarations map[string]map[schema.GroupResource]schema.GroupVersion

// readDeclarations reads the declarations from the APIs that are served. They are optional: without them, a resource
// whose discovery shows no hash has no storage version.
func readDeclarations(ctx context.Context, client rest.Interface, served func(group string) bool) declarations {
	all := declarations{}
	for _, api := range []string{kubernetesDeclares, weDeclare} {
		if !served(api) {
			continue
		}
		var list struct {
			Items bounded.List[storageVersion] `json:"items"`
		}
		if err := discovery.Read(ctx, client, &list, "/apis/"+api+"/v1alpha1/storageversions"); err != nil {
			continue
		}
		all[api] = map[schema.GroupResource]schema.GroupVersion{}
		for _, item := range list.Items {
			if gv := item.version(); gv.Version != "" {
				all[api][storageversion.ResourceOf(item.Metadata.Name)] = gv
			}
		}
	}
	return all
}

// storageVersion contains the fields that are read of a StorageVersion object.
type storageVersion struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		StorageVersions []encoding `json:"storageVersions"`
	} `json:"status"`
}

// encoding is the entry of one server.
type encoding struct {
	Version string `json:"encodingVersion"`
}

// version returns the version in which all servers encode, or zero if they differ or none is named.
func (v storageVersion) version() schema.GroupVersion {
	entries := v.Status.StorageVersions
	if len(entries) == 0 || slices.ContainsFunc(entries, func(e encoding) bool { return e != entries[0] }) {
		return schema.GroupVersion{}
	}
	gv, err := schema.ParseGroupVersion(entries[0].Version)
	if err != nil {
		return schema.GroupVersion{}
	}
	return gv
}

// of returns the declared version of a resource, or zero if there is none. StorageVersions do not cover custom
// resources.
func (d declarations) of(r *Resource) schema.GroupVersion {
	switch r.Origin {
	case migrate.BuiltIn:
		return d[kubernetesDeclares][r.GroupResource]
	case migrate.Aggregated:
		return d[weDeclare][r.GroupResource]
	case migrate.Custom:
	}
	return schema.GroupVersion{}
}
