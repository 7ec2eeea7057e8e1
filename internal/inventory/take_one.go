// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// TakeOne reads an inventory in which the resource of that name is as in an inventory of Take. Other resources may be
// missing.
//
// For a custom resource it reads the CRD, the discovery of its group, and the APIServices of the versions of its group,
// so that a migration costs the same in a cluster with 10 and with 1,000 CRDs. Any other resource may share its storage
// with a resource of another group, so TakeOne reads everything for it.
func TakeOne(ctx context.Context, client rest.Interface, name schema.GroupResource) (*Inventory, error) {
	f, err := gatherCustom(ctx, client, name)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return Take(ctx, client)
	}
	return assemble(f), nil
}

// gatherCustom gathers the facts about a custom resource. It returns nil if there is no CRD of that name.
func gatherCustom(ctx context.Context, client rest.Interface, name schema.GroupResource) (*facts, error) {
	if name.Group == "" { // custom resources have a group
		return nil, nil
	}
	var (
		first  errgroup.Group
		d      *crd.CRD
		groups []metav1.APIGroup
	)
	first.Go(func() (err error) { d, err = readCRD(ctx, client, name); return err })
	first.Go(func() (err error) { groups, err = readGroup(ctx, client, name.Group); return err })
	if err := first.Wait(); err != nil || d == nil {
		return nil, err
	}
	f := &facts{groups: groups, crds: []customResource{define(d)}, crdsKnown: true}
	var (
		wait        errgroup.Group
		documents   map[schema.GroupVersion]document
		servicesErr error
	)
	wait.Go(func() error { documents = readDocuments(ctx, client, groups); return nil })
	wait.Go(func() error { f.services, servicesErr = readAPIServicesOf(ctx, client, groups); return nil })
	_ = wait.Wait() // each function stores its own error
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	if servicesErr != nil {
		f.failures = append(f.failures, Failure{What: services, Reason: servicesErr.Error()})
	}
	f.add(documents)
	return f, nil
}

// readCRD reads the CRD of a resource. It returns nil if there is none.
func readCRD(ctx context.Context, client rest.Interface, name schema.GroupResource) (*crd.CRD, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	d, err := crd.Get(ctx, client, crd.Name(name))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", crd.Name(name), err)
	case d.Spec.Group != name.Group || d.Spec.Names.Plural != name.Resource:
		return nil, fmt.Errorf("%w: the CustomResourceDefinition %s is that of %s.%s", migrate.ErrUntrustedAnswer,
			crd.Name(name), d.Spec.Names.Plural, d.Spec.Group)
	}
	return d, nil
}

// readGroup reads the discovery of one group, with its versions in order of preference. It returns no group if the
// group is not served.
func readGroup(ctx context.Context, client rest.Interface, name string) ([]metav1.APIGroup, error) {
	path, err := apipath.Join("/apis", name)
	if err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	var group metav1.APIGroup
	switch err := read(ctx, client, &group, path); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read discovery of %s: %w", name, err)
	case group.Name != name:
		return nil, fmt.Errorf("%w of discovery: the group %s calls itself %q", migrate.ErrUntrustedAnswer, name, group.Name)
	}
	return []metav1.APIGroup{preferredFirst(group)}, nil
}

// readAPIServicesOf reads which of the groups' versions other API servers serve. The name of an APIService is that of
// its version and group.
func readAPIServicesOf(ctx context.Context, client rest.Interface, groups []metav1.APIGroup) (apiServices, error) {
	found := apiServices{}
	for _, group := range groups {
		for _, version := range group.Versions {
			path, err := apipath.Join(apiserver.APIServicesPath, version.Version+"."+group.Name)
			if err != nil {
				return nil, err
			}
			item := new(apiserver.APIService)
			switch err := read(ctx, client, item, path); {
			case apierrors.IsNotFound(err): // an API server without aggregation, or the version has just come
			case err != nil:
				return nil, err
			default:
				found.add(item)
			}
		}
	}
	return found, nil
}
