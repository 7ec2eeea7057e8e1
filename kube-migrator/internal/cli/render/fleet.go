// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// Fleet is the report of a command about many clusters.
type Fleet struct {
	// Column is the header of the verdicts: VERDICT, or another word if the command has one.
	Column string
	// What is what a row is about: CLUSTER or SNAPSHOT.
	What string
	// ExitCode is that of the command: the most important one of all clusters.
	ExitCode int
	// Clusters are in the order in which the user selected them.
	Clusters []FleetCluster
}

// FleetCluster is the row of one cluster.
type FleetCluster struct {
	// Name is the context, or the name of the kubeconfig's file. It is the key in JSON and YAML.
	Name string `json:"-"`
	// Context and Kubeconfig are what reaches the cluster. Kubeconfig is empty for the kubeconfig of the command line.
	Context    string `json:"context,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Wave is the number of the wave, from 1. It is 0 if there are no waves.
	Wave int `json:"wave,omitempty"`
	// Verdict is that of the command, or Failed, Interrupted or NotStarted.
	Verdict string `json:"verdict"`
	// ExitCode is that of the command for this cluster alone.
	ExitCode int `json:"exitCode"`
	// Left is what is left to do, for users.
	Left string `json:"left,omitempty"`
	// Reason is the first reason or the error, and Try the command that helps.
	Reason string `json:"reason,omitempty"`
	Try    string `json:"try,omitempty"`
	// SameClusterAs are other rows that are about the same cluster.
	SameClusterAs []string `json:"sameClusterAs,omitempty"`
	// Notes are what the command said besides its result.
	Notes []string `json:"notes,omitempty"`
	// Report is the whole output of the command for this cluster alone, as JSON.
	Report json.RawMessage `json:"report,omitempty"`
	// Details are text below the table.
	Details string `json:"-"`
}

// The verdicts of clusters for which the command has none.
const (
	FleetFailed      = "Failed"      // the command ended with an error
	FleetInterrupted = "Interrupted" // the user interrupted the command
	FleetNotStarted  = "NotStarted"  // the user interrupted the command before, or an earlier wave failed
)

// FleetAnswer is the result of a command for one cluster of a fleet.
type FleetAnswer struct {
	// Verdict, Left, Reason and Try are those of a FleetCluster.
	Verdict, Left, Reason, Try string
	// Report is what -o json prints for one cluster.
	Report any
	// Details writes what -o table prints below the table for one cluster, and Whole all that -o wide prints.
	Details, Whole func(w io.Writer) error
}

// Write writes the report. The names are those of clusters whose exit code is not 0.
func (f Fleet) Write(w io.Writer, format Format) error {
	switch format {
	case Name:
		for _, c := range f.Clusters {
			if c.ExitCode == 0 {
				continue
			}
			if _, err := fmt.Fprintln(w, c.Name); err != nil {
				return fmt.Errorf("write names: %w", err)
			}
		}
		return nil
	case JSON, YAML:
		clusters := map[string]FleetCluster{}
		for _, c := range f.Clusters {
			clusters[c.Name] = c
		}
		return Data(w, format, struct {
			Sentence string                  `json:"sentence"`
			ExitCode int                     `json:"exitCode"`
			Clusters map[string]FleetCluster `json:"clusters"`
		}{f.Sentence(), f.ExitCode, clusters})
	case Text, Table, Wide, HTML, Prometheus:
	}
	return f.table(w, format == Wide)
}

func (f Fleet) table(w io.Writer, wide bool) error {
	waves := slices.ContainsFunc(f.Clusters, func(c FleetCluster) bool { return c.Wave > 0 })
	header := []string{f.What, f.Column, "LEFT", "REASON"}
	if waves {
		header = slices.Insert(header, 1, "WAVE")
	}
	rows := make([][]string, len(f.Clusters))
	for i, c := range f.Clusters {
		row := []string{c.Name, c.Verdict, c.Left, c.Reason}
		if !wide {
			row[3] = shortened(c.Reason)
		}
		if waves {
			row = slices.Insert(row, 1, fmt.Sprint(c.Wave))
		}
		rows[i] = row
	}
	if err := Tabulate(w, header, rows); err != nil {
		return err
	}
	var b strings.Builder
	for _, c := range f.Clusters {
		if c.Details != "" {
			fmt.Fprintf(&b, "\n%s:\n%s", clean(c.Name), c.Details)
		}
	}
	b.WriteString("\n")
	for i, c := range f.Clusters {
		earlier := slices.ContainsFunc(f.Clusters[:i], func(e FleetCluster) bool {
			return slices.Contains(c.SameClusterAs, e.Name)
		})
		if len(c.SameClusterAs) > 0 && !earlier {
			wrap(&b, fmt.Sprintf("%s and %s reach the same cluster.", clean(c.Name),
				clean(strings.Join(c.SameClusterAs, ", "))))
		}
	}
	fmt.Fprintln(&b, f.Sentence())
	_, err := io.WriteString(w, b.String())
	return err
}

// shortened returns the beginning of a reason, which is complete below the table.
func shortened(reason string) string {
	const most = 60
	runes := []rune(clean(reason))
	if len(runes) <= most {
		return string(runes)
	}
	return strings.TrimSpace(string(runes[:most-1])) + "…"
}

// Sentence says how many clusters have each verdict, and names the first ones whose exit code is not 0.
func (f Fleet) Sentence() string {
	type group struct {
		verdict string
		code    int
		names   []string
	}
	var groups []group
	for _, c := range f.Clusters {
		i := slices.IndexFunc(groups, func(g group) bool { return g.verdict == c.Verdict && g.code == c.ExitCode })
		if i < 0 {
			i, groups = len(groups), append(groups, group{verdict: c.Verdict, code: c.ExitCode})
		}
		groups[i].names = append(groups[i].names, c.Name)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		switch {
		case (a.code == 0) == (b.code == 0):
			return 0
		case a.code == 0:
			return 1
		}
		return -1
	})
	parts := make([]string, len(groups))
	for i, g := range groups {
		parts[i] = fmt.Sprintf("%s %s", Count(int64(len(g.names))), g.verdict)
		if g.code != 0 {
			parts[i] += " (" + clean(firstNames(g.names)) + ")"
		}
	}
	return fmt.Sprintf("%s: %s.", Counted(int64(len(f.Clusters)), strings.ToLower(f.What)), strings.Join(parts, ", "))
}

func firstNames(names []string) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:few], ", "), Count(int64(len(names)-few)))
}

// Counted returns a number with a noun in the right number.
func Counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// shareOf says how many of all there are; nothing if there are none.
func shareOf(n, all int, noun string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s", Count(int64(n)), Counted(int64(all), noun))
}

// CheckAnswer is the answer of check for one cluster.
func CheckAnswer(r upgrade.Report) FleetAnswer {
	a := FleetAnswer{
		Verdict: string(r.Verdict), Report: r,
		Details: func(w io.Writer) error { return checkBelow(w, r, false) },
		Whole:   func(w io.Writer) error { return checkTable(w, true, r) },
	}
	left := 0
	for _, f := range r.Findings {
		if f.Verdict == upgrade.Safe {
			continue
		}
		if left++; left == 1 {
			a.Reason, a.Try = f.Resource+": "+f.Why, f.Next
		}
	}
	a.Left = shareOf(left, len(r.Findings), "resource")
	if a.Reason == "" && r.Verdict != upgrade.Safe {
		a.Reason = r.Sentence
	}
	return a
}

// PlanAnswer is the answer of plan for one cluster. Its verdict says whether a resource needs to be migrated.
func PlanAnswer(p Plan) FleetAnswer {
	a := FleetAnswer{
		Verdict: "NotNeeded", Report: p, Details: p.reasons,
		Whole: func(w io.Writer) error { return p.Write(w, Wide) },
	}
	verdicts := map[string]string{"yes": "Needed", "unknown": "Unknown"}
	for _, word := range []string{"yes", "unknown"} {
		n, stored, objects := 0, 0, int64(0)
		for _, r := range p.Resources {
			if !r.NotStored {
				stored++
			}
			if r.Migration != word {
				continue
			}
			if n++; n == 1 {
				a.Verdict, a.Reason, a.Try = verdicts[word], r.Name+": "+r.Why, r.Next
			}
			if r.Objects != nil {
				objects += *r.Objects
			}
		}
		if n > 0 {
			a.Left = shareOf(n, stored, "resource") + ", " + Counted(objects, "object")
			break
		}
	}
	return a
}

// ProgressAnswer is the answer of progress for one cluster.
func ProgressAnswer(p Progress) FleetAnswer {
	below := func(w io.Writer) error { return p.below(w, false, ProgressStyle{}) }
	a := FleetAnswer{
		Verdict: string(p.Verdict), Report: p, Details: below,
		Whole: func(w io.Writer) error { return p.table(w, true, ProgressStyle{}) },
	}
	left := 0
	for _, r := range p.Resources {
		failed := r.Run == upgrade.HasFailed
		if r.Verdict == upgrade.Safe && !failed {
			continue
		}
		if left++; left == 1 || failed {
			a.Reason, a.Try = r.Resource+": "+r.Why, r.Try
		}
		if failed {
			a.Verdict = "Failures"
		}
	}
	a.Left = shareOf(left, len(p.Resources), "resource")
	if missing := p.Total.Total - p.Total.Done; a.Left != "" && missing > 0 {
		a.Left += ", " + Counted(missing, "object")
	}
	if a.Reason == "" && p.Verdict != upgrade.Safe {
		a.Reason = p.Sentence
	}
	return a
}

// MigrateAnswer is the answer of migrate for one cluster: the first outcome that needs attention.
func MigrateAnswer(m *Migrations) FleetAnswer {
	text := func(w io.Writer) error { return m.Text(w) }
	a := FleetAnswer{Verdict: "NothingToDo", Report: m, Details: text, Whole: text}
	left := 0
	for i := range m.Resources {
		r := &m.Resources[i]
		switch r.Outcome {
		case Proven, WouldRun, WouldPass:
			if left == 0 {
				a.Verdict = string(r.Outcome)
			}
			continue
		case NotProven, Incomplete, Stopped, Unfinished, WouldReject:
		}
		if left++; left == 1 {
			a.Verdict, a.Reason, a.Try = string(r.Outcome), r.Resource+": "+r.Error, r.Next
		}
	}
	a.Left = shareOf(left, len(m.Resources), "resource")
	return a
}

// AuditAnswer is the answer of audit for one snapshot.
func AuditAnswer(report *etcdaudit.Report) FleetAnswer {
	t := report.Totals
	a := FleetAnswer{
		Verdict: comparison(report.Comparison()), Report: report,
		Details: func(w io.Writer) error { _, err := io.WriteString(w, AuditSummary(report)); return err },
		Whole:   func(w io.Writer) error { return Audit(w, Wide, report) },
	}
	switch {
	case !report.Compared:
		a.Left = Counted(t.Objects, "object")
	case t.Stale > 0:
		a.Left = fmt.Sprintf("%s of %s", Count(t.Stale), Counted(t.Objects, "object"))
	case t.Undetermined > 0:
		a.Left = fmt.Sprintf("%s of %s", Count(t.Undetermined), Counted(t.Objects, "object"))
	}
	for _, row := range report.Rows {
		if row.Comparison == report.Comparison() &&
			(row.Comparison == etcdaudit.IsStale || row.Comparison == etcdaudit.IsUndetermined) {
			a.Reason = fmt.Sprintf("%s: %s as %s", row.Resource, Counted(row.Objects, "object"), row.APIVersion)
			break
		}
	}
	return a
}
