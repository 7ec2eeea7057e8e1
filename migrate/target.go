// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Origin says which kind of API server stores a resource.
type Origin string

const (
	// BuiltIn resources are compiled into kube-apiserver.
	BuiltIn Origin = "BuiltIn"
	// Custom resources are defined by a CustomResourceDefinition.
	Custom Origin = "Custom"
	// Aggregated resources are served by another API server behind an APIService.
	Aggregated Origin = "Aggregated"
)

// Target identifies the resource to rewrite. Find makes it from the cluster.
type Target struct {
	// Resource is the endpoint to list and patch: at the storage version if it is served, else at any served version.
	Resource schema.GroupVersionResource
	// Kind is the resource's kind, "Widget".
	Kind string
	// Namespaced is whether the resource is namespaced.
	Namespaced bool
	// Origin decides which form of patch is used, and which API servers are asked about agreement. Empty means Custom,
	// whose form of patch every API server understands.
	Origin Origin
}

// GroupResource returns the target without its version.
func (t Target) GroupResource() schema.GroupResource { return t.Resource.GroupResource() }

// Find returns the resource of that name as the cluster serves it now.
//
// If no API server serves the resource, errors.Is(err, ErrResourceGone) holds; if it cannot be listed and patched,
// errors.Is(err, ErrNotReady). If the answers leave open which API server stores the resource, Find returns an error and
// does not guess.
//
// The account of config needs get on the CustomResourceDefinition of that name and on the APIServices of the group's
// versions, and may read discovery, as every account may by default.
func Find(ctx context.Context, config *rest.Config, name schema.GroupResource) (Target, error) {
	client, err := apiserver.NewClient(config)
	if err != nil {
		return Target{}, err
	}
	target, err := find(ctx, client, name)
	if err != nil {
		return Target{}, fmt.Errorf("find %s: %w", name, err)
	}
	return target, nil
}

func find(ctx context.Context, client rest.Interface, name schema.GroupResource) (Target, error) {
	d, err := discovery.CRD(ctx, client, name)
	if err != nil {
		return Target{}, err
	}
	groups, err := discovery.Group(ctx, client, name.Group)
	if err != nil {
		return Target{}, err
	}
	var services discovery.Services
	if name.Group != "" { // kube-apiserver itself serves the core group
		if services, err = discovery.ServicesOf(ctx, client, groups); err != nil {
			return Target{}, err
		}
	}
	documents := discovery.Documents(ctx, client, groups)
	var listed []served
	for _, group := range groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			document := documents[gv]
			if document.Err != nil {
				return Target{}, fmt.Errorf("read discovery of %s: %w", gv, document.Err)
			}
			for _, r := range document.Resources {
				if r.Name == name.Resource {
					_, elsewhere := services[gv]
					listed = append(listed, served{version: gv.Version, elsewhere: elsewhere, as: r})
				}
			}
		}
	}
	return targetOf(name, d, listed)
}

// served is what discovery says about the resource at one version.
type served struct {
	version   string
	elsewhere bool // another API server than kube-apiserver answers
	as        metav1.APIResource
}

// targetOf decides what a resource is: listed has its served versions, preferred first, and d its CRD if there is one.
// An APIService hides a CRD of the same group and version. It is pure.
func targetOf(name schema.GroupResource, d *crd.CRD, listed []served) (Target, error) {
	if len(listed) == 0 {
		if d != nil {
			return Target{}, fmt.Errorf("%w: API servers do not serve it, although there is a CustomResourceDefinition",
				ErrNotReady)
		}
		return Target{}, ErrResourceGone
	}
	first, storage := listed[0], ""
	target := Target{Kind: first.as.Kind, Namespaced: first.as.Namespaced, Origin: BuiltIn}
	switch {
	case first.elsewhere:
		target.Origin = Aggregated
	case d != nil:
		target.Origin, storage = Custom, d.StorageVersion()
	}
	var versions []discovery.Version
	for _, s := range listed {
		if s.elsewhere != first.elsewhere {
			return Target{}, fmt.Errorf("%w: different API servers serve its versions %s and %s", ErrNotReady, first.version,
				s.version)
		}
		versions = append(versions, discovery.Version{Name: s.version, Verbs: s.as.Verbs})
		kind := schema.GroupVersionKind{Group: name.Group, Version: s.version, Kind: target.Kind}
		if storage == "" && storageversion.Hash(kind) == s.as.StorageVersionHash {
			storage = s.version
		}
	}
	target.Resource = name.WithVersion(discovery.Endpoint(versions, storage))
	if target.Resource.Version == "" {
		return Target{}, fmt.Errorf("%w: no served version has the verbs list and patch", ErrNotReady)
	}
	return target, nil
}
