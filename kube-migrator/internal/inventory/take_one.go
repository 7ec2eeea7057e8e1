// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/discovery"
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
	first.Go(func() (err error) { d, err = discovery.CRD(ctx, client, name); return err })
	first.Go(func() (err error) { groups, err = discovery.Group(ctx, client, name.Group); return err })
	if err := first.Wait(); err != nil || d == nil {
		return nil, err
	}
	f := &facts{groups: groups, crds: []customResource{define(d)}, crdsKnown: true}
	var (
		wait        errgroup.Group
		documents   map[schema.GroupVersion]discovery.Document
		servicesErr error
	)
	wait.Go(func() error { documents = discovery.Documents(ctx, client, groups); return nil })
	wait.Go(func() error { f.services, servicesErr = discovery.ServicesOf(ctx, client, groups); return nil })
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
