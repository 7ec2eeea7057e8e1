// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// threeRounds are measurements in which each peer is the better one once, and the ceiling is reached at the median.
func threeRounds() []Measurement {
	measured := func(round int, name string, rate, cpu float64) Measurement {
		return Measurement{Contestant: name, Round: round, ObjectsPerSecond: rate, APIServerCPUMillis: cpu,
			ClientPeakRSSBytes: 32 << 20}
	}
	return []Measurement{
		measured(0, ceiling, 9999, 1), // a calibration is no round
		measured(1, ours, 400, 3), measured(1, inTree, 100, 6), measured(1, external, 200, 10),
		measured(1, ceiling, 400, 2),
		measured(2, inTree, 100, 6), measured(2, external, 80, 5), measured(2, ceiling, 500, 2),
		measured(2, ours, 450, 4),
		measured(3, external, 100, 8), measured(3, ceiling, 500, 2), measured(3, ours, 300, 2),
		measured(3, inTree, 100, 8),
	}
}

func TestRatiosCompareWithTheBestPeerOfEachRound(t *testing.T) {
	want := []Ratio{
		{Name: "objects/s to the faster peer's", Rounds: []float64{2, 4.5, 3}, Median: 3, Lowest: 2, Highest: 4.5,
			Target: 3, Reached: true},
		{Name: "objects/s to the ceiling's", Rounds: []float64{1, 0.9, 0.6}, Median: 0.9, Lowest: 0.6, Highest: 1,
			Target: 0.9, Reached: true},
		{Name: "API server CPU per object to the cheaper peer's", Rounds: []float64{0.5, 0.8, 0.25}, Median: 0.5,
			Lowest: 0.25, Highest: 0.8, Target: 0.6, AtMost: true, Reached: true},
	}
	if diff := cmp.Diff(want, ratios(threeRounds()), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestRatiosAreMissedOnTheWrongSideOfTheirTargets(t *testing.T) {
	slow := []Measurement{
		{Contestant: ours, Round: 1, ObjectsPerSecond: 100, APIServerCPUMillis: 7},
		{Contestant: inTree, Round: 1, ObjectsPerSecond: 100, APIServerCPUMillis: 7},
	}
	got := ratios(slow)
	if len(got) != 2 {
		t.Fatalf("got %d ratios, want the 2 that have someone to compare with: %+v", len(got), got)
	}
	for _, r := range got {
		if r.Reached {
			t.Errorf("%s is 1 and counts as reached, the target is %v", r.Name, r.Target)
		}
	}
}

func TestTableShowsMediansWithTheirSpread(t *testing.T) {
	speed := threeRounds()[1:]
	report := Report{Speed: speed, Ratios: ratios(speed),
		Wire: []Wire{{Contestant: ours, ObjectBytes: 1024, Objects: 10, Sent: 210.4, Received: 399.6}}}
	var out strings.Builder
	if err := report.table(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"| kube-migrator | 400 (300–450) | 3.00 (2.00–4.00) |",
		"| in-tree | 100 (100–100) | 6.00 (6.00–8.00) |",
		"| objects/s to the faster peer's | 3.00 (2.00–4.50) | ≥ 3.0 | reached |",
		"| kube-migrator | 1024 | 10 | 210 | 400 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestTheCostOfTheGuardIsThatWithinARound(t *testing.T) {
	measured := func(round int, name string, cpu float64) Measurement {
		return Measurement{Round: round, Contestant: name, APIServerCPUMillis: cpu}
	}
	r := Report{Speed: []Measurement{
		measured(1, ceiling, 3), measured(1, guardedCeiling, 3.2), measured(2, guardedCeiling, 5.1),
		measured(2, ceiling, 5), measured(3, ceiling, 4), measured(3, guardedCeiling, 4.3),
	}}
	var out strings.Builder
	r.guardCost(&out)
	if want := "0.20 ms more CPU per object (median of 3 rounds; 0.10–0.30)"; !strings.Contains(out.String(), want) {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
