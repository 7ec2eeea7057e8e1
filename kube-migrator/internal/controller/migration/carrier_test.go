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
	c.roster = &worker.Roster{Tasks: []worker.Task{r.task()}}
	c.roster.Tasks[0].Number = 3
	c.roster.Process = "a"
	if change != nil {
		change(&c)
	}
	return c
}

func idle(c *carrier) { c.roster.Ended = []int64{3} }

func suspendedJob(c *carrier) { c.job.Spec.Suspend, c.working = new(true), false }

func TestWhatAJobSaysOfItsRun(t *testing.T) {
	for name, tt := range map[string]struct {
		run    func(*run)
		job    func(*carrier)
		active bool
		stray  bool // a second entry, of the Job
		broken bool
	}{
		"a run that a worker is at is active":                 {active: true},
		"a run whose Job is suspended and has no pods is not": {job: suspendedJob},
		"a run whose Job has failed is broken": {job: func(c *carrier) {
			c.working,
				c.broken = false, "failed"
		}, broken: true},
		"a run that has its outcome is not active":   {run: ended(worker.ResultProven)},
		"an idle worker says nothing":                {job: idle},
		"one that has never begun is of no use":      {job: func(c *carrier) { idle(c); c.roster.Process = "" }, stray: true},
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
			if got := all[0]; got.active != tt.active || (got.broken != "") != tt.broken || got.stray {
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
		"else a free one":              {[]carrier{free}, "free"},
		"also one that has other runs": {[]carrier{named("busy", carrying(other, nil)), free}, "busy"},
		"but none that has ended": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.working = false })}, ""},
		"nor one with another image": {[]carrier{carrying(other,
			func(c *carrier) { idle(c); c.superseded = true })}, ""},
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

// All runs of a Job count, and none of them is mistaken for that of another (I8).
func TestAJobSaysWhatItsWorkerIsAt(t *testing.T) {
	a, b, bereft := aRun(2, 1, nil), aRun(2, 2, ended(worker.ResultProven)), aRun(2, 3, nil)
	c := carrying(a, nil)
	for i, r := range []run{b, bereft} {
		c.roster.Tasks = append(c.roster.Tasks, r.task())
		c.roster.Tasks[i+1].Number = int64(4 + i)
	}
	all := withCarriers([]run{a, b}, []carrier{c})
	if len(all) != 3 || !all[0].active || all[1].active || all[1].job != "job" || !all[2].active ||
		!all[2].incomplete || all[2].name != bereft.name || all[2].resource != bereft.resource {
		t.Errorf("the runs are %+v", all)
	}
	c.superseded = true
	for _, r := range withCarriers([]run{a, b}, []carrier{c}) {
		if !r.superseded {
			t.Errorf("the run %s is not told that its worker is another one", r.name)
		}
	}
}

// Two workers at the same time would be two paces in the cluster.
func TestNothingStartsUntilAnotherWorkerHasStopped(t *testing.T) {
	old, ofOld := another("widgets", working)
	ofOld.superseded = true
	next, _ := another("gadgets", func(*run) {})
	decide := func(r run) (forOld, forNext decision) {
		p := planAll(snapshot{now: noon, live: true, migrations: []v1alpha1.StorageVersionMigration{old, next},
			runs: []run{r}}, 5, waits{firstRetry: time.Minute})
		for _, d := range p.migrations {
			if d.migration.UID == old.UID {
				forOld = d.decision
			} else {
				forNext = d.decision
			}
		}
		return forOld, forNext
	}
	ending := ofOld
	ending.superseded, ending.ending = false, true
	if _, forNext := decide(ending); forNext.step != stepNothing {
		t.Errorf("while its Job ends: %s, want %s", forNext.step, stepNothing)
	}
	if forOld, forNext := decide(ofOld); forOld.step != stepHalt || forOld.again != haltAgain || forNext.step != stepNothing {
		t.Errorf("while it works: %s and %s (%s), want %s and %s", forOld.step, forNext.step, forNext.message,
			stepHalt, stepNothing)
	}
	ofOld.active, ofOld.superseded = false, false
	if forOld, forNext := decide(ofOld); forOld.step != stepStart || forNext.step != stepStart {
		t.Errorf("once it has stopped: %s and %s, want both to start", forOld.step, forNext.step)
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
