// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package report turns what a scenario measured into values that can be published: JSON with every raw figure, ratios
// with their spread and their targets, Markdown tables, and descriptions of plots, which the command plot of the module
// tools draws. It is pure: it measures nothing and writes no file. It never fills a gap: a figure that was not measured
// is shown as a dash, and Problems names it.
package report

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Report is everything that one scenario measured. There is one schema for all scenarios.
type Report struct {
	Scenario string    `json:"scenario"`
	Title    string    `json:"title"`
	Time     time.Time `json:"time"`
	Machine  Machine   `json:"machine"`
	// Versions of everything that took part, by name.
	Versions map[string]string `json:"versions"`
	Rounds   int               `json:"rounds"`
	// Quick runs show that the scenario works; their figures mean nothing.
	Quick bool `json:"quick,omitempty"`
	// IdleCPU is the share of one processor that API servers and etcd use when no one asks them anything. It is not
	// subtracted from any figure.
	IdleCPU float64 `json:"idleCPU"`
	// Settings are what the scenario chose, such as the ceiling's requests in flight.
	Settings     map[string]string `json:"settings,omitempty"`
	Measurements []Measurement     `json:"measurements"`
	Ratios       []Ratio           `json:"ratios,omitempty"`
	// Plots are the scenario's; they are drawn from this file.
	Plots []Plot `json:"plots,omitempty"`
}

// Machine is where it was measured.
type Machine struct {
	Processor   string `json:"processor"`
	Processors  int    `json:"processors"`
	MemoryBytes int64  `json:"memoryBytes"`
	System      string `json:"system"`
	Go          string `json:"go"`
}

// Measurement is one run of one contestant.
type Measurement struct {
	// Case tells the runs of one scenario apart, such as "10000 objects"; X is its place on the axis of a plot.
	Case       string  `json:"case"`
	X          float64 `json:"x,omitempty"`
	Contestant string  `json:"contestant"`
	// Round counts from 1; contestants are compared within a round. 0 is a run outside the rounds, such as one in which
	// bytes are counted.
	Round   int     `json:"round"`
	Objects int     `json:"objects,omitempty"`
	Bytes   int     `json:"bytesPerObject,omitempty"`
	Figures Figures `json:"figures"`
	// Error is why there are no figures, where a contestant's failure is a result and not a defect of the scenario.
	Error string `json:"error,omitempty"`
	// Checks are what was found out about the objects besides figures.
	Checks map[string]bool `json:"checks,omitempty"`
	// Examples show what failed checks found.
	Examples map[string]string `json:"examples,omitempty"`
	// Rates are writes per second over time.
	Rates []XY `json:"rates,omitempty"`
}

// XY is a point of a plot.
type XY struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Figures are raw numbers; the name says the unit.
type Figures map[Figure]float64

// Figure is the name of a number that can be measured.
type Figure string

// The figures.
const (
	ObjectsPerSecond   Figure = "objectsPerSecond"
	Seconds            Figure = "seconds"         // from the first write to the last
	WholeRunSeconds    Figure = "wholeRunSeconds" // from the start of the contestant to its end
	APIServerCPUMillis Figure = "apiserverCPUMillisPerObject"
	EtcdCPUMillis      Figure = "etcdCPUMillisPerObject"
	ClientCPUMillis    Figure = "clientCPUMillisPerObject"
	ClientPeakRSSBytes Figure = "clientPeakRSSBytes"
	ClientRSSBytes     Figure = "clientRSSBytes"
	Sent               Figure = "sentBytesPerObject" // from the first write to the last, TLS included
	Received           Figure = "receivedBytesPerObject"
	WholeRunSent       Figure = "wholeRunSentBytesPerObject"
	WholeRunReceived   Figure = "wholeRunReceivedBytesPerObject"
	RequestsPerObject  Figure = "requestsPerObject"
	WritesPerObject    Figure = "writesPerObject"
	AdmissionSteps     Figure = "admissionStepsPerObject"
	TooManyRequests    Figure = "answers429"
	EtcdWrites         Figure = "etcdWrites"
	P50Millis          Figure = "p50Millis"
	P99Millis          Figure = "p99Millis"
	ForegroundErrors   Figure = "foregroundErrors"
	RequestsPerSecond  Figure = "requestsPerSecond"
	SecondsToFall      Figure = "secondsUntilTheRateFell"
	SecondsToRecover   Figure = "secondsUntilTheRateWasBack"
	MostPatches        Figure = "patchesOfTheServerWithTheMost"
	FewestPatches      Figure = "patchesOfTheServerWithTheFewest"
)

// Add adds a measurement.
func (r *Report) Add(m Measurement) { r.Measurements = append(r.Measurements, m) }

// cases returns the cases, in the order in which they were measured.
func (r *Report) cases() []string {
	return inOrder(r.Measurements, func(m Measurement) string { return m.Case })
}

// contestants returns the contestants of a case, in the order in which they were measured.
func (r *Report) contestants(name string) []string {
	return inOrder(r.of(name, ""), func(m Measurement) string { return m.Contestant })
}

func inOrder(all []Measurement, name func(Measurement) string) []string {
	var names []string
	for _, m := range all {
		if n := name(m); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// of returns the measurements of a case and a contestant; "" is any.
func (r *Report) of(name, contestant string) []Measurement {
	var found []Measurement
	for _, m := range r.Measurements {
		if (name == "" || m.Case == name) && (contestant == "" || m.Contestant == contestant) {
			found = append(found, m)
		}
	}
	return found
}

// values returns a figure of a case and a contestant over all rounds. Runs outside the rounds count only where no round
// has the figure.
func (r *Report) values(name, contestant string, figure Figure) []float64 {
	var values, aside []float64
	for _, m := range r.of(name, contestant) {
		value, measured := m.Figures[figure]
		switch {
		case !measured:
		case m.Round > 0:
			values = append(values, value)
		default:
			aside = append(aside, value)
		}
	}
	if values == nil {
		return aside
	}
	return values
}

// Median returns the median of a figure, and false where it was not measured.
func (r *Report) Median(name, contestant string, figure Figure) (float64, bool) {
	values := r.values(name, contestant, figure)
	if len(values) == 0 {
		return 0, false
	}
	return median(values), true
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Problems lists what makes a report useless: no measurement, one without figures, a figure that is no number or below
// zero, or one of those that the scenario promises and that no measurement has.
func (r *Report) Problems(promised ...Figure) []string {
	var problems []string
	if len(r.Measurements) == 0 {
		problems = append(problems, "nothing was measured")
	}
	for _, m := range r.Measurements {
		where := fmt.Sprintf("%s, %s, round %d", m.Case, m.Contestant, m.Round)
		if len(m.Figures) == 0 && m.Error == "" {
			problems = append(problems, where+": there are no figures")
		}
		for _, figure := range slices.Sorted(maps.Keys(m.Figures)) {
			if value := m.Figures[figure]; value < 0 || value != value || value > 1e15 {
				problems = append(problems, fmt.Sprintf("%s: %s is %v", where, figure, value))
			}
		}
	}
	for _, figure := range promised {
		for _, name := range r.cases() {
			for _, contestant := range r.contestants(name) {
				_, measured := r.Median(name, contestant, figure)
				if failed := slices.ContainsFunc(r.of(name, contestant),
					func(m Measurement) bool { return m.Error != "" }); !measured && !failed {
					problems = append(problems, fmt.Sprintf("%s, %s: %s is missing", name, contestant, figure))
				}
			}
		}
	}
	return problems
}
