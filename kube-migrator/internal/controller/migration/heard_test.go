// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// A run is as old as the oldest attempt whose checkpoint it goes on from.
func TestWhenARunStarted(t *testing.T) {
	started := func(at string, also func(*run)) func(*run) { return func(r *run) { r.start = at; also(r) } }
	failedBefore := func(m *v1alpha1.StorageVersionMigration) {
		m.Status.Run = v1alpha1.Run{Generation: 2, Attempt: 1, StartResourceVersion: "70"}
	}
	for name, test := range map[string]struct {
		migration func(*v1alpha1.StorageVersionMigration)
		runs      []run
		attempt   int64
		want      string
	}{
		"the first of a generation starts now": {attempt: 1, want: "90"},
		"one of an older generation does not matter": {runs: []run{aRun(1, 1,
			started("50", ended(worker.ResultObjectsFailed)))}, attempt: 1, want: "90"},
		"the next attempt goes on from the one before": {migration: failedBefore,
			runs: []run{aRun(2, 1, started("70", ended(worker.ResultStorageVersionMoved)))}, attempt: 2, want: "70"},
		"an attempt of an older controller is not known": {runs: []run{aRun(2, 1,
			started("", ended(worker.ResultStorageVersionMoved)))}, attempt: 2, want: ""},
		"a run that goes on after a pause is as it was": {runs: []run{aRun(2, 1, started("70", func(*run) {}))},
			attempt: 1, want: "70"},
		"an attempt without anything to go on from is new": {migration: failedBefore, attempt: 2, want: "90"},
	} {
		t.Run(name, func(t *testing.T) {
			m := aMigration(test.migration)
			d := decide(facts{now: noon, moment: "90", migration: m, runs: test.runs, firstRetry: time.Minute})
			if d.step != stepStart || d.run.attempt != test.attempt || d.run.start != test.want {
				t.Fatalf("%s of attempt %d since %q, want attempt %d since %q", d.step, d.run.attempt, d.run.start,
					test.attempt, test.want)
			}
			o := &metav1.ObjectMeta{Labels: d.run.metadata("n", metav1.OwnerReference{}).Labels,
				Annotations: d.run.metadata("n", metav1.OwnerReference{}).Annotations}
			if found, err := runOf(o); err != nil || found.start != test.want {
				t.Errorf("its Job says that it started at %q (%v)", found.start, err)
			}
			if s := statusAfter(m, d, noon, time.Minute); s.Run.StartResourceVersion != test.want {
				t.Errorf("its status says that it started at %q", s.Run.StartResourceVersion)
			}
		})
	}
}

// A status must not repeat the rate of a worker that stopped reporting.
func TestAStatusTellsThatNoWordHasCome(t *testing.T) {
	r := aRun(2, 1, silentFor(75*time.Second, func(r *run) {
		r.report.Total, r.report.Counts.Rewritten, r.report.ObjectsPerSecond = 1000, 500, 120
		r.whereabouts = "the Job x has no pod"
	}))
	m := aMigration(nil)
	of := func(now time.Time) v1alpha1.StorageVersionMigrationStatus {
		return statusAfter(m, decide(facts{now: now, migration: m, runs: []run{r}}), now, time.Minute)
	}
	s := of(noon.Add(-60 * time.Second))
	if s.Progress.ObjectsPerSecond != 120 || s.Progress.EstimatedCompletionTime.IsZero() ||
		s.Summary != "500 of 1000 objects, 120/s" {
		t.Errorf("while it reports: %+v, %q", s.Progress, s.Summary)
	}
	s = of(noon)
	if s.Progress.ObjectsPerSecond != 0 || !s.Progress.EstimatedCompletionTime.IsZero() || s.Progress.Done != 500 {
		t.Errorf("while it is silent: %+v", s.Progress)
	}
	if want := "The worker has not reported for 1m0s: the Job x has no pod"; s.Summary != want ||
		s.State != v1alpha1.PhaseRunning {
		t.Errorf("it says %s: %q, want %q", s.State, s.Summary, want)
	}
}

// A worker with several runs is silent only if all of them are.
func TestAWorkerIsHeardWithAnyOfItsRuns(t *testing.T) {
	runs := func(updated time.Time) []run {
		a, b, other := aRun(2, 1, nil), aRun(2, 2, nil), aRun(2, 3, nil)
		a.job, b.job, other.job = "job", "job", "other"
		b.report = &worker.Report{Updated: updated}
		return []run{a, b, other}
	}
	first, later := runs(noon), runs(noon.Add(time.Second))
	h := hearings(nil).listen(first, noon)
	h.listen(later, noon.Add(time.Minute))
	for i, want := range []time.Time{noon.Add(time.Minute), noon.Add(time.Minute), noon} {
		if got := later[i].workerHeardAt; !got.Equal(want) {
			t.Errorf("the worker of run %d was heard at %s, want %s", i, got, want)
		}
	}
	if !later[0].heardAt.Equal(noon) {
		t.Errorf("the run that reports nothing was heard at %s", later[0].heardAt)
	}
}
