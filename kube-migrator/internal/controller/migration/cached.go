// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// What the cache keeps of StorageVersionMigrations (I6). Users who may create them choose their size, up to the API
// server's limit, and their number. So the cache keeps only what passes decide from, at most some 4 KiB of each, and
// never a label, an annotation, a continue token or a long text. A status is never written from the cache: see
// controller.Reconcile.

// mostText bounds each text of a status that is kept unchanged, in bytes. A longer text is kept as its digest, which
// shows whether it has changed.
const mostText = 128

// The indexes of the cache.
const (
	// openIndex contains the migrations for which there may be something to do: those that are not at rest.
	openIndex = "open"
	uidIndex  = "uid"
)

// stripped returns the part of a migration from which passes decide. Stripping is idempotent.
func stripped(m *v1alpha1.StorageVersionMigration) *v1alpha1.StorageVersionMigration {
	return &v1alpha1.StorageVersionMigration{
		TypeMeta: m.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
			CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource: m.Spec.Resource, Generation: m.Spec.Generation, State: m.Spec.State,
			Priority: m.Spec.Priority, Pace: m.Spec.Pace,
			TTLSecondsAfterFinished: m.Spec.TTLSecondsAfterFinished,
		},
		Status: strippedStatus(m.Status),
	}
}

// strippedStatus removes long fields: the failures, the API servers of the epoch, and the conditions of other programs.
func strippedStatus(s v1alpha1.StorageVersionMigrationStatus) v1alpha1.StorageVersionMigrationStatus {
	s.Summary, s.Failures = short(s.Summary), nil
	if s.Epoch != nil {
		epoch := *s.Epoch
		epoch.Servers = nil
		s.Epoch = &epoch
	}
	var kept []v1alpha1.Condition
	for _, c := range s.Conditions {
		if slices.Contains(ourConditions, c.Type) {
			c.Reason, c.Message = short(c.Reason), short(c.Message)
			kept = append(kept, c)
		}
	}
	s.Conditions = kept
	return s
}

// short returns a text, or its digest if it is long.
func short(text string) string {
	if len(text) <= mostText {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// differs reports whether next differs from the status of m. whole means that m is not stripped. The summary of a
// stripped migration is not compared: it is computed from the other fields, and from texts of which only digests are
// known.
func differs(m *v1alpha1.StorageVersionMigration, next v1alpha1.StorageVersionMigrationStatus, whole bool) bool {
	before := m.Status
	if !whole {
		before, next = strippedStatus(before), strippedStatus(next)
		before.Summary, next.Summary = "", ""
	}
	return changed(before, next)
}

// resting reports whether there is nothing to do for a migration without a run until it changes: it has succeeded, or
// it is paused or cancelled, and its status says so. A migration that has succeeded and will expire is at rest, too,
// because its expiry is a request of its own. It is pure apart from the clock.
func resting(m *v1alpha1.StorageVersionMigration) bool {
	if m.DeletionTimestamp != nil {
		return false
	}
	now := time.Now()
	d := decide(facts{now: now, since: now, migration: m})
	return d.step == stepNothing && d.again == 0 && !differs(m, statusAfter(m, d, now, 0), false)
}

// strip transforms objects on their way into the cache.
func strip(object any) (any, error) {
	if m, ok := object.(*v1alpha1.StorageVersionMigration); ok {
		return stripped(m), nil
	}
	return object, nil
}

// indexPatience is how long the API server may take to serve the CRD, or to answer, before the controller gives up.
const indexPatience = 30 * time.Second

// index adds the indexes to a cache.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, one := range []struct {
		name string
		of   func(m *v1alpha1.StorageVersionMigration) []string
	}{
		{uidIndex, func(m *v1alpha1.StorageVersionMigration) []string { return []string{string(m.UID)} }},
		{openIndex, func(m *v1alpha1.StorageVersionMigration) []string {
			if resting(m) {
				return nil
			}
			return []string{"true"}
		}},
	} {
		var err error
		add := func(ctx context.Context) (bool, error) {
			err = indexer.IndexField(ctx, &v1alpha1.StorageVersionMigration{}, one.name, func(o client.Object) []string {
				if m, ok := o.(*v1alpha1.StorageVersionMigration); ok {
					return one.of(m)
				}
				return nil
			})
			return err == nil, nil
		}
		if wait.PollUntilContextTimeout(ctx, time.Second, indexPatience, true, add) != nil {
			return fmt.Errorf("index migrations by %s: %w", one.name, cmp.Or(err, ctx.Err()))
		}
	}
	return nil
}

// newInformer is NewSharedIndexInformer, but lists migrations in pages and strips the objects of each page before it
// reads the next. An API server that streams a list (WatchList) is not asked for pages; its objects are stripped one by
// one.
func newInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
	indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, ok := example.(*v1alpha1.StorageVersionMigration); ok {
		whole := toolscache.ToListerWatcherWithContext(lw)
		lw = &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return listStripped(ctx, func(ctx context.Context, limit int64,
					token string) (*v1alpha1.StorageVersionMigrationList, error) {
					// At the newest resourceVersion: an API server ignores the limit of a list at any older one.
					o.Limit, o.Continue, o.ResourceVersion, o.ResourceVersionMatch = limit, token, "", ""
					found, err := whole.ListWithContext(ctx, o)
					if err != nil {
						return nil, err
					}
					list, ok := found.(*v1alpha1.StorageVersionMigrationList)
					if !ok {
						return nil, fmt.Errorf("list migrations: got a %T", found)
					}
					return list, nil
				})
			},
			WatchFuncWithContext: whole.WatchWithContext,
		}
	}
	return toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
}

// listStripped reads all migrations, and holds at most one page of whole ones at a time.
func listStripped(
	ctx context.Context, page func(ctx context.Context, limit int64,
		token string) (*v1alpha1.StorageVersionMigrationList, error),
) (*v1alpha1.StorageVersionMigrationList, error) {
	all := new(v1alpha1.StorageVersionMigrationList)
	err := bounded.EachPage(ctx, func(ctx context.Context, limit int64, token string) (bounded.Page, error) {
		found, err := page(ctx, limit, token)
		if err != nil {
			return bounded.Page{}, err
		}
		next := bounded.Page{Continue: found.Continue}
		for i := range found.Items {
			m := &found.Items[i]
			next.Identities = append(next.Identities, m.Name)
			all.Items = append(all.Items, *stripped(m))
		}
		all.TypeMeta, all.ResourceVersion = found.TypeMeta, found.ResourceVersion
		return next, nil
	})
	return all, err
}
