// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The reasons to end a sweep and start another one in the same worker.
var (
	errPaused  = errors.New("paused")
	errRepaced = errors.New("spec.pace was changed")
)

// sweeping is one sweep of a run, from reading the inventory to its end. A run has several sweeps if it is paused, gets
// another pace, or meets an outage.
type sweeping struct {
	run    *run
	asked  assignment
	before Report // as it was when the sweep began

	mu       sync.Mutex
	reason   error // why the sweep was told to end
	cancel   context.CancelCauseFunc
	sweep    *migrate.Sweep // nil before it begins
	resource inventory.Resource
	servers  *agreement.Resource
	speed    speed
	phase    migrate.Phase // as logged last
}

func (r *run) newSweeping(a assignment) *sweeping {
	return &sweeping{run: r, asked: a, before: r.record.last()}
}

// do sweeps. The error is that of the sweep, or says why it did not begin.
func (s *sweeping) do(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	s.cancel = cancel
	var company sync.WaitGroup
	defer company.Wait()
	defer cancel(nil)
	company.Go(func() { s.supervise(ctx) })
	company.Go(func() {
		select {
		case <-s.run.Stop:
			s.end(ErrStopped, s.run.waits.halt)
		case <-ctx.Done():
		}
	})
	sweep, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	s.run.record.attach(s.report)
	defer s.run.record.attach(nil)
	company.Go(func() { s.keepReporting(ctx) })
	defer context.AfterFunc(ctx, sweep.Abort)()
	_, err = sweep.Run(ctx)
	return err
}

// prepare finds the resource and creates the sweep.
func (s *sweeping) prepare(ctx context.Context) (*migrate.Sweep, error) {
	all, err := inventory.TakeOne(ctx, s.run.Process.client, s.asked.name())
	if err != nil {
		return nil, err
	}
	if err := all.OriginsKnown(); err != nil { // an aggregated resource must not be mistaken for a built-in one
		return nil, err
	}
	resource, err := choose(all, s.asked.resource)
	if err != nil {
		return nil, err
	}
	servers := s.run.Process.servers.For(resource.Target())
	if err := s.provable(ctx, servers); err != nil {
		return nil, err
	}
	options := s.run.options(s.asked)
	options.Proven = s.run.record.proven()
	sweep, err := migrate.New(s.run.Process.config, resource.Target(), servers, options)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return nil, s.reason
	}
	s.sweep, s.resource, s.servers = sweep, resource, servers
	return sweep, nil
}

// end ends the sweep gently: requests in flight have the grace period to finish. The first reason counts.
func (s *sweeping) end(reason error, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reason != nil:
	case s.sweep == nil:
		s.reason = reason
		s.cancel(reason)
	default:
		s.reason = reason
		s.sweep.Stop()
		time.AfterFunc(grace, func() { s.cancel(reason) }) // does nothing if the sweep has ended
	}
}

// why returns the reason for which the sweep was told to end, or nil.
func (s *sweeping) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// supervise ends the sweep when the StorageVersionMigration requests something else. If it cannot be read, the sweep
// continues.
func (s *sweeping) supervise(ctx context.Context) {
	for pace.Sleep(ctx, s.run.waits.look) == nil {
		now, err := s.run.assignment(ctx)
		switch {
		case errors.Is(err, ErrOutdated):
			s.run.quit(err)
			return
		case err != nil:
		case now.paused:
			s.end(errPaused, s.run.waits.pause)
		case now.pace != s.asked.pace:
			s.end(errRepaced, s.run.waits.pause)
		}
	}
}

// keepReporting writes the report while something changes, and occasionally while nothing does. The latter is also how
// a waiting worker learns that another one has taken over.
func (s *sweeping) keepReporting(ctx context.Context) {
	var told *Report
	for pace.Sleep(ctx, s.run.waits.report) == nil {
		report := s.report()
		s.logPhase(report.Phase)
		quiet := time.Since(s.run.record.lastReported())
		if quiet < s.run.waits.report/2 || told != nil && quiet < s.run.waits.heartbeat && same(told, report) {
			continue
		}
		err := s.run.record.writeReport(ctx, report)
		if errors.Is(err, ErrOutdated) {
			s.run.quit(err)
			return
		}
		if err == nil {
			told = report
		}
	}
}

func (s *sweeping) logPhase(phase migrate.Phase) {
	if phase == s.phase {
		return
	}
	s.phase = phase
	s.run.log.Info("Entered a phase", "phase", phase)
}
