// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func TestThePaceOfTheMigrationBoundsTheSweep(t *testing.T) {
	t.Parallel()
	r := &run{Options: Options{Process: newProcess(t)}}
	o := r.options(assignment{pace: v1alpha1.Pace{MaxObjectsPerSecond: 50, MaxInFlight: 4,
		MaxBytesPerSecond: 1 << 40}})
	if o.MaxObjectsPerSecond != 50 || o.MaxInFlight != 4 || o.MaxBytesPerSecond != 1<<40 {
		t.Errorf("the sweep has %v objects per second, %d requests in flight and %d bytes per second, want the "+
			"bounds of the migration",
			o.MaxObjectsPerSecond, o.MaxInFlight, o.MaxBytesPerSecond)
	}
}
