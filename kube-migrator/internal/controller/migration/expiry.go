// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// requestsOf returns the requests that the change of a migration leads to.
func requestsOf(_ context.Context, o client.Object) []request {
	if m, ok := o.(*v1alpha1.StorageVersionMigration); ok && expires(m) {
		return []request{{}, {expiring: m.Name}}
	}
	return []request{{}}
}

// expires reports whether a migration is to be deleted, if it stays as it is.
func expires(m *v1alpha1.StorageVersionMigration) bool {
	return m.DeletionTimestamp == nil && m.Spec.TTLSecondsAfterFinished != nil &&
		m.Status.CompletedGeneration >= m.Spec.Generation
}

const (
	// leastKept is how long a migration is kept after its success, whatever its TTL, so that clients that wait for it
	// see the success.
	leastKept = 15 * time.Second
	// unrecordedAgain is how often to check whether the proof of a migration that would expire is recorded.
	unrecordedAgain = 30 * time.Second
)

// untilExpiry returns how much of the time is left for which a migration that expires is kept after its success.
func untilExpiry(m *v1alpha1.StorageVersionMigration, now time.Time) time.Duration {
	kept := max(leastKept, time.Duration(*m.Spec.TTLSecondsAfterFinished)*time.Second)
	return m.Status.Progress.CompletionTime.Add(kept).Sub(now)
}

// expire deletes a migration whose time after its success is over, or looks again when it will be. The cache shows when
// that may be. The deletion relies on a read past the cache, and on no change since. The proof goes with the migration,
// so the migration is kept until its proof is recorded or refused for good: a controller that was away since the success
// would otherwise rewrite everything again.
func (c *controller) expire(ctx context.Context, name string) (reconcile.Result, error) {
	m := new(v1alpha1.StorageVersionMigration)
	for _, reader := range []client.Reader{c.client, c.live} {
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, m); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if !expires(m) {
			return reconcile.Result{}, nil
		}
		if left := untilExpiry(m, time.Now()); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
	}
	if c.unrecorded != nil {
		switch awaited, err := c.unrecorded(ctx, c.client, m); {
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("read what is recorded of migration %s: %w", name, err)
		case awaited:
			return reconcile.Result{RequeueAfter: unrecordedAgain}, nil
		}
	}
	c.log.Info("Deleting a migration whose ttlSecondsAfterFinished has passed", "migration", name)
	err := c.client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	if apierrors.IsConflict(err) { // it has changed, which leads to another request
		err = nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
