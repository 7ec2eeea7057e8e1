// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// concurrency bounds how many discovery documents are requested at the same time.
	concurrency = 8
	// documentTimeout bounds one document, so that a hanging aggregated API server does not block the inventory.
	documentTimeout = 20 * time.Second
	// documentRetries bounds how often the client repeats a request whose answer carries Retry-After.
	documentRetries = 2
)

// Take reads the cluster's discovery, CustomResourceDefinitions and APIServices. If only a part cannot be read, it is
// in Failures; an error means that there is no inventory.
//
// It uses legacy discovery, one document per group and version, because the aggregated document has no
// storageVersionHash (https://github.com/kubernetes/kubernetes/issues/116108).
func Take(ctx context.Context, client rest.Interface) (*Inventory, error) {
	f, err := gather(ctx, client)
	if err != nil {
		return nil, err
	}
	return assemble(f), nil
}

// facts are what the API server says, before it is assembled.
type facts struct {
	// groups are in order of preference, each with its versions in order of preference.
	groups []metav1.APIGroup
	// resources are those of each group and version that could be read.
	resources map[schema.GroupVersion][]metav1.APIResource
	// services are the aggregated group-versions.
	services apiServices
	// The CustomResourceDefinitions. definitionsKnown is false if they could not be listed.
	crds      []customResource
	crdsKnown bool
	declared  declarations
	failures  []Failure
}

// The parts of the inventory that are needed to know the origin of a resource.
const (
	services = "APIServices"
	crdsOf   = "CustomResourceDefinitions"
)

// OriginsKnown returns why Origin, CRD and Service of resources may be missing or wrong, or nil if they are reliable.
// Names and versions are reliable in any case.
func (inv *Inventory) OriginsKnown() error {
	for _, f := range inv.Failures {
		if f.What == services || f.What == crdsOf {
			return fmt.Errorf("read the inventory: %s", f)
		}
	}
	return nil
}

// customResource contains what Resource keeps of a CustomResourceDefinition.
type customResource struct {
	CRD
	schema.GroupResource
	Kind, Singular string
	ShortNames     []string
	Namespaced     bool
	Served         bool   // at least one version is
	NotEstablished string // why it is not established; empty if it is
}

// apiService is the part of an APIService that identifies the server behind it.
type apiService struct {
	name        string
	service     string // namespace/name
	unavailable string // why it is unavailable; empty if it is available
}

func gather(ctx context.Context, client rest.Interface) (*facts, error) {
	groups, err := readGroups(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	f := &facts{groups: groups}
	var (
		wait                 errgroup.Group
		documents            map[schema.GroupVersion]document
		servicesErr, crdsErr error
	)
	wait.Go(func() error { documents = readDocuments(ctx, client, groups); return nil })
	wait.Go(func() error { f.services, servicesErr = readAPIServices(ctx, client); return nil })
	wait.Go(func() error { f.crds, crdsErr = readCRDs(ctx, client); return nil })
	wait.Go(func() error {
		f.declared = readDeclarations(ctx, client, func(group string) bool {
			return slices.ContainsFunc(groups, func(g metav1.APIGroup) bool { return g.Name == group })
		})
		return nil
	})
	_ = wait.Wait() // each function stores its own error
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	f.crdsKnown = crdsErr == nil
	if servicesErr != nil {
		f.failures = append(f.failures, Failure{What: services, Reason: servicesErr.Error()})
	}
	if crdsErr != nil {
		f.failures = append(f.failures, Failure{What: crdsOf, Reason: crdsErr.Error()})
	}
	f.add(documents)
	return f, nil
}

// add divides the documents into readable ones and failures, in the order of the groups.
func (f *facts) add(documents map[schema.GroupVersion]document) {
	f.resources = map[schema.GroupVersion][]metav1.APIResource{}
	for _, group := range f.groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			d := documents[gv]
			if d.err == nil {
				f.resources[gv] = d.resources
				continue
			}
			failure := Failure{
				What: gv.String(), Group: gv.Group, Reason: d.err.Error(),
				Unusable: errors.Is(d.err, bounded.ErrTooLarge) || errors.Is(d.err, migrate.ErrUntrustedAnswer),
			}
			if s, ok := f.services[gv]; ok {
				failure.APIService, failure.Service = s.name, s.service
				if s.unavailable != "" {
					failure.Reason = s.unavailable
				}
			}
			f.failures = append(f.failures, failure)
		}
	}
}

