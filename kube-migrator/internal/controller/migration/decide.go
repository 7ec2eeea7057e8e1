// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// facts is everything that the decision about one migration relies on.
type facts struct {
	now       time.Time
	since     time.Time // every look since then has succeeded
	migration *v1alpha1.StorageVersionMigration
	runs      []run // of this migration, the newest last
	// moment is the resourceVersion of the collection of migrations.
	moment string
	// firstRetry is the backoff after the first failure.
	firstRetry time.Duration
	// settleTime is how long a run that gave its turn away may have to wait for its epoch to settle.
	settleTime time.Duration
}

// step is what to do for a migration.
type step string

const (
	stepNothing  step = "nothing"
	stepStart    step = "start"    // the run, if it is its turn
	stepHalt     step = "halt"     // the run
	stepGiveUp   step = "giveUp"   // the run: its worker stopped reporting
	stepFollow   step = "follow"   // the run works: repeat what it reports
	stepConclude step = "conclude" // compare the epoch; if it lasts, prune and say Succeeded
	stepVoid     step = "void"     // record that the run proves nothing: the next attempt takes its turn
	// record when the epoch of the run can have settled: the next attempt takes its turn then
	stepPostpone step = "postpone"
	stepFail     step = "fail" // record the failure of the run, and when to try again
	// accept the Succeeded condition of another program for the first generation, without a proof
	stepAdopt step = "adopt"
)

// decision is what to do for a migration, and what its status says in the meantime.
type decision struct {
	step step
	// run is the run that the step is about.
	run run
	// seed names the run whose checkpoint a new run starts with.
	seed string
	// remove are runs that are no longer needed.
	remove []run

	phase   v1alpha1.Phase
	reason  string
	message string
	// silent means that the worker has not reported for a while.
	silent bool
	// again is when to look again without an event; zero means never.
	again time.Duration
}

// decide decides what to do. It is pure, and uses no state of its own but what is recorded: a controller that dies at
// any point makes the same decision when it is back.
func decide(f facts) decision {
	generation := f.migration.Spec.Generation
	var current run
	var others, earlier []run
	for _, r := range f.runs { // the newest last
		switch {
		case r.generation != generation:
			others = append(others, r)
		case current.name != "":
			earlier = append(earlier, current)
			fallthrough
		default:
			current = r
		}
	}
	d := f.forCurrent(current, others)
	d.remove = append(d.remove, others...)
	if d.step == stepStart && d.run.name == current.name && len(earlier) > 0 {
		d.seed = earlier[len(earlier)-1].name // the creation was interrupted
	}
	if current.name != "" && !current.incomplete {
		d.remove = append(d.remove, earlier...) // the newer run contains their checkpoint
	}
	return d
}

// forCurrent decides about the newest run of the present generation; its name is empty if there is none. others are
// runs of other generations: no run starts before they have stopped writing (I8).
func (f facts) forCurrent(current run, others []run) decision {
	status, generation := f.migration.Status, f.migration.Spec.Generation
	completed := status.CompletedGeneration >= generation
	outcome := current.outcome()
	switch {
	case completed:
		return f.finished(current)
	case f.adopted() && current.name == "":
		return decision{step: stepAdopt, phase: v1alpha1.PhaseSucceeded, reason: v1alpha1.ReasonAdopted,
			message: adoptedMessage}
	case f.migration.Spec.State == v1alpha1.StateCancelled:
		return cancelled(current)
	case f.migration.Spec.State == v1alpha1.StatePaused:
		return paused(current)
	case active(others):
		return decision{step: stepNothing, phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonPending,
			message: "Waiting for the previous run to stop"}
	case current.removing:
		return decision{step: stepNothing, phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonPending,
			message: "Waiting for the previous attempt to be removed"}
	case f.lost(current) != "":
		return decision{step: stepGiveUp, run: current, phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonPending,
			silent: true, message: f.lost(current)}
	case outcome != nil && outcome.Result == worker.ResultProven && !f.recorded(current):
		return decision{step: stepConclude, run: current, phase: v1alpha1.PhaseRunning,
			reason:  v1alpha1.ReasonConfirming,
			message: "Checking that the epoch still lasts before success is reported"}
	case outcome != nil && outcome.Result == worker.ResultUnsettled && !f.recorded(current):
		d := unsettled(current)
		d.step, d.again = stepPostpone, settleInterval
		return d
	case outcome != nil && outcome.Result == worker.ResultStorageVersionMoved:
		return f.next(current, "The storage version changed: starting over")
	case outcome != nil && outcome.Result == worker.ResultBroken && current.outdated:
		return f.replace(current)
	case outcome != nil && !f.recorded(current):
		return decision{step: stepFail, run: current, phase: v1alpha1.PhaseFailed, reason: string(outcome.Result),
			message: outcome.Message}
	case f.backingOff():
		return f.waiting(current)
	case current.name == "" || outcome != nil:
		return f.next(current, "Waiting for its turn")
	case current.active && current.superseded && !current.incomplete:
		return decision{step: stepHalt, run: current, phase: v1alpha1.PhaseRunning, reason: v1alpha1.ReasonRewriting,
			message: "Stopping: a worker with the present image and settings continues", again: haltAgain}
	case current.active && !current.incomplete:
		return f.following(current)
	}
	return decision{step: stepStart, run: current, phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonPending,
		message: "Resuming where it stopped"}
}

const adoptedMessage = "Succeeded before kube-migrator was installed: no proof is recorded. Raise spec.generation to " +
	"run it again"

