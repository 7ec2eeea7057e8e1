// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// silence is how long a live worker may go without a report: three times the interval between two of its reports.
	silence = 30 * time.Second
	// silentTooLong is when the controller gives up a worker that does not report.
	silentTooLong = 10 * time.Minute
	// lastWrites is how long a worker that was given up may still write if it lives after all: until its next report.
	lastWrites = 15 * time.Second
)

// lost returns why the run is given up, although it has not ended, or "". A silence counts from the time at which we
// could have seen a report.
func (f facts) lost(r run) string {
	if !r.active || r.incomplete || r.report != nil && r.report.Outcome != nil {
		return ""
	}
	silent := f.now.Sub(latest(r.heard(), f.since))
	switch {
	case r.broken != "":
		return "The controller gave up on the worker: " + r.broken
	case silent > silentTooLong:
		return f.noWord(r)
	case r.outdated && silent > silence:
		return "The image or the service account of workers changed. " + f.noWord(r)
	}
	return ""
}

// noWord describes a worker that does not report. The time is rounded, because a message that changes all the time
// would be written all the time.
func (f facts) noWord(r run) string {
	text := fmt.Sprintf("The worker has not reported for %s", f.now.Sub(r.heard()).Truncate(silence))
	if r.whereabouts != "" {
		text += ": " + r.whereabouts
	}
	return text
}

// replace starts an attempt with another image or service account than that of the broken one. It needs no backoff, but
// waits until a worker that was given up and lives after all has ended (I8).
func (f facts) replace(current run) decision {
	const message = "The image or the service account of workers changed: starting a new worker"
	if left := current.outcome().Ended.Add(lastWrites).Sub(f.now); left > 0 {
		return decision{step: stepNothing, phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonPending,
			message: message, again: left}
	}
	return f.next(current, message)
}

// firstReport is how long after its start a run's reports are not repeated. Most runs end before that, and each repeated
// report costs a write of the status.
const firstReport = time.Second

// following repeats the report of a live worker, and looks again when its silence would begin to matter.
func (f facts) following(current run) decision {
	if age := f.now.Sub(current.begun); age >= 0 && age < firstReport {
		current.report = nil
		d := reported(current)
		d.again = firstReport - age
		return d
	}
	d := reported(current)
	d.again = silence
	if silent := f.now.Sub(current.heard()); silent > silence {
		d.silent, d.message = true, f.noWord(current)
	}
	return d
}

const waitingForWorker = "Waiting for the worker to start"

// reported returns the decision that repeats the report of a worker.
func reported(current run) decision {
	d := decision{step: stepFollow, run: current, phase: v1alpha1.PhaseRunning, reason: v1alpha1.ReasonRewriting}
	r := current.report
	if r == nil {
		d.phase, d.reason, d.message = v1alpha1.PhasePending, v1alpha1.ReasonPending, waitingForWorker
		return d
	}
	switch r.Phase {
	case migrate.Preparing:
		d.message = "Checking permissions and readiness"
	case migrate.Waiting:
		d.phase, d.reason, d.message = v1alpha1.PhaseWaiting, v1alpha1.ReasonWaiting,
			"Waiting for the API servers: "+r.Waiting
	case migrate.Rewriting:
		d.message = "Rewriting objects"
	case migrate.Retrying:
		d.message = fmt.Sprintf("Retrying objects that could not be rewritten: %d", r.Counts.Failed)
	case migrate.Verifying:
		d.reason = v1alpha1.ReasonConfirming
		d.message = fmt.Sprintf("Reading every object once more: %d of %d", r.Verified, r.Total)
	case migrate.Confirming, migrate.Done:
		d.reason, d.message = v1alpha1.ReasonConfirming, "Confirming that the API servers still agree"
	}
	return d
}
