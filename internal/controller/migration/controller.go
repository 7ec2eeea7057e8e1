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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// controller looks at all migrations in one pass: whose turn it is depends on all of them, and one goroutine cannot
// decide twice. Passes are cheap: what they read is in the cache, unless something is to be done.
type controller struct {
	client     client.Client
	live       client.Reader
	rest       rest.Interface
	runs       runs
	judge      *judge
	events     events.EventRecorder
	metrics    *metrics
	log        *slog.Logger
	most       int
	firstRetry time.Duration

	since time.Time // every look since then has succeeded; zero: the last one failed
}

// everything is the one thing that there is to reconcile.
type everything struct{}

var _ reconcile.TypedReconciler[everything] = (*controller)(nil)

// settleInterval gathers what happens within it into one pass.
const settleInterval = 100 * time.Millisecond

// Reconcile is one pass.
func (c *controller) Reconcile(ctx context.Context, _ everything) (reconcile.Result, error) {
	s, err := c.look(ctx, false)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := planAll(s, c.most, c.firstRetry)
	if p.consequential() {
		if s, err = c.look(ctx, true); err != nil {
			return reconcile.Result{}, err
		}
		p = planAll(s, c.most, c.firstRetry)
	}
	err = c.carryOut(ctx, p, s)
	c.metrics.show(s)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.again()}, nil
}

// look reads everything there is, and notes since when that succeeds: who has not looked cannot tell how long a worker has been silent.
func (c *controller) look(ctx context.Context, live bool) (snapshot, error) {
	s, err := c.read(ctx, live)
	if err != nil {
		c.since = time.Time{}
		return s, err
	}
	if c.since.IsZero() {
		c.since = s.now
	}
	s.since = c.since
	return s, nil
}

func (c *controller) read(ctx context.Context, live bool) (snapshot, error) {
	reader := client.Reader(c.client)
	if live {
		reader = c.live
	}
	s := snapshot{now: time.Now(), live: live}
	// Runs first: a migration that is created in between has none, whereas a run whose migration we miss would be taken for an orphan.
	var err error
	if s.runs, err = c.runs.list(ctx, live); err != nil {
		return s, err
	}
	found := new(v1alpha1.StorageVersionMigrationList)
	if err := reader.List(ctx, found); err != nil {
		return s, fmt.Errorf("list migrations: %w", err)
	}
	s.migrations, s.moment = found.Items, found.ResourceVersion
	if live {
		s.inTree = readInTree(ctx, c.rest, s.now)
	}
	return s, nil
}

// carryOut does what was planned. What fails for one migration is tried again, and does not keep the others. What starts comes first: its worker is at work while
// the verdict on the run before, which takes longer, is found.
func (c *controller) carryOut(ctx context.Context, p plan, s snapshot) error {
	var problems []error
	for _, r := range p.orphans {
		if err := c.runs.remove(ctx, r); err != nil {
			problems = append(problems, err)
		}
	}
	for _, starting := range []bool{true, false} {
		for i := range p.migrations {
			d := &p.migrations[i]
			if (d.step == start) != starting {
				continue
			}
			if err := c.do(ctx, d, s); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				problems = append(problems, fmt.Errorf("migration %s: %w", d.migration.Name, err))
			} else if err != nil {
				d.again = settleInterval // it has changed meanwhile
			}
		}
	}
	return errors.Join(problems...)
}

// do does what is to be done for one migration, then tells of it. Dying after any step repeats it: each finds what it did.
func (c *controller) do(ctx context.Context, d *planned, s snapshot) error {
	m := d.migration
	for _, r := range d.remove {
		if err := c.runs.remove(ctx, r); err != nil {
			return err
		}
		if r.active {
			d.again = time.Second // a worker in this process has to end first
		}
	}
	next := statusAfter(m, d.decision, s.now, c.firstRetry)
	switch d.step {
	case nothing, follow:
	case start:
		if err := c.runs.start(ctx, m, d.run, d.seed); err != nil {
			return err
		}
	case halt:
		if err := c.runs.halt(ctx, d.run); err != nil {
			return err
		}
	case giveUp:
		if err := c.runs.giveUp(ctx, d.run, d.message); err != nil {
			return err
		}
	case conclude:
		next = c.conclude(ctx, d, s)
	case void, postpone, fail, adopt:
	case expire:
		return c.expire(ctx, m)
	}
	if !changed(m.Status, next) {
		return nil
	}
	before := m.Status
	m.Status = next
	// Under the resourceVersion that was decided upon: somebody else's write is looked at first.
	if err := c.client.Status().Update(ctx, m); err != nil {
		return err
	}
	if d.step == adopt {
		c.log.Info("A migration has succeeded before", "migration", m.Name)
		return nil
	}
	c.announce(m, before, next)
	return nil
}

// conclude asks the judge about a run that its worker takes to be proven, and returns the status that tells of the answer.
func (c *controller) conclude(ctx context.Context, d *planned, s snapshot) v1alpha1.StorageVersionMigrationStatus {
	m := d.migration
	result, why, err := c.judge.conclude(ctx, m, d.run)
	switch {
	case err != nil:
		c.log.Info("Cannot conclude yet", "migration", m.Name, "error", err)
		d.decision = d.undecided(err, s.now.Sub(latest(d.run.outcome().Ended, s.since)))
	case result == over:
		d.decision = d.voided(why)
	default:
		return succeeded(m, d.run, s.now)
	}
	return statusAfter(m, d.decision, s.now, c.firstRetry)
}

// latest returns the last of some moments.
func latest(moments ...time.Time) time.Time { return slices.MaxFunc(moments, time.Time.Compare) }

func (c *controller) expire(ctx context.Context, m *v1alpha1.StorageVersionMigration) error {
	c.log.Info("Deleting a migration: its time after success is over", "migration", m.Name)
	return c.client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
}

// announce tells people, once, what has become of a migration.
func (c *controller) announce(m *v1alpha1.StorageVersionMigration, before, after v1alpha1.StorageVersionMigrationStatus) {
	kind, action := corev1.EventTypeNormal, "Migrate"
	switch {
	case before.Run.Generation == after.Run.Generation && before.Run.Attempt == after.Run.Attempt && before.State == after.State:
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