// adopted reports whether kube-storage-version-migrator has carried out the migration. That program knows no
// generations, and writes only conditions.
func (f facts) adopted() bool {
	s := f.migration.Status
	return f.migration.Spec.Generation <= 1 && s.Run.Generation == 0 && s.CompletedGeneration == 0 &&
		slices.ContainsFunc(s.Conditions, func(c v1alpha1.Condition) bool {
			return c.Type == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionTrue
		})
}

// active reports whether objects may be written for one of the runs.
func active(rs []run) bool {
	for _, r := range rs {
		if r.active {
			return true
		}
	}
	return false
}

// finished decides about a generation that has succeeded.
func (f facts) finished(current run) decision {
	d := decision{step: stepNothing, phase: v1alpha1.PhaseSucceeded, reason: v1alpha1.ReasonProven,
		message: f.migration.Status.Summary}
	if f.migration.Status.Run.Generation == 0 {
		d.reason = v1alpha1.ReasonAdopted
	}
	if current.name != "" {
		d.remove = []run{current}
	}
	return d
}

const stopping = "Stopping: finishing the requests in flight"

func paused(current run) decision {
	d := decision{step: stepNothing, run: current, phase: v1alpha1.PhasePaused, reason: v1alpha1.ReasonPaused,
		message: "Nothing is written until spec.state is Active"}
	if current.active {
		d.step, d.message, d.again = stepHalt, stopping, haltAgain
	} else if current.job != "" && current.outcome() == nil {
		d.step = stepHalt // its Job has no pods, and is removed when it has no run any more
	}
	return d
}

// cancelled decides about a cancelled migration: nothing more is written, and the next request starts from the first
// object.
func cancelled(current run) decision {
	d := decision{step: stepNothing, phase: v1alpha1.PhaseCancelled, reason: v1alpha1.ReasonCancelled,
		message: "Nothing is written until spec.state is Active"}
	if current.name != "" {
		d.remove = []run{current}
	}
	if current.active {
		d.message = stopping
	}
	return d
}

// recorded reports whether the status already says that r has failed or proves nothing. The next attempt is due at
// RetryTime.
func (f facts) recorded(r run) bool {
	s := f.migration.Status.Run
	return s.Generation == r.generation && s.Attempt >= r.attempt && !s.RetryTime.IsZero()
}

func (f facts) backingOff() bool {
	s := f.migration.Status.Run
	return s.Generation == f.migration.Spec.Generation && f.untilRetry() > 0
}

// untilRetry returns how long it takes until the next attempt is due. A controller whose clock was ahead may have
// recorded a time that neither the backoff nor the settle time explains. Such a time does not count, because the
// migration would stand still until then (I5).
func (f facts) untilRetry() time.Duration {
	s := f.migration.Status.Run
	left := s.RetryTime.Sub(f.now)
	if f.firstRetry > 0 && left > max(retryAfter(f.firstRetry, f.migration.Status), migrate.DefaultSettleTime, f.settleTime) {
		return 0
	}
	return left
}

// unsettled decides about a run that has given its turn away until its epoch can have settled.
func unsettled(current run) decision {
	return decision{
		step: stepNothing, run: current, phase: v1alpha1.PhaseWaiting, reason: v1alpha1.ReasonWaiting,
		message: "Waiting for the API servers: requests that began before they agreed may still write",
	}
}

// waiting decides about a migration whose last attempt has failed and whose next one is not due yet. The failures stay
// readable.
func (f facts) waiting(current run) decision {
	s := f.migration.Status
	d := decision{step: stepNothing, run: current, phase: v1alpha1.PhaseFailed, again: f.untilRetry()}
	if o := current.outcome(); o != nil && o.Result == worker.ResultUnsettled {
		d = unsettled(current)
		d.again = f.untilRetry()
		return d
	}
	for _, c := range s.Conditions {
		if c.Type == v1alpha1.ConditionFailed {
			d.reason, d.message = c.Reason, c.Message
		}
	}
	if d.reason == "" {
		d.reason = v1alpha1.ReasonRetrying
	}
	return d
}

// judgePatience is how long after the end of a run the controller tries to compare its epoch.
const judgePatience = 10 * time.Minute

// voided decides about a proven run whose epoch has ended, and with it the proof. It does not start the next attempt,
// because another migration may have taken the turn since the worker ended (I8).
func (d decision) voided(why string) decision {
	d.step, d.phase, d.reason, d.message = stepVoid, v1alpha1.PhasePending, v1alpha1.ReasonPending,
		"The run proves nothing: "+why
	d.again = settleInterval
	return d
}

// undecided decides about a proven run whose epoch could not be compared; inVain is for how long. After judgePatience
// it fails the run. The next attempt resumes from a complete checkpoint.
func (d decision) undecided(problem error, inVain time.Duration) decision {
	if inVain > judgePatience {
		d.step, d.phase, d.reason = stepFail, v1alpha1.PhaseFailed, string(worker.ResultNoAgreement)
		d.message = fmt.Sprintf("The sweep is complete, but its epoch could not be compared for %s: %v",
			inVain.Truncate(time.Minute), problem)
		return d
	}
	d.message, d.again = "Cannot confirm the result yet: "+problem.Error(), 5*time.Second
	return d
}

// next starts the next attempt, with the checkpoint of the current one.
func (f facts) next(current run, message string) decision {
	attempt := current.attempt
	if s := f.migration.Status.Run; s.Generation == f.migration.Spec.Generation {
		attempt = max(attempt, s.Attempt)
	}
	r := newRun(f.migration, f.migration.Spec.Generation, attempt+1)
	if r.start = current.start; current.name == "" {
		r.start = f.moment
	}
	return decision{
		step: stepStart, run: r, seed: current.name,
		phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonPending, message: message,
	}
}
