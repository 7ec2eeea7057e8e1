// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// look reads what a pass decides from, and records since when looks have succeeded: without looks, the silence of a
// worker cannot be measured.
func (c *controller) look(ctx context.Context, live bool, whole []string) (snapshot, error) {
	s, err := c.read(ctx, live, whole)
	if err != nil {
		c.since = time.Time{}
		return s, err
	}
	if c.since.IsZero() {
		c.since = s.now
	}
	s.since = c.since
	c.heard = c.heard.listen(s.runs, s.now)
	maps.DeleteFunc(c.refused, func(uid types.UID, _ refusedStart) bool {
		return !slices.ContainsFunc(s.migrations, func(m v1alpha1.StorageVersionMigration) bool { return m.UID == uid })
	})
	s.refused = c.refused
	return s, nil
}

// read reads all runs, past the cache if live is true, then the migrations that are not at rest or have runs: the named
// ones past the cache, and the others from it.
func (c *controller) read(ctx context.Context, live bool, whole []string) (snapshot, error) {
	s := snapshot{now: time.Now(), live: live, whole: map[types.UID]bool{}}
	// Runs come first: a migration that is created in between has no runs, whereas a run whose migration we miss would
	// be mistaken for an orphan.
	var err error
	if s.runs, err = c.runs.list(ctx, live); err != nil {
		return s, err
	}
	open := new(v1alpha1.StorageVersionMigrationList)
	if err := c.client.List(ctx, open, client.MatchingFields{openIndex: "true"}); err != nil {
		return s, fmt.Errorf("list migrations: %w", err)
	}
	s.migrations = open.Items
	unknown, err := c.addOwners(ctx, &s)
	if err != nil {
		return s, err
	}
	if live {
		// A run whose migration is not in the cache is an orphan only if the API server does not have the migration
		// either. A run from which someone removed the name of its migration cannot be looked up: if it was not an
		// orphan, its migration runs again.
		whole = append(whole, unknown...)
	}
	if err := c.readWhole(ctx, whole, &s); err != nil {
		return s, err
	}
	if !live {
		return s, nil
	}
	if s.moment, err = c.moment(ctx); err != nil {
		return s, err
	}
	s.inTree = readInTree(ctx, c.rest, s.now)
	return s, nil
}

// addOwners adds the migrations at rest that have runs, and returns the names of those that the cache does not contain.
func (c *controller) addOwners(ctx context.Context, s *snapshot) (unknown []string, err error) {
	known := map[types.UID]bool{}
	for i := range s.migrations {
		known[s.migrations[i].UID] = true
	}
	for _, r := range s.runs {
		if known[r.uid] {
			continue
		}
		known[r.uid] = true
		owner := new(v1alpha1.StorageVersionMigrationList)
		if err := c.client.List(ctx, owner, client.MatchingFields{uidIndex: string(r.uid)}); err != nil {
			return nil, fmt.Errorf("find migration of %s: %w", r.name, err)
		}
		if s.migrations = append(s.migrations, owner.Items...); len(owner.Items) == 0 && r.migration != "" {
			unknown = append(unknown, r.migration)
		}
	}
	return unknown, nil
}

// atOnce bounds how many migrations a pass reads, or judges and writes, at the same time.
const atOnce = 8

// readWhole replaces the cached forms of migrations by what the API server returns for their names.
func (c *controller) readWhole(ctx context.Context, names []string, s *snapshot) error {
	found := make([]*v1alpha1.StorageVersionMigration, len(names))
	var reading errgroup.Group
	reading.SetLimit(atOnce)
	for i, name := range names {
		reading.Go(func() error {
			m := new(v1alpha1.StorageVersionMigration)
			switch err := c.live.Get(ctx, client.ObjectKey{Name: name}, m); {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return fmt.Errorf("read migration %s: %w", name, err)
			}
			// These are not needed to write the status: the API server ignores everything else in that request.
			m.Labels, m.Annotations, m.ManagedFields, m.OwnerReferences, m.Finalizers = nil, nil, nil, nil, nil
			m.Spec.ContinueToken, m.Spec.Reason, m.Spec.GroupVersions = "", "", nil
			found[i] = m
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	s.migrations = slices.DeleteFunc(s.migrations,
		func(cached v1alpha1.StorageVersionMigration) bool { return slices.Contains(names, cached.Name) })
	for _, m := range found {
		if m != nil {
			s.migrations, s.whole[m.UID] = append(s.migrations, *m), true
		}
	}
	return nil
}

// moment returns the current resourceVersion of the collection of migrations: a run that starts after it has seen
// everything that was written before it.
func (c *controller) moment(ctx context.Context) (string, error) {
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("StorageVersionMigrationList"))
	if err := c.live.List(ctx, one, client.Limit(1)); err != nil {
		return "", fmt.Errorf("read resourceVersion of migrations: %w", err)
	}
	return one.ResourceVersion, nil
}
