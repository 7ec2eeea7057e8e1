// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is everything that a run measured, as the JSON file has it. Numbers are raw, in the units that their names
// say.
type Report struct {
	Time    time.Time `json:"time"`
	Machine Machine   `json:"machine"`
	// Version is what the measured kube-migrator says of itself.
	Version string `json:"version"`
	Objects int    `json:"objects"`
	Bytes   int    `json:"bytesPerObject"`
	Rounds  int    `json:"rounds"`
	// IdleCPU is the share of one processor that API server and etcd use when no one asks them anything. It is not
	// subtracted.
	IdleCPU float64 `json:"idleCPU"`
	// CeilingConcurrency is the number of requests in flight at which the ceiling was highest; Calibration is how it
	// was found.
	CeilingConcurrency int           `json:"ceilingConcurrency"`
	Calibration        []Calibration `json:"calibration"`
	Speed              []Measurement `json:"speed"`
	Ratios             []Ratio       `json:"ratios"`
	Wire               []Wire        `json:"wire"`
}

// Machine is where it was measured.
type Machine struct {
	Processor   string `json:"processor"`
	Processors  int    `json:"processors"`
	MemoryBytes int64  `json:"memoryBytes"`
	System      string `json:"system"`
	Go          string `json:"go"`
}

// Calibration is the ceiling at one concurrency.
type Calibration struct {
	Concurrency      int     `json:"concurrency"`
	ObjectsPerSecond float64 `json:"objectsPerSecond"`
}

// Measurement is one contestant's run over all objects, from the first write to the last.
type Measurement struct {
	Contestant         string  `json:"contestant"`
	Round              int     `json:"round"`
	Objects            int     `json:"objects"`
	Seconds            float64 `json:"seconds"`
	ObjectsPerSecond   float64 `json:"objectsPerSecond"`
	APIServerCPUMillis float64 `json:"apiserverCPUMillisPerObject"`
	EtcdCPUMillis      float64 `json:"etcdCPUMillisPerObject"`
	ClientCPUMillis    float64 `json:"clientCPUMillisPerObject"`
	ClientPeakRSSBytes int64   `json:"clientPeakRSSBytes"`
}

// Wire is what crossed the wire for each object of a size: payload of TCP, TLS included.
type Wire struct {
	Contestant  string `json:"contestant"`
	ObjectBytes int    `json:"objectBytes"`
	Objects     int    `json:"objects"`
	// Sent and Received are seen from the client, from the first write to the last.
	Sent     float64 `json:"sentBytesPerObject"`
	Received float64 `json:"receivedBytesPerObject"`
	// AllSent and AllReceived are those of the whole run, with its discovery, lists and checks, per object.
	AllSent            float64 `json:"wholeRunSentBytesPerObject"`
	AllReceived        float64 `json:"wholeRunReceivedBytesPerObject"`
	ClientPeakRSSBytes int64   `json:"clientPeakRSSBytes"`
}

// Ratio compares kube-migrator with others over the rounds.
type Ratio struct {
	Name    string    `json:"name"`
	Rounds  []float64 `json:"rounds"`
	Median  float64   `json:"median"`
	Lowest  float64   `json:"lowest"`
	Highest float64   `json:"highest"`
	Target  float64   `json:"target"`
	// AtMost: the median is to be at most the target, otherwise at least.
	AtMost  bool `json:"atMost"`
	Reached bool `json:"reached"`
}

