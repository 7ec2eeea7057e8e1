// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// inProcess carries out runs in this process: for a controller outside of the cluster, and for tests. A run is the
// ConfigMap of its checkpoint, which the migration owns.
type inProcess struct {
	store
	shared *worker.Process
	log    *slog.Logger
	// ended is called when a worker has ended, so that a pass looks at its run.
	ended func()

	mu      sync.Mutex
	closed  bool
	workers map[string]*inProcessWorker // by name of the run
	company sync.WaitGroup
}

// inProcessWorker is a worker that was started and has not ended.
type inProcessWorker struct {
	run      run // as it was started; its ConfigMap contains its report
	begun    time.Time
	stop     chan struct{}
	stopOnce sync.Once
	cancel   context.CancelFunc
}

func (w *inProcessWorker) halt() { w.stopOnce.Do(func() { close(w.stop) }) }

// graceful is how long workers may take to finish their requests in flight when the process is told to end.
const graceful = 8 * time.Second

// Start implements manager.Runnable: it ends the workers when the controller ends or is no longer the leader.
func (p *inProcess) Start(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	p.closed = true
	working := slices.Collect(maps.Values(p.workers))
	p.mu.Unlock()
	for _, w := range working {
		w.halt()
	}
	timer := time.AfterFunc(graceful, func() {
		for _, w := range working {
			w.cancel()
		}
	})
	defer timer.Stop()
	p.company.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *inProcess) NeedLeaderElection() bool { return true }

func (p *inProcess) list(ctx context.Context, live bool) ([]run, error) {
	found, err := p.configMaps(ctx, live)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return withWorkers(p.runsOf(found), p.workers), nil
}

// withWorkers finds out which runs have a worker. A run whose ConfigMap is deleted counts as long as its worker may
// write (I8). It is pure.
func withWorkers(all []run, workers map[string]*inProcessWorker) []run {
	for name, w := range workers {
		i := slices.IndexFunc(all, func(r run) bool { return r.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, w.run)
			all[i].incomplete = true
		}
		all[i].active, all[i].begun = true, w.begun
	}
	return all
}

func (p *inProcess) start(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error {
	if err := p.createCheckpoint(ctx, m, r, seed); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, works := p.workers[r.name]; works || p.closed {
		return nil
	}
	// this outlasts the pass that starts it; Start ends it
	workCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.report, r.broken = nil, ""
	w := &inProcessWorker{run: r, begun: time.Now(), stop: make(chan struct{}), cancel: cancel}
	p.workers[r.name] = w
	p.company.Go(func() {
		defer cancel()
		p.work(workCtx, w, r)
	})
	return nil
}

// work carries out one run.
func (p *inProcess) work(ctx context.Context, w *inProcessWorker, r run) {
	err := worker.Run(ctx, worker.Options{
		Process: p.shared, Migration: r.migration, UID: r.uid, Generation: r.generation, Attempt: r.attempt,
		ConfigMap: r.name, Stop: w.stop, Logger: p.log,
	})
	if err != nil && !errors.Is(err, worker.ErrStopped) && !errors.Is(err, worker.ErrOutdated) && ctx.Err() == nil {
		p.log.Error("A worker ended without a result; restarting it", "migration", r.migration, "error", err)
		select { // the pod of a Job is not replaced at once either
		case <-time.After(5 * time.Second):
		case <-w.stop:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	delete(p.workers, r.name)
	p.mu.Unlock()
	p.ended()
}

func (p *inProcess) halt(_ context.Context, r run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[r.name]; w != nil {
		w.halt()
	}
	return nil
}

func (p *inProcess) giveUp(ctx context.Context, r run, why string) error {
	if given, err := p.store.giveUp(ctx, r, why); !given {
		return err
	}
	return p.halt(ctx, r)
}

func (p *inProcess) remove(ctx context.Context, r run) error {
	if err := p.halt(ctx, r); err != nil || r.active {
		return err // remove is called again after the worker has ended
	}
	return p.deleteCheckpoint(ctx, r.name)
}
