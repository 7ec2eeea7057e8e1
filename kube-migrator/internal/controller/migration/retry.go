// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// mostBackoff is the longest wait before a failed run is repeated.
const mostBackoff = 6 * time.Hour

// retryAfter returns the wait after a failure. A run that has left alone nothing but objects that would lose fields is
// repeated rarely: what it waits for is a decision. Raising spec.generation repeats it at once, as the trigger does when
// the CRD has changed.
func retryAfter(first time.Duration, s v1alpha1.StorageVersionMigrationStatus) time.Duration {
	if p := s.Progress; p.Failed > 0 && p.Failed == p.WouldLoseFields {
		return mostBackoff
	}
	return backoff(first, s.Run.Failures)
}

// backoff returns how long to wait after the given number of failures: first, doubled each time, at most 6 hours.
func backoff(first time.Duration, failures int64) time.Duration {
	d := first
	for range failures - 1 {
		if d >= mostBackoff/2 {
			return mostBackoff
		}
		d *= 2
	}
	return d
}
