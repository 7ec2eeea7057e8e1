// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package worker carries out one run of one StorageVersionMigration: it drives the sweep, follows changes of the
// StorageVersionMigration in the meantime, and keeps the checkpoint and a Report in one ConfigMap.
//
// It owns the content of that ConfigMap from its creation on. It writes nothing else, apart from the objects that the
// sweep rewrites. It never writes the StorageVersionMigration and never prunes: the controller judges the Outcome.
//
// Invariants:
//   - Each write of the ConfigMap carries the resourceVersion of the previous one: two workers of one run notice each
//     other at the next write, and the older worker ends (I8).
//   - A run whose StorageVersionMigration is deleted, was created again, or has another generation writes nothing more
//     (I7).
//   - The position at which a sweep resumes is only in the ConfigMap; spec.continueToken, which users write, is never
//     read (I5).
//   - An Outcome is written once, and is the last write of a run. Only the controller writes it for a worker that no
//     longer reports: GiveUp.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// The errors of a run that ends without an outcome. Test with errors.Is.
var (
	// ErrOutdated means that the run is no longer wanted: the StorageVersionMigration is deleted, has another UID or
	// another generation, or another worker has taken over the run. Nothing was written after that.
	ErrOutdated = errors.New("the run is outdated")
	// ErrStopped means that Options.Stop was closed. The checkpoint is saved; another worker resumes from it.
	ErrStopped = errors.New("the worker was stopped")
)

// Options say which run to carry out.
type Options struct {
	// Process is shared with the other runs of this process.
	Process *Process
	// Migration and UID identify the StorageVersionMigration, and Generation is its spec.generation. Attempt counts the
	// runs of the generation.
	Migration  string
	UID        types.UID
	Generation int64
	Attempt    int64
	// ConfigMap is the name of the ConfigMap for checkpoint and report. The controller creates it.
	ConfigMap string
	// Stop, when closed, ends the run gently: the requests in flight are finished and the checkpoint is saved. A nil
	// Stop never ends it.
	Stop <-chan struct{}
	// Logger receives the start, the phases and the end of the run; nil discards them.
	Logger *slog.Logger
}

// timing contains the waits of a run.
type timing struct {
	look      time.Duration // between looks at the StorageVersionMigration
	settle    time.Duration // for an epoch to settle, in the first attempt
	idle      time.Duration // between looks at the roster while there is no task, or one has just begun or ended
	report    time.Duration // between reports while something changes
	heartbeat time.Duration // between reports while nothing does
	appear    time.Duration // until the ConfigMap must be there
	pause     time.Duration // for requests in flight when the run is paused, before they are cancelled
	halt      time.Duration // the same when the worker is stopped
	end       time.Duration // from Stop until nothing is waited for any more
	backoff   time.Duration // the first wait after an error that may pass
	most      time.Duration // the longest such wait
	patience  time.Duration // without progress, after an error that may pass
	again     time.Duration // after a run that has ended without an outcome
	doubt     time.Duration // before the first refusal for lack of a permission is believed
}

var defaultTiming = timing{
	look: 500 * time.Millisecond, settle: 5 * time.Second, idle: 150 * time.Millisecond, report: time.Second,
	heartbeat: 10 * time.Second, appear: 2 * time.Minute,
	pause: time.Second, halt: 4 * time.Second, end: 8 * time.Second,
	backoff: time.Second, most: 30 * time.Second, patience: 15 * time.Minute,
	again: 5 * time.Second, doubt: 5 * time.Second,
}

// run is a run in progress.
type run struct {
	Options
	waits  timing
	log    *slog.Logger
	record *runRecord
	// quit ends everything at once, with a reason.
	quit context.CancelCauseFunc

	missing time.Time // since when the API group of the StorageVersionMigration is not served
	lookMu  sync.Mutex
}

// Run carries out the run. It returns nil once the outcome is written, by this worker or by an earlier one. Otherwise
// the error is ErrOutdated, ErrStopped, that of the context, or says why the run could not begin or its outcome could
// not be written.
func Run(ctx context.Context, o Options) error { return runWith(ctx, o, defaultTiming) }

func runWith(ctx context.Context, o Options, t timing) error {
	r := &run{Options: o, waits: t, log: o.Logger}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("migration", o.Migration, "generation", o.Generation, "attempt", o.Attempt)
	ctx, end := context.WithCancelCause(ctx)
	r.quit, r.record = end, newRunRecord(ctx, o, r.log)
	var company sync.WaitGroup
	defer company.Wait()
	defer end(nil)
	company.Go(func() { r.limitStop(ctx) })
	err := r.run(ctx)
	switch cause := context.Cause(ctx); {
	case err == nil, errors.Is(err, ErrOutdated), errors.Is(err, ErrStopped):
	case cause != nil:
		err = cause
	}
	r.log.Info("The worker ends", "reason", because(err))
	return err
}

