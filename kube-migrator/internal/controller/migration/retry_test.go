// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func TestARunThatWaitsForADecisionIsRepeatedRarely(t *testing.T) {
	for name, test := range map[string]struct {
		failed, wouldLose, failures int64
		want                        time.Duration
	}{
		"objects were refused":                        {failed: 2, failures: 1, want: time.Minute},
		"they were refused again":                     {failed: 2, failures: 3, want: 4 * time.Minute},
		"some were refused, others would lose fields": {failed: 2, wouldLose: 1, failures: 1, want: time.Minute},
		"all would lose fields":                       {failed: 2, wouldLose: 2, failures: 1, want: 6 * time.Hour},
		"the run broke before the first object":       {failures: 2, want: 2 * time.Minute},
	} {
		s := v1alpha1.StorageVersionMigrationStatus{
			Progress: v1alpha1.Progress{Failed: test.failed, WouldLoseFields: test.wouldLose},
			Run:      v1alpha1.Run{Failures: test.failures},
		}
		if got := retryAfter(time.Minute, s); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestBackoffDoublesUpToSixHours(t *testing.T) {
	for failures, want := range map[int64]time.Duration{1: 10 * time.Minute, 2: 20 * time.Minute, 6: 320 * time.Minute,
		7: 6 * time.Hour, 1000: 6 * time.Hour} {
		if got := backoff(10*time.Minute, failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
}
