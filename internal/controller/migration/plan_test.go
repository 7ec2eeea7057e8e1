// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/worker"
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

// A run that proves nothing has given its turn away when its worker ended: what comes after it waits like everybody (I8).
func TestTheAttemptAfterARunThatProvesNothingWaitsForItsTurn(t *testing.T) {
	a, ofA := another("widgets", ended(worker.Proven))
	a.Status = statusAfter(&a, decision{step: conclude, run: ofA}.voided("API servers were restarted"), noon, time.Minute)
	b, ofB := another("gadgets", working)
	sameAsA, ofSame := another("widgets", working)
	sameAsA.Name, sameAsA.UID, ofSame.uid, ofSame.name = "widgets-again", "again", "again", "migrate-again-2-1"
	for name, test := range map[string]struct {
		other v1alpha1.StorageVersionMigration
		run   run
		most  int
		want  step
	}{
		"while another resource has the only turn":   {b, ofB, 1, nothing},
		"while the same resource is worked on":       {sameAsA, ofSame, 2, nothing},
		"not while another resource has one of two":  {b, ofB, 2, start},
		"not once the other one has ended its sweep": {b, func() run { r := ofB; ended(worker.Proven)(&r); r.active = false; return r }(), 1, start},
	} {
		t.Run(name, func(t *testing.T) {
			p := planAll(snapshot{
				now: noon, live: true, migrations: []v1alpha1.StorageVersionMigration{a, test.other}, runs: []run{ofA, test.run},
			}, test.most, time.Minute)
			for _, d := range p.migrations {
				if d.migration.UID == a.UID && (d.step != test.want || d.step == start && d.run.attempt != 2) {
					t.Errorf("attempt %d of the voided run: %s (%s), want %s", d.run.attempt, d.step, d.message, test.want)
				}
			}
		})
	}
}
