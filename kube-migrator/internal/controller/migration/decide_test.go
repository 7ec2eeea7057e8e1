// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// aMigration has asked for generation 2, of which nothing has been done.
func aMigration(change func(*v1alpha1.StorageVersionMigration)) *v1alpha1.StorageVersionMigration {
	m := &v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.demo.example.com", UID: "12345678-aaaa", Generation: 2},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource:   v1alpha1.GroupVersionResource{Group: "demo.example.com", Resource: "widgets"},
			Generation: 2, State: v1alpha1.StateActive,
		},
	}
	if change != nil {
		change(m)
	}
	return m
}

func aRun(generation, attempt int64, change func(*run)) run {
	r := newRun(aMigration(nil), generation, attempt)
	r.begun = noon.Add(-firstReport)
	if change != nil {
		change(&r)
	}
	return r
}

func working(r *run) { r.active, r.report = true, &worker.Report{Phase: "Rewriting", Updated: noon} }

// silentFor is a worker that was heard of last that long ago.
func silentFor(d time.Duration, also ...func(*run)) func(*run) {
	return func(r *run) {
		working(r)
		r.begun, r.report.Updated = noon.Add(-time.Hour), noon.Add(-d)
		for _, f := range also {
			f(r)
		}
	}
}

func outdated(r *run) { r.outdated = true }

func neverHeard(r *run) { r.begun, r.report = r.report.Updated, nil }

func ended(v worker.Result) func(*run) {
	return func(r *run) { r.report = &worker.Report{Outcome: &worker.Outcome{Result: v, Message: "because"}} }
}

// byAnother is a migration that kube-storage-version-migrator has written a condition of.
func byAnother(condition v1alpha1.ConditionType, generation int64) func(*v1alpha1.StorageVersionMigration) {
	return func(m *v1alpha1.StorageVersionMigration) {
		m.Spec.Generation, m.Generation = generation, generation
		m.Status.Conditions = []v1alpha1.Condition{{Type: condition, Status: metav1.ConditionTrue,
			LastUpdateTime: metav1.NewTime(noon)}}
	}
}

func TestWhatAnotherProgramFinishedIsAtRestWithoutAProof(t *testing.T) {
	m := aMigration(byAnother(v1alpha1.ConditionSucceeded, 1))
	for range 2 {
		d := decide(facts{now: noon, migration: m, firstRetry: time.Minute})
		m.Status = statusAfter(m, d, noon, time.Minute)
		s := m.Status
		if s.State != v1alpha1.PhaseSucceeded || s.CompletedGeneration != 1 || s.ObservedGeneration != 1 ||
			s.Epoch != nil || s.StorageVersionHash != "" || s.Summary != adoptedMessage {
			t.Errorf("status is %+v", s)
		}
		for _, c := range s.Conditions {
			if c.Type == v1alpha1.ConditionSucceeded && (c.Status != metav1.ConditionTrue ||
				c.Reason != v1alpha1.ReasonAdopted) {
				t.Errorf("condition is %+v", c)
			}
		}
	}
	m.Spec.TTLSecondsAfterFinished = new(int32(60))
	if left := untilExpiry(m, noon); !expires(m) || left != time.Minute {
		t.Errorf("it expires in %v: its time after success has not begun with its adoption", left)
	}
}

