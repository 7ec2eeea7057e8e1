// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// columns are the figures in the order of a table, with their headings and how they are shown.
var columns = []struct {
	figure  Figure
	heading string
	unit    float64 // a figure is divided by it
	digits  int
}{
	{ObjectsPerSecond, "objects/s", 1, 0},
	{Seconds, "seconds", 1, 1},
	{WholeRunSeconds, "whole run, s", 1, 1},
	{APIServerCPUMillis, "API server CPU ms", 1, 2},
	{EtcdCPUMillis, "etcd CPU ms", 1, 2},
	{ClientCPUMillis, "client CPU ms", 1, 2},
	{ClientRSSBytes, "client RSS MiB", 1 << 20, 1},
	{ClientPeakRSSBytes, "client peak RSS MiB", 1 << 20, 1},
	{Sent, "bytes sent", 1, 0},
	{Received, "bytes received", 1, 0},
	{WholeRunSent, "whole run, sent", 1, 0},
	{WholeRunReceived, "whole run, received", 1, 0},
	{RequestsPerObject, "requests", 1, 2},
	{WritesPerObject, "writes", 1, 2},
	{AdmissionSteps, "admission steps", 1, 2},
	{TooManyRequests, "429s", 1, 0},
	{EtcdWrites, "etcd writes", 1, 0},
	{P50Millis, "p50 ms", 1, 1},
	{P99Millis, "p99 ms", 1, 1},
	{ForegroundErrors, "errors", 1, 0},
	{RequestsPerSecond, "requests/s", 1, 2},
	{SecondsToFall, "s until the rate fell", 1, 1},
	{SecondsToRecover, "s until the rate was back", 1, 1},
	{MostPatches, "patches, server with the most", 1, 0},
	{FewestPatches, "patches, server with the fewest", 1, 0},
}

// Markdown is the report for users. Figures are per object unless the heading says otherwise: the median of the rounds,
// and the lowest and the highest.
func (r *Report) Markdown() string {
	var out strings.Builder
	m := r.Machine
	fmt.Fprintf(&out, "### %s: %s\n\n", r.Scenario, r.Title)
	if r.Quick {
		out.WriteString("A quick run: these figures mean nothing.\n\n")
	}
	fmt.Fprintf(&out, "Measured on %s: %s, %d processors, %.0f GiB, %s, %s. %d rounds.\n", r.Time.Format("2006-01-02"),
		m.Processor, m.Processors, float64(m.MemoryBytes)/(1<<30), m.System, m.Go, r.Rounds)
	for _, pairs := range []map[string]string{r.Versions, r.Settings} {
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			fmt.Fprintf(&out, "%s: %s. ", name, pairs[name])
		}
	}
	fmt.Fprintf(&out, "An idle control plane uses %.1f %% of one processor.\n\n", r.IdleCPU*100)
	for _, name := range r.cases() {
		fmt.Fprintf(&out, "%s:\n\n%s\n", name, r.figures(name))
	}
	out.WriteString(r.ratios())
	return out.String()
}

// figures is the table of one case. Figures that no one has are left out.
func (r *Report) figures(name string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 1, ' ', 0)
	headings, rule := "| \t", "|---\t"
	present := map[Figure]bool{}
	checks := map[string]bool{}
	for _, m := range r.of(name, "") {
		for figure := range m.Figures {
			present[figure] = true
		}
		for check := range m.Checks {
			checks[check] = true
		}
	}
	for _, c := range columns {
		if present[c.figure] {
			headings += "| " + c.heading + "\t"
			rule += "|---\t"
		}
	}
	for _, check := range slices.Sorted(maps.Keys(checks)) {
		headings += "| " + check + "\t"
		rule += "|---\t"
	}
	fmt.Fprintf(w, "%s|\n%s|\n", headings, rule)
	for _, contestant := range r.contestants(name) {
		fmt.Fprintf(w, "| %s\t", strings.ReplaceAll(contestant, "|", `\|`))
		for _, c := range columns {
			if present[c.figure] {
				fmt.Fprintf(w, "| %s\t", spread(r.values(name, contestant, c.figure), c.unit, c.digits))
			}
		}
		for _, check := range slices.Sorted(maps.Keys(checks)) {
			fmt.Fprintf(w, "| %s\t", r.checked(name, contestant, check))
		}
		fmt.Fprintln(w, "|")
	}
	_ = w.Flush() // a strings.Builder takes everything
	for _, m := range r.of(name, "") {
		if m.Error != "" {
			fmt.Fprintf(&out, "\n%s, round %d: %s\n", m.Contestant, m.Round, m.Error)
		}
		if m.Round > 1 {
			continue // one example is enough
		}
		for _, example := range slices.Sorted(maps.Keys(m.Examples)) {
			fmt.Fprintf(&out, "\n%s, %s: `%s`\n", m.Contestant, example, m.Examples[example])
		}
	}
	return out.String()
}

// checked is yes where all rounds agree on it.
func (r *Report) checked(name, contestant, check string) string {
	answer := "–"
	for _, m := range r.of(name, contestant) {
		yes, asked := m.Checks[check]
		switch {
		case asked && !yes:
			return "no"
		case asked:
			answer = "yes"
		}
	}
	return answer
}

// spread is the median with the lowest and the highest of several values.
func spread(values []float64, unit float64, digits int) string {
	if len(values) == 0 {
		return "–"
	}
	text := fmt.Sprintf("%.*f", digits, median(values)/unit)
	if len(values) > 1 {
		text += fmt.Sprintf(" (%.*f–%.*f)", digits, slices.Min(values)/unit, digits, slices.Max(values)/unit)
	}
	return text
}

func (r *Report) ratios() string {
	if len(r.Ratios) == 0 {
		return ""
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| ratio within a round\t| \t| median (lowest–highest)\t| target\t|\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|")
	for _, ratio := range r.Ratios {
		target, verdict, digits := "", "", cmp.Or(ratio.Digits, 2)
		if ratio.Target > 0 {
			bound := "≥"
			if ratio.AtMost {
				bound = "≤"
			}
			target, verdict = fmt.Sprintf("%s %.*f", bound, digits, ratio.Target), "missed"
			if ratio.Reached {
				verdict = "reached"
			}
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t|\n", ratio.Name, ratio.Case,
			fmt.Sprintf("%.*f (%.*f–%.*f)", digits, ratio.Median, digits, ratio.Lowest, digits, ratio.Highest), target,
			verdict)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return out.String()
}
