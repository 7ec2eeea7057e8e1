// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// carrying is a Job whose worker is at a run.
func carrying(r run, change func(*carrier)) carrier {
	c := carrier{job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}},
		sheet: &corev1.ConfigMap{}, working: true}
	c.roster = &worker.Roster{Task: r.task()}
	c.roster.Task.Number = 3
	c.roster.Done = 2
	if change != nil {
		change(&c)
	}
	return c
}

func idle(c *carrier) { c.roster.Done = 3 }

func suspendedJob(c *carrier) { c.job.Spec.Suspend, c.working = new(true), false }

func TestWhatAJobSaysOfItsRun(t *testing.T) {
	for name, tt := range map[string]struct {
		run    func(*run)
		job    func(*carrier)
		active bool
		stray  bool // a second entry, of the Job
		broken bool
		leaves bool
	}{
		"a run that a worker is at is active":                 {active: true},
		"a run whose Job is suspended and has no pods is not": {job: suspendedJob},
		"a run whose Job has failed is broken": {job: func(c *carrier) {
			c.working,
				c.broken = false, "failed"
		}, broken: true},
		"a run that has its outcome is not active, and its worker leaves it": {run: ended(worker.ResultProven),
			leaves: true},
		"nor does a suspended worker leave what was given up": {run: ended(worker.ResultBroken),
			job: suspendedJob},
		"an idle worker says nothing":                {job: idle},
		"an idle Job that is suspended is of no use": {job: func(c *carrier) { idle(c); suspendedJob(c) }, stray: true},
		"an idle Job that has ended is of no use": {job: func(c *carrier) {
			idle(c)
			c.working, c.broken = false,
				"completed"
		}, stray: true},
		"a Job without a roster may do anything": {job: func(c *carrier) { c.roster = nil }, stray: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := aRun(2, 1, tt.run)
			all := withCarriers([]run{r}, []carrier{carrying(r, tt.job)})
			if got := all[0]; got.active != tt.active || (got.broken != "") != tt.broken ||
				got.leaving != tt.leaves || got.stray {
				t.Errorf("the run is %+v", got)
			}
			if (len(all) == 2) != tt.stray || tt.stray && !all[1].stray {
				t.Errorf("the runs are %+v", all)
			}
		})
	}
}

func TestARunIsCarriedOutByTheJobThatIsAtItElseByAFreeOne(t *testing.T) {
	r, other := aRun(2, 1, nil), aRun(1, 1, nil)
	named := func(name string, c carrier) carrier { c.job.Name = name; return c }
	free := named("free", carrying(other, idle))
	for name, tt := range map[string]struct {
		all  []carrier
		want string
	}{
		"the Job that is at it":        {[]carrier{free, named("at", carrying(r, nil))}, "at"},
		"also where that is suspended": {[]carrier{free, named("at", carrying(r, suspendedJob))}, "at"},
		"else a free one":              {[]carrier{named("busy", carrying(other, nil)), free}, "free"},
		"but none that has ended": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.working = false })}, ""},
		"nor one with another image": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.outdated = true })}, ""},
		"nor one that was told other times": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.otherwise = true })}, ""},
		"nor one that is being deleted": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.job.DeletionTimestamp = &metav1.Time{Time: noon} })}, ""},
		"nor one that takes nothing": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.roster.Closed = true })}, ""},
		"nor one that is being suspended": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); suspendedJob(c); c.working = true })}, ""},
		"nor one that cannot be read": {[]carrier{carrying(other, func(c *carrier) { c.roster = nil })}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if c := choose(tt.all, r); c != nil {
				got = c.job.Name
			}
			if got != tt.want {
				t.Errorf("chosen is %q, want %q", got, tt.want)
			}
		})
	}
}

// The controller is told of an outcome a moment before the worker can take the next run.
func TestAWorkerThatIsAboutToBeFreeIsWaitedForAndKept(t *testing.T) {
	next, _ := another("gadgets", func(*run) {})
	for name, tt := range map[string]struct {
		ended time.Time
		want  step
	}{
		"a moment after the outcome":                            {noon.Add(-time.Second), stepNothing},
		"not if it does not say so for a while":                 {noon.Add(-leaveTime), stepStart},
		"not if its clock is wrong, since no one can tell then": {noon.Add(time.Hour), stepStart},
	} {
		t.Run(name, func(t *testing.T) {
			m, r := another("widgets", ended(worker.ResultProven))
			m.Status.CompletedGeneration = 2
			r.job, r.leaving = "job", true
			r.report.Outcome.Ended = tt.ended
			p := planAll(snapshot{now: noon, live: true, migrations: []v1alpha1.StorageVersionMigration{m, next},
				runs: []run{r}}, 1, waits{firstRetry: time.Minute})
			for _, d := range p.migrations {
				if d.migration.UID == next.UID && d.step != tt.want {
					t.Errorf("the next run: %s (%s), want %s", d.step, d.message, tt.want)
				}
				if d.migration.UID == m.UID && (len(d.remove) == 0) != (tt.want == stepNothing) {
					t.Errorf("removed are %+v", d.remove)
				}
			}
			if tt.want == stepNothing && p.again() != settleInterval {
				t.Errorf("again after %s", p.again())
			}
		})
	}
}

// Whatever it rewrites, it may be the same resource (I8).
func TestNothingStartsNextToAJobInAnUnknownState(t *testing.T) {
	m, _ := another("widgets", func(*run) {})
	unknown := withCarriers(nil, []carrier{carrying(aRun(1, 1, nil), func(c *carrier) { c.roster = nil })})
	for most, want := range map[int]step{1: stepNothing, 5: stepNothing} {
		p := planAll(snapshot{now: noon, live: true, migrations: []v1alpha1.StorageVersionMigration{m},
			runs: unknown}, most, waits{firstRetry: time.Minute})
		if d := p.migrations[0]; d.step != want {
			t.Errorf("with %d at a time: %s, want %s", most, d.step, want)
		}
		if len(p.orphans) != 1 || !p.orphans[0].stray || !p.consequential() {
			t.Errorf("to be removed are %+v", p.orphans)
		}
	}
}
