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
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kube-migrator/kube-migrator/internal/pace"
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
	return m.Add(&loop{collect: collector.Collect, log: log})
}

// loop calls a Collector as often as it asks for.
type loop struct {
	collect func(context.Context) (next time.Duration, err error)
	log     *slog.Logger
	// problem is what was logged last, so that one that lasts is logged once.
	problem string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *loop) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it collects until the context ends.
func (l *loop) Start(ctx context.Context) error {
	for {
		next, err := l.collect(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		l.report(err)
		if pace.Sleep(ctx, next) != nil {
			return nil //nolint:nilerr // it was told to end
		}
	}
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