// ratios are what a run is judged by: each from the measurements of one round, in which the cluster was the same.
func ratios(speed []Measurement) []Ratio {
	rate := func(m Measurement) float64 { return m.ObjectsPerSecond }
	cpu := func(m Measurement) float64 { return m.APIServerCPUMillis }
	rules := []struct {
		name   string
		value  func(Measurement) float64
		others []string
		best   func(...float64) float64
		target float64
		atMost bool
	}{
		{"objects/s to the faster peer's", rate, []string{inTree, external}, highest, 3, false},
		{"objects/s to the ceiling's", rate, []string{ceiling}, highest, 0.9, false},
		{"API server CPU per object to the cheaper peer's", cpu, []string{inTree, external}, lowest, 0.6, true},
	}
	var result []Ratio
	for _, rule := range rules {
		r := Ratio{Name: rule.name, Target: rule.target, AtMost: rule.atMost}
		for round := 1; ; round++ {
			mine, ok := valueOf(speed, round, ours, rule.value)
			var others []float64
			for _, name := range rule.others {
				if v, ok := valueOf(speed, round, name, rule.value); ok {
					others = append(others, v)
				}
			}
			if !ok || len(others) == 0 {
				break
			}
			r.Rounds = append(r.Rounds, mine/rule.best(others...))
		}
		if len(r.Rounds) == 0 {
			continue
		}
		r.Median, r.Lowest, r.Highest = median(r.Rounds), slices.Min(r.Rounds), slices.Max(r.Rounds)
		r.Reached = r.Median >= r.Target
		if r.AtMost {
			r.Reached = r.Median <= r.Target
		}
		result = append(result, r)
	}
	return result
}

func highest(values ...float64) float64 { return slices.Max(values) }
func lowest(values ...float64) float64  { return slices.Min(values) }

func valueOf(speed []Measurement, round int, name string, value func(Measurement) float64) (float64, bool) {
	i := slices.IndexFunc(speed, func(m Measurement) bool { return m.Round == round && m.Contestant == name })
	if i < 0 {
		return 0, false
	}
	return value(speed[i]), true
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// table writes a report for people, as Markdown.
func (r *Report) table(out io.Writer) error {
	m := r.Machine
	fmt.Fprintf(out, "%s, %d processors, %.0f GiB, %s, %s; kube-migrator %s\n", m.Processor, m.Processors,
		float64(m.MemoryBytes)/(1<<30), m.System, m.Go, r.Version)
	fmt.Fprintf(out, "%d custom resources of %d bytes, %d rounds; ceiling with %d requests in flight\n\n", r.Objects,
		r.Bytes, r.Rounds, r.CeilingConcurrency)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| median of the rounds (lowest–highest)\t| objects/s\t| API server CPU ms\t| etcd CPU ms\t| "+
		"client CPU ms\t| client peak RSS MiB\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, name := range []string{ours, inTree, external, ceiling, guardedCeiling} {
		column := func(value func(Measurement) float64, digits int) string {
			var values []float64
			for _, m := range r.Speed {
				if m.Contestant == name {
					values = append(values, value(m))
				}
			}
			if len(values) == 0 {
				return "–"
			}
			return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, median(values), digits, slices.Min(values),
				digits, slices.Max(values))
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t|\n", name,
			column(func(m Measurement) float64 { return m.ObjectsPerSecond }, 0),
			column(func(m Measurement) float64 { return m.APIServerCPUMillis }, 2),
			column(func(m Measurement) float64 { return m.EtcdCPUMillis }, 2),
			column(func(m Measurement) float64 { return m.ClientCPUMillis }, 2),
			column(func(m Measurement) float64 { return float64(m.ClientPeakRSSBytes) / (1 << 20) }, 1))
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| kube-migrator's …\t| median (lowest–highest)\t| target\t|\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|")
	for _, ratio := range r.Ratios {
		bound, verdict := "≥", "reached"
		if ratio.AtMost {
			bound = "≤"
		}
		if !ratio.Reached {
			verdict = "missed"
		}
		fmt.Fprintf(w, "| %s\t| %.2f (%.2f–%.2f)\t| %s %.1f\t| %s\t|\n", ratio.Name, ratio.Median, ratio.Lowest,
			ratio.Highest, bound, ratio.Target, verdict)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| bytes on the wire per object\t| object\t| objects\t| sent\t| received\t| whole run, sent\t| "+
		"whole run, received\t| client peak RSS MiB\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, x := range r.Wire {
		fmt.Fprintf(w, "| %s\t| %d\t| %d\t| %.0f\t| %.0f\t| %.0f\t| %.0f\t| %.1f\t|\n", x.Contestant,
			x.ObjectBytes, x.Objects,
			x.Sent, x.Received, x.AllSent, x.AllReceived, float64(x.ClientPeakRSSBytes)/(1<<20))
	}
	err := w.Flush()
	r.guardCost(out)
	return err
}
