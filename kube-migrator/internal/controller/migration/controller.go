// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// controller looks at all migrations that are not at rest in one pass, because whose turn it is depends on all of them,
// and because a single goroutine cannot decide twice. Passes are cheap: they read from the cache, unless there is
// something to do or to report.
type controller struct {
	client     client.Client
	cache      cache.Informers
	live       client.Reader
	rest       rest.Interface
	runs       runs
	judge      *judge
	events     events.EventRecorder
	metrics    *metrics
	log        *slog.Logger
	most       int
	firstRetry time.Duration
	settleTime time.Duration
	// unrecorded is Options.Unrecorded.
	unrecorded func(ctx context.Context, reader client.Reader, m *v1alpha1.StorageVersionMigration) (bool, error)

	since time.Time // every look since then has succeeded; zero if the last one failed
	heard hearings
	// refused are written only while starts are carried out, one after the other.
	refused refusedStarts
}

// request is what to reconcile: everything together, or the end of the time for which a migration is kept after its
// success.
type request struct {
	expiring string // name of the migration; empty for everything
}

var _ reconcile.TypedReconciler[request] = (*controller)(nil)

const (
	// settleInterval is the time over which events are gathered into one pass.
	settleInterval = 100 * time.Millisecond
	// readings is how often a pass reads past the cache: what it reads may give the turn to a migration that it has not
	// read yet.
	readings = 3
)

// Reconcile makes one pass, or ends one migration.
//
// For everything that it does or writes about a migration, it decides from that migration and from runs as they were
// read past the cache (I4, I8). The order of two migrations may rely on what the cache shows of the others. That no two
// runs are at work at the same time relies only on the runs.
func (c *controller) Reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	if r.expiring != "" {
		return c.expire(ctx, r.expiring)
	}
	if err := c.metrics.begin(ctx, c.cache); err != nil {
		return reconcile.Result{}, err
	}
	s, err := c.look(ctx, false, nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := planAll(s, c.most, waits{c.firstRetry, c.settleTime})
	for range readings {
		unread := p.unread(s.whole, func(d *planned) bool { return c.writes(d, s) })
		live := s.live || p.consequential()
		if len(unread) == 0 && live == s.live {
			break
		}
		for i := range s.migrations {
			if s.whole[s.migrations[i].UID] {
				unread = append(unread, s.migrations[i].Name)
			}
		}
		if s, err = c.look(ctx, live, unread); err != nil {
			return reconcile.Result{}, err
		}
		p = planAll(s, c.most, waits{c.firstRetry, c.settleTime})
	}
	err = c.carryOut(ctx, p, s)
	c.metrics.show(s)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.again()}, nil
}

// writes reports whether the status of a migration has to be written.
func (c *controller) writes(d *planned, s snapshot) bool {
	return differs(d.migration, statusAfter(d.migration, d.decision, s.now, c.firstRetry), s.whole[d.migration.UID])
}

// carryOut does what was planned. If it fails for one migration, it retries later and continues with the others. Starts
// come first, one after the other, because the first may create the Job that takes the others. Their workers work while
// the verdicts on earlier runs, which take longer, are found.
func (c *controller) carryOut(ctx context.Context, p plan, s snapshot) error {
	var problems []error
	for _, r := range p.orphans {
		if !s.live {
			break // too much else has changed; the next pass finds them
		}
		if err := c.runs.remove(ctx, r); err != nil && !apierrors.IsConflict(err) { // it is tried again
			problems = append(problems, err)
		}
	}
	results := make([]error, len(p.migrations))
	var others errgroup.Group
	others.SetLimit(atOnce)
	for i := range p.migrations {
		if d := &p.migrations[i]; d.step == stepStart {
			results[i] = c.attempt(ctx, d, s)
		}
	}
	for i := range p.migrations {
		if d := &p.migrations[i]; d.step != stepStart {
			others.Go(func() error { results[i] = c.attempt(ctx, d, s); return nil })
		}
	}
	_ = others.Wait() // each has its result
	return errors.Join(append(problems, results...)...)
}

// attempt does what was planned for one migration, unless a later pass has to.
func (c *controller) attempt(ctx context.Context, d *planned, s snapshot) error {
	if !s.whole[d.migration.UID] || d.consequential() && !s.live {
		if d.consequential() || c.writes(d, s) {
			d.again = settleInterval // the next pass reads it
		}
		return nil
	}
	switch err := c.do(ctx, d, s); {
	case err == nil:
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		d.again = settleInterval // it has changed in the meantime
	default:
		return fmt.Errorf("migration %s: %w", d.migration.Name, err)
	}
	return nil
}

