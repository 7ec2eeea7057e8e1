// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// threeRounds are measurements in which each peer is the better one once, and the ceiling is reached at the median.
func threeRounds() *Report {
	r := &Report{Scenario: "S1", Title: "many small objects", Rounds: 3}
	measured := func(round int, name string, rate, cpu float64) {
		r.Add(Measurement{Case: "10 objects", Contestant: name, Round: round, Figures: Figures{
			ObjectsPerSecond: rate, APIServerCPUMillis: cpu, ClientPeakRSSBytes: 32 << 20}})
	}
	measured(0, "ceiling", 9999, 1) // outside the rounds
	measured(1, "ours", 400, 3)
	measured(1, "in-tree", 100, 6)
	measured(1, "external", 200, 10)
	measured(1, "ceiling", 400, 2)
	measured(2, "in-tree", 100, 6)
	measured(2, "external", 80, 5)
	measured(2, "ceiling", 500, 2)
	measured(2, "ours", 450, 4)
	measured(3, "external", 100, 8)
	measured(3, "ceiling", 500, 2)
	measured(3, "ours", 300, 2)
	measured(3, "in-tree", 100, 8)
	return r
}

func rules() []Rule {
	peers := []string{"in-tree", "external"}
	return []Rule{
		{Name: "faster peer", Figure: ObjectsPerSecond, Of: "ours", Others: peers, Target: 3},
		{Name: "ceiling", Figure: ObjectsPerSecond, Of: "ours", Others: []string{"ceiling"}, Target: 0.95},
		{Name: "cheaper peer", Figure: APIServerCPUMillis, Of: "ours", Others: peers, Lowest: true, Target: 0.6,
			AtMost: true},
	}
}

