// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"testing"
	"testing/synctest"
	"time"
)

// A page of 100 objects has some 12,000 bytes: at 10 bytes per second that is a wait of 20 minutes, twice the
// stallTimeout.
func TestALowBandwidthIsWaitedForAndIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, bytesPerSecond = 100, 10
		began := time.Now()
		agreement := func() (Epoch, error) { return lastingFrom(began.Add(-time.Hour)), nil }
		sweep := virtualSweep(t, &scripted{n: objects, resourceVersion: "1000"}, agreement,
			Options{MaxBytesPerSecond: bytesPerSecond})
		result, err := sweep.Run(t.Context())
		if err != nil || !result.Proven || result.Counts.Rewritten != objects || result.Restarts != 0 {
			t.Errorf("%+v, %v, want it proven in one pass", result, err)
		}
		took := time.Since(began)
		if most := float64(bytesPerSecond) * (took.Seconds() + 1); float64(result.Bytes) > most+
			1000 || took < time.Hour/2 {
			t.Errorf("%d bytes in %v, want at most %.0f and the last request's", result.Bytes, took, most)
		}
	})
}
