// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func TestAMigrationIsDeletedWhenItsTimeIsOver(t *testing.T) {
	all := manyFinished(2)
	all[0].Spec.TTLSecondsAfterFinished = new(int32(60))
	all[0].Status.Progress.CompletionTime = metav1.NewTime(time.Now().Add(-30 * time.Second))
	if got := requestsOf(t.Context(), all[0]); len(got) != 2 || got[1].expiring != all[0].Name {
		t.Errorf("requests %v, want one for its end", got)
	}
	if got := requestsOf(t.Context(), all[1]); len(got) != 1 || got[0] != (request{}) {
		t.Errorf("requests %v, want a pass", got)
	}
	c, kept, _, _ := passing(t, all...)
	result, err := c.Reconcile(t.Context(), request{expiring: all[0].Name})
	if err != nil || result.RequeueAfter < 25*time.Second ||
		result.RequeueAfter > 30*time.Second || len(kept.all) != 2 {
		t.Errorf("again after %s, %d are left (%v), want some 30 s and 2", result.RequeueAfter, len(kept.all), err)
	}
	all[0].Status.Progress.CompletionTime = metav1.NewTime(time.Now().Add(-61 * time.Second))
	if _, err := c.Reconcile(t.Context(), request{expiring: all[0].Name}); err != nil || kept.all[all[0].Name] != nil {
		t.Errorf("it is still there (%v)", err)
	}
	if _, err := c.Reconcile(t.Context(), request{expiring: all[1].Name}); err != nil || kept.all[all[1].Name] == nil {
		t.Errorf("another is gone (%v)", err)
	}
}

func TestAMigrationIsKeptForAtLeastATimeAfterItsSuccess(t *testing.T) {
	for ttl, want := range map[int32]time.Duration{0: leastKept, 14: leastKept, 90: 90 * time.Second} {
		m := aMigration(func(m *v1alpha1.StorageVersionMigration) {
			m.Spec.TTLSecondsAfterFinished = new(ttl)
			m.Status.Progress.CompletionTime = metav1.NewTime(noon.Add(-5 * time.Second))
		})
		if left := untilExpiry(m, noon); left != want-5*time.Second {
			t.Errorf("with a TTL of %d s it is kept for another %v, want %v", ttl, left, want-5*time.Second)
		}
	}
}

// The proof of a migration goes with it: a controller that was away since the success has not recorded it yet.
func TestAMigrationDoesNotExpireBeforeItsProofIsRecorded(t *testing.T) {
	all := manyFinished(1)
	all[0].Spec.TTLSecondsAfterFinished = new(int32(0))
	all[0].Status.Progress.CompletionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	all[0].Status.Epoch = &v1alpha1.Epoch{Servers: []string{"p1"}}
	c, kept, _, _ := passing(t, all...)
	answer := func(awaited bool, err error) {
		c.unrecorded = func(_ context.Context, _ client.Reader, m *v1alpha1.StorageVersionMigration) (bool, error) {
			if m.Status.Epoch == nil || len(m.Status.Epoch.Servers) == 0 {
				t.Error("asked about a migration from the cache, which lacks the API servers of its epoch")
			}
			return awaited, err
		}
	}
	answer(true, nil)
	result, err := c.Reconcile(t.Context(), request{expiring: all[0].Name})
	if err != nil || result.RequeueAfter != unrecordedAgain || len(kept.all) != 1 {
		t.Errorf("again after %v, %d are left (%v), want %v and 1", result.RequeueAfter, len(kept.all), err, unrecordedAgain)
	}
	answer(false, errors.New("no answer"))
	if _, err := c.Reconcile(t.Context(), request{expiring: all[0].Name}); err == nil || len(kept.all) != 1 {
		t.Errorf("%d are left (%v), want one and an error", len(kept.all), err)
	}
	all[0].Status.Run.Attempt++ // also a pass that still finds its run deletes only the run
	if c.passes(t, 3); len(kept.all) != 1 {
		t.Error("a pass has deleted it")
	}
	answer(false, nil)
	if _, err := c.Reconcile(t.Context(), request{expiring: all[0].Name}); err != nil || len(kept.all) != 0 {
		t.Errorf("%d are left (%v), want none", len(kept.all), err)
	}
}
