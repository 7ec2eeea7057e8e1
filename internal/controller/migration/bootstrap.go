// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

const (
	bootstrapReason = "found at start-up: in which versions it is stored is not known"
	bootstrapAgain  = time.Minute
)

// bootstrap asks, when the controller starts, for a migration of every resource that has none: nobody knows in which versions they are
// stored. Served in one version is no reason to leave one out: EndpointSlice was served as v1 alone and stored as v1beta1 for six releases.
type bootstrap struct {
	client    client.Client
	live      client.Reader
	rest      rest.Interface
	namespace string
	include   []string // patterns of full names; none: all
	exclude   []string
	log       *slog.Logger
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (b *bootstrap) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It tries again until every part of the API could be looked at.
func (b *bootstrap) Start(ctx context.Context) error {
	for {
		complete, err := b.once(ctx)
		if err != nil && ctx.Err() == nil {
			b.log.Error("Could not ask for the migrations of start-up, trying again", "error", err, "after", bootstrapAgain)
		}
		if complete && err == nil {
			return nil
		}
		select {
		case <-time.After(bootstrapAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *bootstrap) once(ctx context.Context) (complete bool, err error) {
	all, err := inventory.Take(ctx, b.rest)
	if err != nil {
		return false, err
	}
	resources, err := all.Select(len(b.include) == 0, b.include, b.exclude)
	if err != nil {
		return false, err
	}
	known := new(v1alpha1.StorageVersionMigrationList)
	if err := b.live.List(ctx, known); err != nil {
		return false, fmt.Errorf("list migrations: %w", err)
	}
	namespace := new(corev1.Namespace)
	if err := b.live.Get(ctx, client.ObjectKey{Name: b.namespace}, namespace); err != nil {
		return false, fmt.Errorf("read the namespace that owns what is created: %w", err)
	}
	for _, r := range inventory.ByRisk(resources) {
		if r.Problem != nil || requested(known.Items, r) {
			continue
		}
		m := requestOf(r, namespace)
		if err := b.client.Create(ctx, m); err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create migration %s: %w", m.Name, err)
		}
		b.log.Info("Asked for a migration", "migration", m.Name, "reason", m.Spec.Reason)
	}
	for _, failure := range all.Failures {
		b.log.Warn("Not looked at", "part", failure.String())
	}
	return len(all.Failures) == 0, nil
}

// requested reports whether there is a migration of the resource, by any of its names.
func requested(known []v1alpha1.StorageVersionMigration, r inventory.Resource) bool {
	return slices.ContainsFunc(known, func(m v1alpha1.StorageVersionMigration) bool {
		return slices.Contains(r.Names(), schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String())
	})
}

// requestOf is the migration of a resource. A cluster-scoped object has a cluster-scoped owner: the installation's namespace.
func requestOf(r inventory.Resource, namespace *corev1.Namespace) *v1alpha1.StorageVersionMigration {
	m := &v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{
			Name:   r.GroupResource.String(),
			Labels: map[string]string{nameLabel: program, managedByLabel: program},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID},
			},
		},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource: v1alpha1.GroupVersionResource{Group: r.Group, Resource: r.Resource},
			Reason:   bootstrapReason,
		},
	}
	for _, v := range r.Versions {
		m.Spec.GroupVersions = append(m.Spec.GroupVersions, v1alpha1.GroupVersion{Group: r.Group, Version: v.Name})
	}
	return m
}
