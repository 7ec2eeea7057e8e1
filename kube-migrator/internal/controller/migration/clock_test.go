// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// A worker whose clock is wrong, or a controller whose clock is set, must not make a worker that reports look silent: a
// run that is given up while its worker lives is swept by two workers at once (I8).
func TestSilenceIsMeasuredByOurOwnClockAlone(t *testing.T) {
	const report = 5 * time.Second
	for name, off := range map[string]time.Duration{
		"right": 0, "an hour behind": -time.Hour, "an hour ahead": time.Hour,
	} {
		t.Run("the clock of the worker is "+name, func(t *testing.T) {
			var heard hearings
			look := func(at, reported time.Duration) decision {
				r := aRun(2, 1, working)
				r.begun, r.report.Updated = noon, noon.Add(reported+off)
				runs := []run{r}
				heard = heard.listen(runs, noon.Add(at))
				return decide(facts{now: noon.Add(at), since: noon, migration: aMigration(nil), runs: runs,
					firstRetry: time.Minute})
			}
			for at := time.Duration(0); at < 20*time.Minute; at += report {
				if d := look(at, at); d.step == stepGiveUp || d.silent {
					t.Fatalf("a worker that reports is silent after %v: step %s, %s", at, d.step, d.message)
				}
			}
			last := 20*time.Minute - report
			if d := look(last+silentTooLong, last); d.step == stepGiveUp {
				t.Errorf("the worker is given up before %v have passed: %s", silentTooLong, d.message)
			}
			if d := look(last+silentTooLong+time.Second, last); d.step != stepGiveUp {
				t.Errorf("the worker is not given up after %v: step %s, %s", silentTooLong, d.step, d.message)
			}
		})
	}
}

func TestARetryTimeOfAClockThatWasAheadDoesNotCount(t *testing.T) {
	for name, test := range map[string]struct {
		failures int64
		left     time.Duration
		settle   time.Duration
		want     step
	}{
		"within the backoff":              {failures: 3, left: 4 * time.Minute, want: stepNothing},
		"within the settle time":          {failures: 0, left: 2 * time.Minute, want: stepNothing},
		"within a longer settle time":     {settle: 5 * time.Minute, left: 5 * time.Minute, want: stepNothing},
		"later than a longer settle time": {settle: 5 * time.Minute, left: time.Hour, want: stepStart},
		"later than any wait that it has": {failures: 3, left: time.Hour, want: stepStart},
		"past":                            {failures: 3, left: -time.Hour, want: stepStart},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(facts{now: noon, since: noon, firstRetry: time.Minute, settleTime: test.settle,
				migration: aMigration(func(m *v1alpha1.StorageVersionMigration) {
					m.Status.Run = v1alpha1.Run{Generation: m.Spec.Generation, Attempt: 1, Failures: test.failures,
						RetryTime: metav1.NewTime(noon.Add(test.left))}
				})})
			if d.step != test.want {
				t.Errorf("step %s, want %s", d.step, test.want)
			}
		})
	}
}
