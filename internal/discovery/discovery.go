// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery reads what the API servers of a cluster serve, in which order they prefer it, and which server
// answers for it: kube-apiserver itself, kube-apiserver for a CustomResourceDefinition, or a server behind an
// APIService.
//
// It owns these requests and the choice of the version at which a resource is rewritten. It does not decide what the
// answers mean for a migration, and never writes.
//
// It uses legacy discovery, one document per group and version, because the aggregated document has no
// storageVersionHash (https://github.com/kubernetes/kubernetes/issues/116108).
package discovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
)

const (
	// Timeout bounds one request, so that a hanging aggregated API server does not block everything.
	Timeout = 20 * time.Second
	// Retries bounds how often the client repeats a request whose answer carries Retry-After.
	Retries = 2
	// concurrency bounds how many documents are requested at the same time.
	concurrency = 8
)

// Read decodes one answer.
func Read(ctx context.Context, client rest.Interface, into any, path string) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return apiserver.Send(ctx, client.Get().AbsPath(path).MaxRetries(Retries), into)
}

// Groups reads the groups in the API server's order of preference, each with its versions in that order. The core group
// comes first.
func Groups(ctx context.Context, client rest.Interface) ([]metav1.APIGroup, error) {
	groups, err := core(ctx, client)
	if err != nil {
		return nil, err
	}
	var named struct {
		Groups bounded.List[metav1.APIGroup] `json:"groups"`
	}
	if err := Read(ctx, client, &named, "/apis"); err != nil {
		return nil, err
	}
	for _, group := range named.Groups {
		groups = append(groups, preferredFirst(group))
	}
	return groups, nil
}

// core reads the core group. It returns none if the API server has none.
func core(ctx context.Context, client rest.Interface) ([]metav1.APIGroup, error) {
	var versions metav1.APIVersions
	switch err := Read(ctx, client, &versions, "/api"); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	group := metav1.APIGroup{}
	for _, version := range versions.Versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version, Version: version})
	}
	return []metav1.APIGroup{group}, nil
}

// Group reads one group, with its versions in order of preference. It returns none if the group is not served.
func Group(ctx context.Context, client rest.Interface, name string) ([]metav1.APIGroup, error) {
	if name == "" {
		return core(ctx, client)
	}
	path, err := apipath.Join("/apis", name)
	if err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	var group metav1.APIGroup
	switch err := Read(ctx, client, &group, path); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read discovery of %s: %w", name, err)
	case group.Name != name:
		return nil, fmt.Errorf("%w of discovery: the group %s calls itself %q", apiserver.ErrUntrusted, name, group.Name)
	}
	return []metav1.APIGroup{preferredFirst(group)}, nil
}

// preferredFirst moves the group's preferred version to the front.
func preferredFirst(group metav1.APIGroup) metav1.APIGroup {
	preferred := group.PreferredVersion.Version
	slices.SortStableFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
		switch {
		case a.Version == b.Version:
			return 0
		case a.Version == preferred:
			return -1
		case b.Version == preferred:
			return 1
		}
		return 0
	})
	return group
}

// Document is what discovery says about one group and version, or why it could not be read.
type Document struct {
	Resources []metav1.APIResource
	Err       error
}

// Documents reads the documents of all versions of the groups.
func Documents(ctx context.Context, client rest.Interface,
	groups []metav1.APIGroup) map[schema.GroupVersion]Document {
	var (
		wait      waitgroup.Group
		mu        sync.Mutex
		documents = map[schema.GroupVersion]Document{}
		slots     = make(chan struct{}, concurrency)
	)
	read := func(gv schema.GroupVersion) {
		slots <- struct{}{}
		defer func() { <-slots }()
		resources, err := document(ctx, client, gv)
		mu.Lock()
		defer mu.Unlock()
		documents[gv] = Document{Resources: resources, Err: err}
	}
	for _, group := range groups {
		for _, version := range group.Versions {
			wait.Go(func() { read(schema.GroupVersion{Group: group.Name, Version: version.Version}) })
		}
	}
	wait.Wait()
	return documents
}

// document reads the resources of a group and version, without subresources. If one of them has a name that no resource
// can have, the whole document is rejected (I3).
func document(ctx context.Context, client rest.Interface, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	path, err := apipath.GroupVersion(gv)
	if err != nil {
		return nil, fmt.Errorf("%w of discovery: %w", apiserver.ErrUntrusted, err)
	}
	var list struct {
		APIResources bounded.List[metav1.APIResource] `json:"resources"`
	}
	if err := Read(ctx, client, &list, path); err != nil {
		return nil, err
	}
	kept := list.APIResources[:0]
	for _, r := range list.APIResources {
		listed := slices.Contains(r.Verbs, "list")
		written := slices.Contains(r.Verbs, "update") || slices.Contains(r.Verbs, "patch")
		is, err := apipath.Resource(r.Name, r.StorageVersionHash != "" || listed && written)
		if err != nil {
			return nil, fmt.Errorf("%w of the API server of %s: %w", apiserver.ErrUntrusted, gv, err)
		}
		if is {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// Version is one served version of a resource.
type Version struct {
	Name  string
	Verbs []string
}

// CanBeRewritten reports whether the objects can be listed and patched at the version.
func (v Version) CanBeRewritten() bool {
	return slices.Contains(v.Verbs, "list") && slices.Contains(v.Verbs, "patch")
}

// Endpoint returns the version at which the objects of a resource are listed and patched: the storage version if it
// allows both, otherwise the first version that does. It is "" if there is none. storage is "" if the storage version
// is unknown or belongs to another group.
func Endpoint(versions []Version, storage string) string {
	first := ""
	for _, v := range versions {
		switch {
		case !v.CanBeRewritten():
		case v.Name == storage:
			return storage
		case first == "":
			first = v.Name
		}
	}
	return first
}

// CRD reads the CRD of a resource. It returns nil if there is none.
func CRD(ctx context.Context, client rest.Interface, name schema.GroupResource) (*crd.CRD, error) {
	if name.Group == "" { // custom resources have a group
		return nil, nil //nolint:nilnil // there is none
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	d, err := crd.Get(ctx, client, crd.Name(name))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", crd.Name(name), err)
	case d.Spec.Group != name.Group || d.Spec.Names.Plural != name.Resource:
		return nil, fmt.Errorf("%w: the CustomResourceDefinition %s is that of %s.%s", apiserver.ErrUntrusted,
			crd.Name(name), d.Spec.Names.Plural, d.Spec.Group)
	}
	return d, nil
}
