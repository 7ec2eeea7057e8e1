// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageversions is the controller that removes what crashed API servers leave in the StorageVersions of
// migration.k8s.io: entries of servers whose identity Lease is gone or has expired, and objects without entries.
//
// It owns the loop and its log; what is removed is decided by storageversion.Collector, which states why no entry of a
// live server is among it. It never writes an entry, nor anything of internal.apiserver.k8s.io, whose garbage
// kube-controller-manager collects. Only the leader runs it, so that objects are not written by several, but nothing
// depends on that: two Collectors do no harm.
package storageversions

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Add adds the controller to a manager; config is one that writes only while the manager leads. recorded reports whether
// the versions that a StorageVersion has in a state, its UID, "/" and its resourceVersion, are recorded as possibly
// stored: nothing is removed before that (I1). log is for the operators of kube-migrator.
func Add(m manager.Manager, config *rest.Config, recorded func(resource schema.GroupResource, state string) bool,
	log *slog.Logger) error {
	collector, err := storageversion.NewCollector(config, recorded, log)
	if err != nil {
		return err
	}
	l := &loop{collect: collector.Collect, idle: collector.Idle, created: make(chan struct{}, 1), log: log}
	l.watch = func(ctx context.Context) error { return l.listen(ctx, m.GetCache()) }
	return m.Add(l)
}

// idleFor is how long the loop waits at most while there are no StorageVersions: the watch may be broken for a while.
const idleFor = 5 * time.Minute

// loop calls a Collector as often as it asks for. While there are no objects, it waits until one is created.
type loop struct {
	collect func(context.Context) (next time.Duration, err error)
	// idle reports whether the last call of collect found no object.
	idle func() bool
	// watch makes created receive a value for every object.
	watch   func(context.Context) error
	created chan struct{}
	log     *slog.Logger
	// problem is what was logged last, so that one that lasts is logged once.
	problem string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *loop) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it collects until the context ends.
func (l *loop) Start(ctx context.Context) error {
	if err := l.watch(ctx); err != nil {
		return err
	}
	for {
		next, err := l.collect(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		l.report(err)
		var created <-chan struct{}
		if err == nil && l.idle() {
			next, created = idleFor, l.created
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		case <-created:
		}
	}
}

// listen watches the metadata of StorageVersions. It sees what exists already, too.
func (l *loop) listen(ctx context.Context, objects cache.Cache) error {
	one := new(metav1.PartialObjectMetadata)
	one.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("StorageVersion"))
	informer, err := objects.GetInformer(ctx, one, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch StorageVersions: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		select {
		case l.created <- struct{}{}:
		default: // the loop has not taken the last one yet
		}
	}})
	if err != nil {
		return fmt.Errorf("watch StorageVersions: %w", err)
	}
	return nil
}

func (l *loop) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != l.problem {
		l.log.Warn("Could not remove all entries of API servers that are gone, trying again", "error", err)
	}
	l.problem = text
}