// do carries out the plan for one migration, then writes its status. After a crash it repeats the steps: each of them
// finds what it did before.
func (c *controller) do(ctx context.Context, d *planned, s snapshot) error {
	m := d.migration
	for _, r := range d.remove {
		if err := c.runs.remove(ctx, r); err != nil {
			return err
		}
		if r.active {
			d.again = haltAgain // its worker has to stop first
		}
	}
	next := statusAfter(m, d.decision, s.now, c.firstRetry)
	switch d.step {
	case stepNothing, stepFollow:
	case stepStart:
		if err := c.start(ctx, d, s); err != nil {
			return err
		}
		next = statusAfter(m, d.decision, s.now, c.firstRetry)
	case stepHalt:
		if err := c.runs.halt(ctx, d.run); err != nil {
			return err
		}
	case stepGiveUp:
		if err := c.runs.giveUp(ctx, d.run, d.message); err != nil {
			return err
		}
	case stepConclude:
		next = c.conclude(ctx, d, s)
	case stepVoid, stepPostpone, stepFail, stepAdopt:
	}
	if !differs(m, next, true) {
		return nil
	}
	before := m.Status
	m.Status = next
	// The write carries the resourceVersion of the decision, so that a write of someone else is looked at first.
	if err := c.client.Status().Update(ctx, m); err != nil {
		return err
	}
	if d.step == stepAdopt {
		c.log.Info("Adopted a migration that kube-storage-version-migrator completed", "migration", m.Name)
		return nil
	}
	c.announce(m, before, next)
	if d.step == stepConclude && next.State == v1alpha1.PhaseSucceeded && !d.run.active {
		return c.runs.remove(ctx, d.run) // the status says what it has proven, and no worker writes it any more
	}
	return nil
}

// start starts a run. If the API server refuses to create it, the status says so, and the turn goes to another.
func (c *controller) start(ctx context.Context, d *planned, s snapshot) error {
	uid := d.migration.UID
	err := c.runs.start(ctx, d.migration, d.run, d.seed)
	if !isRefusal(err) {
		if err == nil {
			c.refused.started(uid)
		}
		return err
	}
	c.log.Warn("Cannot create a run; trying again", "migration", d.migration.Name, "error", err)
	if c.refused == nil {
		c.refused = refusedStarts{}
	}
	c.refused.add(uid, err, s.now)
	no := c.refused[uid].refusal(d.run.generation)
	d.step, d.phase, d.reason, d.message, d.again = stepNothing, no.phase, no.reason, no.message, settleInterval
	return nil
}

// conclude asks the judge about a run that its worker reports as proven, and returns the resulting status.
func (c *controller) conclude(ctx context.Context, d *planned, s snapshot) v1alpha1.StorageVersionMigrationStatus {
	m := d.migration
	result, why, err := c.judge.conclude(ctx, m, d.run)
	switch {
	case err != nil:
		c.log.Info("Cannot confirm the result yet", "migration", m.Name, "error", err)
		d.decision = d.undecided(err, s.now.Sub(latest(d.run.heard(), s.since)))
	case result == epochOver:
		d.decision = d.voided(why)
	default:
		return succeeded(m, d.run, s.now)
	}
	return statusAfter(m, d.decision, s.now, c.firstRetry)
}

// latest returns the latest of several times.
func latest(moments ...time.Time) time.Time { return slices.MaxFunc(moments, time.Time.Compare) }

// announce reports once, in an Event and the log, what has become of a migration.
func (c *controller) announce(m *v1alpha1.StorageVersionMigration, before,
	after v1alpha1.StorageVersionMigrationStatus) {
	kind, action := corev1.EventTypeNormal, "Migrate"
	switch {
	case before.Run.Generation == after.Run.Generation && before.Run.Attempt == after.Run.Attempt &&
		before.State == after.State:
		return
	case after.State == v1alpha1.PhaseFailed:
		kind = corev1.EventTypeWarning
	case after.State == v1alpha1.PhasePending && before.Run == after.Run:
		return // for its turn: that is in the status
	}
	reason := string(after.State)
	if before.Run.Attempt != after.Run.Attempt || before.Run.Generation != after.Run.Generation {
		reason = "Started"
	}
	c.metrics.ended(m, before, after)
	c.events.Eventf(m, nil, kind, reason, action, "%s", after.Summary)
	c.log.Info("The state of a migration has changed", "migration", m.Name, "state", after.State,
		"generation", after.Run.Generation, "attempt", after.Run.Attempt, "summary", after.Summary)
}
