// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Take reads the cluster's discovery, CustomResourceDefinitions and APIServices. If only a part cannot be read, it is
// in Failures; an error means that there is no inventory.
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
	services discovery.Services
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

func gather(ctx context.Context, client rest.Interface) (*facts, error) {
	groups, err := discovery.Groups(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	f := &facts{groups: groups}
	var (
		wait                 errgroup.Group
		documents            map[schema.GroupVersion]discovery.Document
		servicesErr, crdsErr error
	)
	wait.Go(func() error { documents = discovery.Documents(ctx, client, groups); return nil })
	wait.Go(func() error { f.services, servicesErr = discovery.AllServices(ctx, client); return nil })
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
func (f *facts) add(documents map[schema.GroupVersion]discovery.Document) {
	f.resources = map[schema.GroupVersion][]metav1.APIResource{}
	for _, group := range f.groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			d := documents[gv]
			if d.Err == nil {
				f.resources[gv] = d.Resources
				continue
			}
			failure := Failure{
				What: gv.String(), Group: gv.Group, Reason: d.Err.Error(),
				Unusable: errors.Is(d.Err, bounded.ErrTooLarge) || errors.Is(d.Err, migrate.ErrUntrustedAnswer),
			}
			if s, ok := f.services[gv]; ok {
				failure.APIService, failure.Service = s.APIService, s.Name
				if s.Unavailable != "" {
					failure.Reason = s.Unavailable
				}
			}
			f.failures = append(f.failures, failure)
		}
	}
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
			StorageVersion:  d.StorageVersion(), StoredVersions: d.Status.StoredVersions, ClaimedBy: d.ClaimedBy(),
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