func TestDecide(t *testing.T) {
	type want struct {
		step    step
		run     string
		seed    string
		removes []string
		phase   v1alpha1.Phase
		again   time.Duration
	}
	paused := func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused }
	cancelledBy := func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StateCancelled }
	failedOnce := func(retry time.Duration) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) {
			m.Status.Run = v1alpha1.Run{Generation: 2, Attempt: 1, Failures: 1,
				RetryTime: metav1.NewTime(noon.Add(retry))}
		}
	}
	succeeded := func(m *v1alpha1.StorageVersionMigration) {
		m.Status.CompletedGeneration = 2
		m.Status.Progress.CompletionTime = metav1.NewTime(noon.Add(-time.Minute))
	}
	for name, test := range map[string]struct {
		migration func(*v1alpha1.StorageVersionMigration)
		runs      []run
		since     time.Time
		want      want
	}{
		"what kube-storage-version-migrator has finished is left alone": {
			migration: byAnother(v1alpha1.ConditionSucceeded, 1),
			want:      want{step: stepAdopt, phase: v1alpha1.PhaseSucceeded},
		},
		"what kube-storage-version-migrator has finished is run again when that is asked for": {
			migration: byAnother(v1alpha1.ConditionSucceeded, 2),
			want:      want{step: stepStart, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"what kube-storage-version-migrator has not finished is started": {
			migration: byAnother(v1alpha1.ConditionRunning, 1),
			want:      want{step: stepStart, run: "migrate-12345678-1-1", phase: v1alpha1.PhasePending},
		},
		"what kube-storage-version-migrator has failed at is started": {
			migration: byAnother(v1alpha1.ConditionFailed, 1),
			want:      want{step: stepStart, run: "migrate-12345678-1-1", phase: v1alpha1.PhasePending},
		},
		"what is cancelled does not start": {
			migration: cancelledBy, want: want{step: stepNothing, phase: v1alpha1.PhaseCancelled},
		},
		"a run that is cancelled is removed with its checkpoint": {
			migration: cancelledBy, runs: []run{aRun(1, 1, working),
				aRun(2, 1, ended(worker.ResultObjectsFailed)), aRun(2, 2, working)},
			want: want{step: stepNothing, removes: []string{"migrate-12345678-2-2", "migrate-12345678-1-1",
				"migrate-12345678-2-1"}, phase: v1alpha1.PhaseCancelled},
		},
		"what has succeeded before it was cancelled has succeeded": {
			migration: func(m *v1alpha1.StorageVersionMigration) { cancelledBy(m); succeeded(m) },
			want:      want{step: stepNothing, phase: v1alpha1.PhaseSucceeded},
		},
		"what was asked for is started": {
			want: want{step: stepStart, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"a run of an older generation is removed before the new one starts": {
			runs: []run{aRun(1, 1, working)},
			want: want{step: stepNothing, removes: []string{"migrate-12345678-1-1"}, phase: v1alpha1.PhasePending},
		},
		"a run of an older generation that writes no more keeps no one": {
			runs: []run{aRun(1, 1, ended(worker.ResultObjectsFailed))},
			want: want{step: stepStart, run: "migrate-12345678-2-1", removes: []string{"migrate-12345678-1-1"},
				phase: v1alpha1.PhasePending},
		},
		"a run that works is followed": {
			runs: []run{aRun(2, 1, working)},
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning, again: silence},
		},
		"the reports of a run that has just begun are not repeated": {
			runs: []run{aRun(2, 1, func(r *run) { working(r); r.begun = noon.Add(-firstReport / 4) })},
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending,
				again: firstReport - firstReport/4},
		},
		"a run that has begun in the future, by another clock, is followed": {
			runs: []run{aRun(2, 1, func(r *run) { working(r); r.begun = noon.Add(time.Minute) })},
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning, again: silence},
		},
		"a worker that is silent is followed": {
			runs: []run{aRun(2, 1, silentFor(9*time.Minute))},
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning, again: silence},
		},
		"a worker that is silent for too long is given up": {
			runs: []run{aRun(2, 1, silentFor(11*time.Minute))},
			want: want{step: stepGiveUp, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"a worker that never came is given up": {
			runs: []run{aRun(2, 1, silentFor(11*time.Minute, neverHeard))},
			want: want{step: stepGiveUp, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"a silence that no one could hear does not count": {
			runs: []run{aRun(2, 1, silentFor(11*time.Minute, outdated))}, since: noon.Add(-20 * time.Second),
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning, again: silence},
		},
		"a run that goes on after a pause has not been silent meanwhile": {
			runs: []run{aRun(2, 1, silentFor(time.Hour, func(r *run) { r.begun = noon.Add(-firstReport) }))},
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning, again: silence},
		},
		"a worker with another image that reports is followed": {
			runs: []run{aRun(2, 1, silentFor(20*time.Second, outdated))},
			want: want{step: stepFollow, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning, again: silence},
		},
		"a worker with another image that never came is given up soon": {
			runs: []run{aRun(2, 1, silentFor(40*time.Second, outdated, neverHeard))},
			want: want{step: stepGiveUp, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"what broke with another image is replaced without a backoff": {
			migration: failedOnce(time.Hour), runs: []run{aRun(2, 1,
				func(r *run) { ended(worker.ResultBroken)(r); outdated(r) })},
			want: want{step: stepStart, run: "migrate-12345678-2-2", seed: "migrate-12345678-2-1",
				phase: v1alpha1.PhasePending},
		},
		"what was given up is not replaced before its worker must have noticed": {
			runs: []run{aRun(2, 1, func(r *run) {
				ended(worker.ResultBroken)(r)
				outdated(r)
				r.report.Outcome.Ended = noon.Add(-5 * time.Second)
			})},
			want: want{step: stepNothing, phase: v1alpha1.PhasePending, again: 10 * time.Second},
		},
		"a worker whose report is unreadable is given up": {
			runs: []run{aRun(2, 1, func(r *run) { r.active, r.broken = true, "its report cannot be read" })},
			want: want{step: stepGiveUp, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"a run of unknown generation is removed before another starts": {
			runs: []run{aRun(0, 0, func(r *run) { r.active = true })},
			want: want{step: stepNothing, removes: []string{"migrate-12345678-0-0"}, phase: v1alpha1.PhasePending},
		},
		"a run whose creation was cut short is completed": {
			runs: []run{aRun(2, 1, func(r *run) { r.active, r.incomplete = true, true })},
			want: want{step: stepStart, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"an attempt that seeds one whose creation was cut short stays": {
			migration: failedOnce(-time.Second),
			runs: []run{
				aRun(2, 1, ended(worker.ResultObjectsFailed)),
				aRun(2, 2, func(r *run) { r.active, r.incomplete = true, true }),
			},
			want: want{step: stepStart, run: "migrate-12345678-2-2", seed: "migrate-12345678-2-1",
				phase: v1alpha1.PhasePending},
		},
		"an attempt that has seeded the next is removed": {
			migration: failedOnce(-time.Second),
			runs:      []run{aRun(2, 1, ended(worker.ResultObjectsFailed)), aRun(2, 2, working)},
			want: want{step: stepFollow, run: "migrate-12345678-2-2", removes: []string{"migrate-12345678-2-1"},
				phase: v1alpha1.PhaseRunning, again: silence},
		},
		"a run without a worker goes on": {
			runs: []run{aRun(2, 1, nil)},
			want: want{step: stepStart, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"a paused migration is halted": {
			migration: paused, runs: []run{aRun(2, 1, working)},
			want: want{step: stepHalt, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePaused, again: time.Second},
		},
		"a paused migration starts nothing": {
			migration: paused,
			want:      want{step: stepNothing, phase: v1alpha1.PhasePaused},
		},
		"a paused migration concludes nothing": {
			migration: paused, runs: []run{aRun(2, 1, ended(worker.ResultProven))},
			want: want{step: stepNothing, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePaused},
		},
		"a proven run is concluded": {
			runs: []run{aRun(2, 1, ended(worker.ResultProven))},
			want: want{step: stepConclude, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseRunning},
		},
		"a proven run of an older generation concludes nothing": {
			runs: []run{aRun(1, 1, ended(worker.ResultProven))},
			want: want{step: stepStart, run: "migrate-12345678-2-1", removes: []string{"migrate-12345678-1-1"},
				phase: v1alpha1.PhasePending},
		},
		"a proven run that proves nothing is followed by another attempt": {
			migration: func(m *v1alpha1.StorageVersionMigration) {
				m.Status = statusAfter(m, decision{step: stepConclude,
					run: aRun(2, 1, ended(worker.ResultProven))}.voided("a restart"), noon, time.Minute)
			},
			runs: []run{aRun(2, 1, ended(worker.ResultProven))},
			want: want{step: stepStart, run: "migrate-12345678-2-2", seed: "migrate-12345678-2-1",
				phase: v1alpha1.PhasePending},
		},
		"a proven run whose epoch could not be compared for too long is a failure that waits": {
			migration: func(m *v1alpha1.StorageVersionMigration) {
				d := decision{step: stepConclude, run: aRun(2, 1,
					ended(worker.ResultProven))}.undecided(errors.New("no answer"),
					11*time.Minute)
				m.Status = statusAfter(m, d, noon, time.Minute)
			},
			runs: []run{aRun(2, 1, ended(worker.ResultProven))},
			want: want{step: stepNothing, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseFailed, again: time.Minute},
		},
		"after the storage version has moved a new attempt begins at once": {
			runs: []run{aRun(2, 1, ended(worker.ResultStorageVersionMoved))},
			want: want{step: stepStart, run: "migrate-12345678-2-2", seed: "migrate-12345678-2-1",
				phase: v1alpha1.PhasePending},
		},
		"a failure is recorded": {
			runs: []run{aRun(2, 1, ended(worker.ResultObjectsFailed))},
			want: want{step: stepFail, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseFailed},
		},
		"a job that has given up is a failure": {
			runs: []run{aRun(2, 1, func(r *run) { r.broken = "backoff limit" })},
			want: want{step: stepFail, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseFailed},
		},
		"a recorded failure waits": {
			migration: failedOnce(time.Minute), runs: []run{aRun(2, 1, ended(worker.ResultObjectsFailed))},
			want: want{step: stepNothing, run: "migrate-12345678-2-1", phase: v1alpha1.PhaseFailed, again: time.Minute},
		},
		"a failure whose run is gone waits all the same": {
			migration: failedOnce(time.Minute),
			want:      want{step: stepNothing, phase: v1alpha1.PhaseFailed, again: time.Minute},
		},
		"a failure is tried again with its checkpoint": {
			migration: failedOnce(-time.Second), runs: []run{aRun(2, 1, ended(worker.ResultObjectsFailed))},
			want: want{step: stepStart, run: "migrate-12345678-2-2", seed: "migrate-12345678-2-1",
				phase: v1alpha1.PhasePending},
		},
		"a second failure is recorded too": {
			migration: func(m *v1alpha1.StorageVersionMigration) {
				m.Status.Run = v1alpha1.Run{Generation: 2, Attempt: 2, Failures: 1}
			},
			runs: []run{aRun(2, 2, ended(worker.ResultForbidden))},
			want: want{step: stepFail, run: "migrate-12345678-2-2", phase: v1alpha1.PhaseFailed},
		},
		"a higher generation does not wait for the retry of an older one": {
			migration: func(m *v1alpha1.StorageVersionMigration) {
				m.Status.Run = v1alpha1.Run{Generation: 1, Attempt: 3, Failures: 3,
					RetryTime: metav1.NewTime(noon.Add(time.Hour))}
			},
			want: want{step: stepStart, run: "migrate-12345678-2-1", phase: v1alpha1.PhasePending},
		},
		"a deleted run is started again under another name": {
			migration: func(m *v1alpha1.StorageVersionMigration) {
				m.Status.Run = v1alpha1.Run{Generation: 2, Attempt: 1}
			},
			want: want{step: stepStart, run: "migrate-12345678-2-2", phase: v1alpha1.PhasePending},
		},
		"an attempt that is being removed is waited for": {
			runs: []run{aRun(2, 1, func(r *run) { r.active, r.removing = true, true })},
			want: want{step: stepNothing, phase: v1alpha1.PhasePending},
		},
		"what has succeeded is tidied up": {
			migration: succeeded, runs: []run{aRun(2, 1, ended(worker.ResultProven))},
			want: want{step: stepNothing, removes: []string{"migrate-12345678-2-1"}, phase: v1alpha1.PhaseSucceeded},
		},
		"what has succeeded is not deleted by a pass": {
			migration: func(m *v1alpha1.StorageVersionMigration) {
				succeeded(m)
				m.Spec.TTLSecondsAfterFinished = new(int32(60))
			},
			want: want{step: stepNothing, phase: v1alpha1.PhaseSucceeded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(facts{now: noon, since: test.since, migration: aMigration(test.migration), runs: test.runs,
				firstRetry: time.Minute})
			got := want{step: d.step, run: d.run.name, seed: d.seed, phase: d.phase, again: d.again}
			for _, r := range d.remove {
				got.removes = append(got.removes, r.name)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
