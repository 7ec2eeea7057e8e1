// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// another is a migration of another resource, with its first run.
func another(resource string, change func(*run)) (v1alpha1.StorageVersionMigration, run) {
	m := aMigration(func(m *v1alpha1.StorageVersionMigration) {
		m.Name, m.UID, m.Spec.Resource.Resource = resource+".demo.example.com", types.UID("of-"+resource), resource
	})
	r := newRun(m, 2, 1)
	change(&r)
	return *m, r
}

// A run that proves nothing has given its turn away when its worker ended: what comes after it waits like everybody
// (I8).
func TestTheAttemptAfterARunThatProvesNothingWaitsForItsTurn(t *testing.T) {
	a, ofA := another("widgets", ended(worker.ResultProven))
	a.Status = statusAfter(&a, decision{step: stepConclude,
		run: ofA}.voided("API servers were restarted"), noon, time.Minute)
	b, ofB := another("gadgets", working)
	sameAsA, ofSame := another("widgets", working)
	sameAsA.Name, sameAsA.UID, ofSame.uid, ofSame.name = "widgets-again", "again", "again", "migrate-again-2-1"
	for name, test := range map[string]struct {
		other v1alpha1.StorageVersionMigration
		run   run
		most  int
		want  step
	}{
		"while another resource has the only turn":  {b, ofB, 1, stepNothing},
		"while the same resource is worked on":      {sameAsA, ofSame, 2, stepNothing},
		"not while another resource has one of two": {b, ofB, 2, stepStart},
		"not once the other one has ended its sweep": {b,
			func() run { r := ofB; ended(worker.ResultProven)(&r); r.active = false; return r }(), 1, stepStart},
	} {
		t.Run(name, func(t *testing.T) {
			p := planAll(snapshot{
				now: noon, live: true, migrations: []v1alpha1.StorageVersionMigration{a, test.other},
				runs: []run{ofA, test.run},
			}, test.most, waits{firstRetry: time.Minute})
			for _, d := range p.migrations {
				if d.migration.UID == a.UID && (d.step != test.want || d.step == stepStart && d.run.attempt != 2) {
					t.Errorf("attempt %d of the voided run: %s (%s), want %s", d.run.attempt,
						d.step, d.message, test.want)
				}
			}
		})
	}
}

func TestWhoseTurnComesFirst(t *testing.T) {
	waits := func(name string, priority int32, change func(*v1alpha1.StorageVersionMigration)) v1alpha1.StorageVersionMigration {
		m, _ := another(name, func(*run) {})
		m.CreationTimestamp, m.Spec.Priority = metav1.NewTime(noon), priority
		if change != nil {
			change(&m)
		}
		return m
	}
	since := func(d time.Duration) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) { m.CreationTimestamp = metav1.NewTime(noon.Add(-d)) }
	}
	reconciling := func(status metav1.ConditionStatus, d time.Duration) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) {
			since(1000 * time.Hour)(m)
			m.Status.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionReconciling, Status: status,
				LastTransitionTime: metav1.NewTime(noon.Add(-d))}}
		}
	}
	for name, test := range map[string]struct {
		waiting []v1alpha1.StorageVersionMigration
		want    []string
	}{
		"by risk, regardless of their names and of who came a moment earlier": {
			[]v1alpha1.StorageVersionMigration{waits("a", 1, since(2*time.Second)), waits("b", 24, nil),
				waits("c", 13, nil)}, []string{"b", "c", "a"},
		},
		"what a person asked for comes before": {
			[]v1alpha1.StorageVersionMigration{waits("a", 24, since(time.Minute)),
				waits("b", v1alpha1.DefaultPriority, nil), waits("c", 0, since(time.Second))}, []string{"c", "b", "a"},
		},
		"of equals what has waited longest": {
			[]v1alpha1.StorageVersionMigration{waits("a", 5, nil),
				waits("b", 5, since(time.Second))}, []string{"b", "a"},
		},
		"nothing starves": {
			[]v1alpha1.StorageVersionMigration{waits("a", v1alpha1.DefaultPriority, nil),
				waits("b", 1, since(100*time.Minute))}, []string{"b", "a"},
		},
		"a migration that is asked for again waits since then": {
			[]v1alpha1.StorageVersionMigration{
				waits("again", 5, reconciling(metav1.ConditionFalse, 500*time.Hour)), waits("a", 5, since(time.Minute)),
				waits("before", 5, reconciling(metav1.ConditionTrue, 2*time.Minute)),
			}, []string{"before", "a", "again"},
		},
		"what was begun comes first": {
			[]v1alpha1.StorageVersionMigration{waits("a", 1000, nil), waits("begun", 1, nil)}, []string{"begun", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			queue(test.waiting, map[types.UID][]run{"of-begun": {{}}}, noon)
			var got []string
			for _, m := range test.waiting {
				got = append(got, m.Spec.Resource.Resource)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("turns are %v, want %v", got, test.want)
			}
		})
	}
}

// Two groups may serve the same objects under one plural name only if both are groups of Kubernetes. A name may lack its
// group.
func TestWhichResourcesMayShareWhatTheyStore(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"widgets.demo.example.com", "widgets.demo.example.com", true},
		{"widgets.demo.example.com", "widgets.other.example.com", false},
		{"events", "events.events.k8s.io", true},
		{"ingresses.extensions", "ingresses.networking.k8s.io", true},
		{"widgets", "widgets.demo.example.com", true},
		{"events.events.k8s.io", "events.example.com", false},
		{"events", "pods", false},
	} {
		if mayShare(test.a, test.b) != test.want || mayShare(test.b, test.a) != test.want {
			t.Errorf("%s and %s: want %t", test.a, test.b, test.want)
		}
	}
}

// What a migration that waits says is written into its status: it says the same, whichever run has the only turn.
func TestWhatAWaitingMigrationSaysDoesNotChangeWithTheRunThatHasTheTurn(t *testing.T) {
	m, r := another("widgets", func(*run) {})
	said := map[string]bool{}
	for _, resource := range []string{"widgets", "gadgets"} {
		_, other := another(resource, working)
		other.uid, other.name = "other", "migrate-other-2-1"
		if no := (turns{most: 1, working: []run{other}}).refuse(r); no != nil {
			said[no.message] = true
		}
		if no := (turns{most: 2, working: []run{other}}).refuse(r); (no != nil) != (resource == m.Spec.Resource.Resource) {
			t.Errorf("next to a run on %s: %+v", resource, no)
		}
	}
	if len(said) != 1 {
		t.Errorf("it says %v", said)
	}
}