func because(err error) string {
	if err == nil {
		return "the outcome is written"
	}
	return err.Error()
}

// limitStop ends everything that is still running some time after Stop.
func (r *run) limitStop(ctx context.Context) {
	select {
	case <-r.Stop:
		if pace.Sleep(ctx, r.waits.end) == nil {
			r.quit(ErrStopped)
		}
	case <-ctx.Done():
	}
}

// run begins the run, sweeps until there is an outcome, and writes it.
func (r *run) run(ctx context.Context) error {
	r.log.Info("Starting a run")
	a, ended, err := r.begin(ctx)
	if err != nil || ended {
		return err
	}
	var stuck time.Time // since the first error after the last progress
	var last int64
	doubted := false
	backoff := time.Duration(0)
	for again := false; ; again = true {
		if again {
			if a, err = r.whileIdle(ctx, backoff); err != nil {
				return err
			}
		}
		s := r.newSweeping(a)
		err = s.do(ctx)
		outcome, err := s.judge(ctx, err)
		switch {
		case outcome != nil && outcome.Result == ResultForbidden && !doubted:
			// An API server that has just started does not know roles yet, and refuses what it will allow in a moment.
			doubted, backoff = true, r.waits.doubt
			continue
		case outcome != nil:
			return r.conclude(ctx, s, outcome)
		case err == nil: // paused, or at another pace
			backoff = 0
			continue
		case errors.Is(err, ErrOutdated), errors.Is(err, ErrStopped), ctx.Err() != nil:
			return err
		}
		if done := s.done(); stuck.IsZero() || done != last {
			stuck, last, backoff = time.Now(), done, 0
		}
		if time.Since(stuck) > r.waits.patience {
			return r.conclude(ctx, s, &Outcome{Result: ResultBroken,
				Message: sentence(fmt.Errorf("no progress for %v: %w", r.waits.patience, err))})
		}
		backoff = min(max(r.waits.backoff, 2*backoff), r.waits.most)
		r.log.Warn("The sweep ended early; retrying", "error", sentence(err), "wait", backoff)
	}
}

// begin waits until the StorageVersionMigration can be read, is not paused, and the ConfigMap exists, and takes over the
// run from an earlier worker. ended means that the earlier worker has written the outcome.
func (r *run) begin(ctx context.Context) (a assignment, ended bool, err error) {
	deadline := time.Now().Add(r.waits.appear)
	for {
		// The StorageVersionMigration comes first: a run that is no longer wanted must not touch anything.
		if a, err = r.assignment(ctx); err == nil {
			if err = r.record.open(ctx); err == nil {
				break
			}
		}
		switch {
		case errors.Is(err, ErrOutdated):
			return a, false, err
		case time.Now().After(deadline):
			return a, false, fmt.Errorf("begin run: %w", err)
		}
		if err := sleep(ctx, r.Stop, r.waits.look); err != nil {
			return a, false, err
		}
	}
	if r.record.outcome() != nil {
		return a, true, nil
	}
	if a.paused {
		if a, err = r.whileIdle(ctx, 0); err != nil {
			return a, false, err
		}
	}
	ended, err = r.claim(ctx, deadline)
	return a, ended, err
}

// claim writes the first report. From then on the writes of an earlier worker fail.
func (r *run) claim(ctx context.Context, deadline time.Time) (ended bool, err error) {
	for {
		err := r.record.claim(ctx)
		switch {
		case err == nil:
			return r.record.outcome() != nil, nil
		case errors.Is(err, ErrOutdated):
			return false, err
		case time.Now().After(deadline.Add(r.waits.appear)):
			return false, fmt.Errorf("take over run: %w", err)
		}
		if err := sleep(ctx, r.Stop, r.waits.look); err != nil {
			return false, err
		}
	}
}

// conclude writes the outcome, and retries until it is written.
func (r *run) conclude(ctx context.Context, s *sweeping, o *Outcome) error {
	o.Ended = time.Now()
	report := s.report()
	report.Outcome = o
	backoff, deadline := r.waits.backoff, time.Now().Add(r.waits.patience)
	for {
		if _, err := r.assignment(ctx); errors.Is(err, ErrOutdated) {
			return err
		}
		err := r.record.writeReport(ctx, report)
		switch {
		case err == nil:
			r.log.Info("The run has ended", "result", o.Result, "message", o.Message)
			return nil
		case errors.Is(err, ErrOutdated):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("write outcome: %w", err)
		}
		r.log.Warn("Cannot write the outcome yet; retrying", "error", sentence(err))
		if err := sleep(ctx, r.Stop, backoff); err != nil {
			return err
		}
		backoff = min(2*backoff, r.waits.most)
	}
}

// sleep waits for d. It returns ErrStopped at once if the worker is told to end.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stop:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