// readGroups reads the groups in the API server's order of preference. The core group comes first.
func readGroups(ctx context.Context, client rest.Interface) ([]metav1.APIGroup, error) {
	var groups []metav1.APIGroup
	var core metav1.APIVersions
	switch err := read(ctx, client, &core, "/api"); {
	case apierrors.IsNotFound(err): // the API server has no core group
	case err != nil:
		return nil, err
	default:
		group := metav1.APIGroup{}
		for _, version := range core.Versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version,
				Version: version})
		}
		groups = append(groups, group)
	}
	var named struct {
		Groups bounded.List[metav1.APIGroup] `json:"groups"`
	}
	if err := read(ctx, client, &named, "/apis"); err != nil {
		return nil, err
	}
	for _, group := range named.Groups {
		groups = append(groups, preferredFirst(group))
	}
	return groups, nil
}

// preferredFirst moves the group's preferred version to the front.
func preferredFirst(group metav1.APIGroup) metav1.APIGroup {
	slices.SortStableFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
		switch preferred := group.PreferredVersion.Version; {
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

// document is one group and version of legacy discovery.
type document struct {
	resources []metav1.APIResource
	err       error
}

func readDocuments(ctx context.Context, client rest.Interface,
	groups []metav1.APIGroup) map[schema.GroupVersion]document {
	var (
		wait      errgroup.Group
		mu        sync.Mutex
		documents = map[schema.GroupVersion]document{}
	)
	wait.SetLimit(concurrency)
	for _, group := range groups {
		for _, version := range group.Versions {
			wait.Go(func() error {
				gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
				resources, err := readDocument(ctx, client, gv)
				mu.Lock()
				defer mu.Unlock()
				documents[gv] = document{resources: resources, err: err}
				return nil
			})
		}
	}
	_ = wait.Wait() // each document stores its own error
	return documents
}

// readDocument reads the resources of a group and version, without subresources. If one of them has a name that no
// resource can have, the whole document is rejected (I3).
func readDocument(ctx context.Context, client rest.Interface, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	path, err := apipath.GroupVersion(gv)
	if err != nil {
		return nil, fmt.Errorf("%w of discovery: %w", migrate.ErrUntrustedAnswer, err)
	}
	var list struct {
		APIResources bounded.List[metav1.APIResource] `json:"resources"`
	}
	if err := read(ctx, client, &list, path); err != nil {
		return nil, err
	}
	kept := list.APIResources[:0]
	for _, r := range list.APIResources {
		listed := slices.Contains(r.Verbs, "list")
		written := slices.Contains(r.Verbs, "update") || slices.Contains(r.Verbs, "patch")
		is, err := apipath.Resource(r.Name, r.StorageVersionHash != "" || listed && written)
		if err != nil {
			return nil, fmt.Errorf("%w of the API server of %s: %w", migrate.ErrUntrustedAnswer, gv, err)
		}
		if is {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// read decodes one document.
func read(ctx context.Context, client rest.Interface, into any, path string) error {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	return apiserver.Send(ctx, client.Get().AbsPath(path).MaxRetries(documentRetries), into)
}

// apiServices are the group-versions that other API servers serve.
type apiServices map[schema.GroupVersion]apiService

// add adds the group-version of an APIService, unless the API server that answers serves it itself.
func (s apiServices) add(item *apiserver.APIService) {
	if behind := item.Spec.Service; behind != nil {
		s[item.GroupVersion()] = apiService{name: item.Metadata.Name,
			service: behind.Namespace + "/" + behind.Name, unavailable: item.Unavailable()}
	}
}

// readAPIServices reads which group-versions other API servers serve. An API server without aggregation has none.
func readAPIServices(ctx context.Context, client rest.Interface) (apiServices, error) {
	var list apiserver.APIServices
	if err := read(ctx, client, &list, apiserver.APIServicesPath); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	services := apiServices{}
	for i := range list.Items {
		services.add(&list.Items[i])
	}
	return services, nil
}

func readCRDs(ctx context.Context, client rest.Interface) ([]customResource, error) {
	var crds []customResource
	err := crd.Each(ctx, client, func(d *crd.CRD) { crds = append(crds, define(d)) })
	if apierrors.IsNotFound(err) { // an API server without custom resources
		return nil, nil
	}
	return crds, err
}

// define keeps what Resource needs, without schemas and field managers.
func define(d *crd.CRD) customResource {
	kept := customResource{
		CRD: CRD{
			Name: d.Metadata.Name, UID: d.Metadata.UID, Generation: d.Metadata.Generation,
			ResourceVersion: d.Metadata.ResourceVersion,
			StorageVersion:  d.StorageVersion(), StoredVersions: d.Status.StoredVersions,
			Conversion: d.Spec.Conversion.Strategy,
		},
		GroupResource: schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural},
		Kind:          d.Spec.Names.Kind, Singular: d.Spec.Names.Singular, ShortNames: d.Spec.Names.ShortNames,
		Namespaced: d.Spec.Scope == "Namespaced",
	}
	for _, version := range d.Spec.Versions {
		kept.Versions = append(kept.Versions, version.Name)
		kept.Served = kept.Served || version.Served
	}
	if established, why := d.Established(); !established {
		kept.NotEstablished = why
	}
	return kept
}
