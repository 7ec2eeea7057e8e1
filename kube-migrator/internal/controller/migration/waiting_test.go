// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

func TestAComparisonIsNotTriedInVainIndefinitely(t *testing.T) {
	asked := decision{step: stepConclude, run: aRun(2, 1, ended(worker.ResultProven)), phase: v1alpha1.PhaseRunning}
	d := asked.undecided(errors.New("no answer"), 9*time.Minute)
	if d.step != stepConclude || d.phase != v1alpha1.PhaseRunning || d.again == 0 {
		t.Errorf("after 9 minutes: %+v, want another look", d)
	}
	d = asked.undecided(errors.New("no answer"), 11*time.Minute)
	s := statusAfter(aMigration(nil), d, noon, time.Minute)
	if s.State != v1alpha1.PhaseFailed || s.Run.Failures != 1 ||
		!s.Run.RetryTime.Equal(new(metav1.NewTime(noon.Add(time.Minute)))) {
		t.Errorf("after 11 minutes: %s, %+v", s.State, s.Run)
	}
	if want := "its epoch could not be compared for 11m0s: no answer"; !strings.Contains(s.Summary, want) ||
		d.reason != string(worker.ResultNoAgreement) {
		t.Errorf("it says %s: %q", d.reason, s.Summary)
	}
}

// A run that would wait for its epoch to settle gives its turn away. It has not failed, and goes on from its checkpoint
// when the epoch can have settled.
func TestARunWhoseEpochHasToSettleWaitsWithoutItsTurn(t *testing.T) {
	m := aMigration(nil)
	r := aRun(2, 1, ended(worker.ResultUnsettled))
	r.report.Outcome.Left = 90 * time.Second
	at := func(now time.Time) decision {
		d := decide(facts{now: now, migration: m, runs: []run{r}, firstRetry: time.Minute})
		m.Status = statusAfter(m, d, now, time.Minute)
		return d
	}
	if d := at(noon); d.step != stepPostpone || m.Status.Run.Failures != 0 ||
		!m.Status.Run.RetryTime.Time.Equal(noon.Add(90*time.Second)) {
		t.Errorf("at first: %s, run %+v", d.step, m.Status.Run)
	}
	for range 2 {
		d := at(noon.Add(30 * time.Second))
		if d.step != stepNothing || d.again != time.Minute || m.Status.State != v1alpha1.PhaseWaiting ||
			!strings.Contains(m.Status.Summary, "may still write") {
			t.Errorf("meanwhile: %s, again after %s, %s: %s", d.step, d.again, m.Status.State, m.Status.Summary)
		}
	}
	if d := at(noon.Add(91 * time.Second)); d.step != stepStart || d.run.attempt != 2 || d.seed != r.name {
		t.Errorf("afterwards: %s of attempt %d from %q", d.step, d.run.attempt, d.seed)
	}
	if !m.Status.Run.RetryTime.IsZero() {
		t.Errorf("the status is %+v", m.Status.Run)
	}
}
