// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	maxPeakRSSBytes = 64 << 20
	kib             = 1 << 10
)

// peakOf migrates stale objects of a kind of their own, and returns the largest resident set of the process.
func peakOf(t *testing.T, cluster *testbed.Cluster, plural string, bulk testbed.Bulk) (peakRSSBytes int64) {
	t.Helper()
	t.Run(fmt.Sprintf("%d objects of %d bytes", bulk.Count, bulk.Bytes), func(t *testing.T) {
		g := newGadgets(t, cluster, plural)
		bulk.Group, bulk.Version, bulk.Kind, bulk.Plural = testbed.WidgetGroup, "v1", g.kind(), plural
		if err := cluster.BulkCreate(t.Context(), bulk); err != nil {
			t.Fatal(err)
		}
		g.moveStorage("v2")
		command, wait := newCLI(t, cluster).start("migrate", g.name(), "--settle-time=1s", anyRate, anyInFlight, "-o", "json")
		peak := make(chan int64)
		go func() { peak <- watchPeak(command.Process.Pid) }()
		out := wait()
		peakRSSBytes = <-peak
		if got := report(t, out).Result; got.Counts.Rewritten != int64(bulk.Count) || !got.Proven {
			t.Errorf("%d objects rewritten, proven %v, want %d", got.Counts.Rewritten, got.Proven, bulk.Count)
		}
		wantStored(t, cluster, g.prefix(), map[string]int{v2: bulk.Count})
		t.Logf("peak RSS %.1f MiB", float64(peakRSSBytes)/(1<<20))
		if peakRSSBytes == 0 || peakRSSBytes > maxPeakRSSBytes {
			t.Errorf("peak RSS = %d bytes, want at most %d", peakRSSBytes, maxPeakRSSBytes)
		}
	})
	return peakRSSBytes
}

// watchPeak reads the largest resident set from /proc until the process ends. What wait4 tells of a child includes the
// memory of the test, which the child shared until it became another program.
func watchPeak(pid int) (peakRSSBytes int64) {
	for {
		usage, err := testbed.UsageOf(pid)
		if err != nil || usage.PeakRSSBytes == 0 { // a zombie has no memory
			return peakRSSBytes
		}
		peakRSSBytes = usage.PeakRSSBytes
		time.Sleep(5 * time.Millisecond)
	}
}

// differsByLessThanTenPercent compares peaks (I6).
func differsByLessThanTenPercent(t *testing.T, what string, a, b int64) {
	t.Helper()
	if difference := max(a, b) - min(a, b); difference*10 > min(a, b) {
		t.Errorf("%s: peak RSS %d and %d bytes, want a difference of less than 10 %%", what, a, b)
	}
}

// It measures, so it runs before the tests that run at the same time.
func TestMemoryDependsNeitherOnTheNumberNorOnTheSizeOfObjects(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{})
	few := peakOf(t, cluster, "fews", testbed.Bulk{Count: 500, Bytes: kib})
	many := peakOf(t, cluster, "manys", testbed.Bulk{Count: 2500, Bytes: kib})
	large := peakOf(t, cluster, "larges", testbed.Bulk{Count: 150, Bytes: 200 * kib})
	differsByLessThanTenPercent(t, "500 and 2,500 objects", few, many)
	differsByLessThanTenPercent(t, "objects of 1 KiB and of 200 KiB", few, large)
}