func TestRatiosCompareWithTheBestOfEachRound(t *testing.T) {
	r := threeRounds()
	r.Compare(rules()...)
	want := []Ratio{
		{Name: "faster peer", Case: "10 objects", Rounds: []float64{2, 4.5, 3}, Median: 3, Lowest: 2, Highest: 4.5,
			Target: 3, Reached: true},
		{Name: "ceiling", Case: "10 objects", Rounds: []float64{1, 0.9, 0.6}, Median: 0.9, Lowest: 0.6, Highest: 1,
			Target: 0.95},
		{Name: "cheaper peer", Case: "10 objects", Rounds: []float64{0.5, 0.8, 0.25}, Median: 0.5,
			Lowest: 0.25, Highest: 0.8, Target: 0.6, AtMost: true, Reached: true},
	}
	if diff := cmp.Diff(want, r.Ratios, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestARatioToAnotherCaseStaysWithinTheRound(t *testing.T) {
	r := &Report{}
	for round, rate := range []float64{100, 200} {
		r.Add(Measurement{Case: "0 ms", Contestant: "ours", Round: round + 1, Figures: Figures{ObjectsPerSecond: rate}})
		r.Add(Measurement{Case: "30 ms", Contestant: "ours", Round: round + 1, Figures: Figures{ObjectsPerSecond: rate * 0.9}})
	}
	r.Compare(Rule{Name: "own rate", Case: "30 ms", ToCase: "0 ms", Figure: ObjectsPerSecond, Of: "ours",
		Others: []string{"ours"}})
	want := []Ratio{{Name: "own rate", Case: "30 ms", Rounds: []float64{0.9, 0.9}, Median: 0.9, Lowest: 0.9, Highest: 0.9}}
	if diff := cmp.Diff(want, r.Ratios, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestWithoutAnotherToCompareWithThereIsNoRatio(t *testing.T) {
	r := &Report{}
	r.Add(Measurement{Case: "1", Contestant: "ours", Round: 1, Figures: Figures{ObjectsPerSecond: 100}})
	r.Compare(rules()...)
	if len(r.Ratios) > 0 {
		t.Errorf("got %+v, want no ratio", r.Ratios)
	}
}

func TestMarkdownShowsMediansWithTheirSpread(t *testing.T) {
	r := threeRounds()
	r.Add(Measurement{Case: "10 objects", Contestant: "ours", Figures: Figures{Sent: 210.4, Received: 399.6},
		Checks: map[string]bool{"content stayed": true}})
	r.Add(Measurement{Case: "10 objects", Contestant: "get | replace", Figures: Figures{ObjectsPerSecond: 50}})
	r.Add(Measurement{Case: "20 objects", Contestant: "in-tree", Round: 1, Error: "it failed"})
	r.Compare(rules()...)
	text := strings.Join(strings.Fields(r.Markdown()), " ")
	for _, want := range []string{
		"| | objects/s | API server CPU ms | client peak RSS MiB | bytes sent | bytes received | content stayed |",
		"| ours | 400 (300–450) | 3.00 (2.00–4.00) | 32.0 (32.0–32.0) | 210 | 400 | yes |",
		"| in-tree | 100 (100–100) | 6.00 (6.00–8.00) | 32.0 (32.0–32.0) | – | – | – |",
		"| ceiling | 500 (400–500) | 2.00 (2.00–2.00) |",
		`| get \| replace | 50 |`,
		"| faster peer | 10 objects | 3.00 (2.00–4.50) | ≥ 3.00 | reached |",
		"| ceiling | 10 objects | 0.90 (0.60–1.00) | ≥ 0.95 | missed |",
		"in-tree, round 1: it failed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, r.Markdown())
		}
	}
}

func TestARatioThatMustBeCloseToOneIsShownWithMoreDigits(t *testing.T) {
	r := &Report{}
	for _, m := range []Measurement{{Case: "whole", Figures: Figures{RequestsPerObject: 1.01}},
		{Case: "killed", Figures: Figures{RequestsPerObject: 1.0105}}} {
		m.Contestant, m.Round = "ours", 1
		r.Add(m)
	}
	r.Compare(Rule{Name: "requests", Case: "killed", ToCase: "whole", Figure: RequestsPerObject, Of: "ours",
		Others: []string{"ours"}, Target: 1.001, AtMost: true, Digits: 4})
	text := strings.Join(strings.Fields(r.Markdown()), " ")
	if want := "| requests | killed | 1.0005 (1.0005–1.0005) | ≤ 1.0010 | reached |"; !strings.Contains(text, want) {
		t.Errorf("the text lacks %q:\n%s", want, r.Markdown())
	}
}

func TestACheckIsYesOnlyIfItIsInEveryRound(t *testing.T) {
	r := &Report{}
	for round, yes := range []bool{true, false, true} {
		r.Add(Measurement{Case: "1", Contestant: "merge", Round: round, Checks: map[string]bool{"stayed": yes}})
	}
	if got := r.checked("1", "merge", "stayed"); got != "no" {
		t.Errorf("got %q, want no", got)
	}
}

func TestProblemsNameEveryFigureThatIsMissingOrBroken(t *testing.T) {
	r := &Report{}
	if got := r.Problems(); !slices.Equal(got, []string{"nothing was measured"}) {
		t.Errorf("an empty report: %q", got)
	}
	r.Add(Measurement{Case: "a", Contestant: "ours", Round: 1, Figures: Figures{ObjectsPerSecond: 1, Seconds: -1}})
	r.Add(Measurement{Case: "a", Contestant: "broken", Round: 1})
	r.Add(Measurement{Case: "a", Contestant: "failed", Round: 1, Error: "by itself"})
	want := []string{
		"a, ours, round 1: seconds is -1",
		"a, broken, round 1: there are no figures",
		"a, ours: p99Millis is missing",
		"a, broken: p99Millis is missing",
	}
	if diff := cmp.Diff(want, r.Problems(P99Millis)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestPlotsHoldWhatWasMeasuredAndNothingElse(t *testing.T) {
	r := &Report{}
	r.Add(Measurement{Case: "1", X: 1, Contestant: "ours", Round: 1, Figures: Figures{ObjectsPerSecond: 10}})
	r.Add(Measurement{Case: "1", X: 1, Contestant: "ours", Round: 2, Figures: Figures{ObjectsPerSecond: 30}})
	r.Add(Measurement{Case: "2", X: 2, Contestant: "peer", Round: 1, Figures: Figures{ObjectsPerSecond: 5},
		Rates: []XY{{1, 5}}})
	r.PlotBars("bars", "Bars", "objects/s", ObjectsPerSecond)
	r.PlotLines("lines", "Lines", "n", "objects/s", ObjectsPerSecond, true)
	r.PlotRates("rates", "Rates", "writes/s")
	want := []Plot{
		{Name: "bars", Title: "Bars", YLabel: "objects/s", Groups: []string{"1", "2"}, Bars: []Bars{
			{Name: "ours", Values: []Bar{{Median: 20, Lowest: 10, Highest: 30}, {Missing: true}}},
			{Name: "peer", Values: []Bar{{Missing: true}, {Median: 5, Lowest: 5, Highest: 5}}},
		}},
		{Name: "lines", Title: "Lines", XLabel: "n", YLabel: "objects/s", LogX: true, Lines: []Line{
			{Name: "ours", Points: []XY{{1, 20}}}, {Name: "peer", Points: []XY{{2, 5}}},
		}},
		{Name: "rates", Title: "Rates", XLabel: "seconds", YLabel: "writes/s", Lines: []Line{
			{Name: "peer", Points: []XY{{1, 5}}},
		}},
	}
	if diff := cmp.Diff(want, r.Plots); diff != "" {
		t.Errorf("plots (-want +got):\n%s", diff)
	}
}
