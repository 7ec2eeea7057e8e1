// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// The groups of a page about progress.
const (
	failed = iota
	running
	waiting
	idle
	current
)

// OfProgress returns the page about the progress of a cluster. earlier are the changes of the agreement that were seen
// before; nil for a report.
func OfProgress(p render.Progress, cluster string, earlier []Change) View {
	v := View{
		Title: "Migrations of stored objects", Cluster: cluster, Time: p.Time, Verdict: p.Verdict, Sentence: p.Sentence,
		Columns: []Column{{Title: "Status"}, {Title: "Versions"}, {Title: "Progress"}, {Title: "Objects", Number: true},
			{Title: "Rate", Number: true, Narrow: true}, {Title: "Time left", Number: true, Narrow: true},
			{Title: "Failed", Number: true, Narrow: true},
			{Title: "Safe"}},
		Groups: []Group{
			failed:  {ID: "failed", Title: "Failed", About: "The last run ended without success."},
			running: {ID: "running", Title: "Running", About: "A worker rewrites objects."},
			waiting: {ID: "waiting", Title: "Waiting", About: "A run was requested that is not at work now."},
			idle: {ID: "idle", Title: "Without a run", About: "Objects may be stored in other versions than the " +
				"current one, and no run is requested."},
			current: {ID: "current", Title: "Current", Collapsed: true,
				About: "Everything is stored in the version that the API servers write."},
		},
		Shares: Shares{Of: "resources"},
	}
	if t := p.Total; t.Total > 0 {
		v.Total = &Total{Done: t.Done, Total: t.Total, Failed: t.Failed, ObjectsPerSecond: t.ObjectsPerSecond}
	}
	for _, r := range p.Resources {
		group := &v.Groups[groupOf(r)]
		group.Rows = append(group.Rows, progressRow(r, p))
	}
	for i, tone := range []Tone{failed: Bad, running: Busy, waiting: Quiet, idle: Warn, current: Good} {
		v.Shares.Parts = append(v.Shares.Parts,
			Share{Name: v.Groups[i].Title, Count: int64(len(v.Groups[i].Rows)), Tone: tone})
	}
	v.Agreement = agreementOf(p, earlier)
	v.Notes = notesOf(p.NotLookedAt, p.Excluded)
	return v
}

// groupOf returns the group of a resource.
func groupOf(r render.ProgressResource) int {
	switch {
	case r.Run == upgrade.HasFailed:
		return failed
	case r.Unfinished && r.Run == upgrade.AtWork && r.Status == string(v1alpha1.PhaseRunning):
		return running
	case r.Unfinished:
		return waiting
	case r.Verdict != upgrade.Safe:
		return idle
	}
	return current
}

func progressRow(r render.ProgressResource, p render.Progress) Row {
	row := Row{Key: r.Resource, Name: r.Resource, Runbook: r.Runbook}
	if r.Verdict != upgrade.Safe || r.Run == upgrade.HasFailed {
		row.Why, row.Try = r.Why, r.Try
	}
	if r.Unfinished && r.Summary != "" && !strings.Contains(row.Why, r.Summary) {
		row.Note = r.Summary
	}
	for _, f := range r.Failures {
		row.Failures = append(row.Failures, Failure{Object: printable.Name(f.Namespace, f.Name), Reason: f.Reason,
			Message: f.Message})
	}
	if len(row.Failures) > 0 {
		row.Others = max(0, r.Failed-int64(len(row.Failures)))
	}
	var bar, objects, rate, left, failures Cell
	if percent := render.Percent(r.Done, r.Total); percent != "" {
		share := min(1, float64(r.Done)/float64(r.Total))
		bar = Cell{Text: percent + "%", Bar: &share, Tone: barTone(r)}
		total := render.Count(r.Total)
		if !r.TotalIsExact {
			total = "~" + total
		}
		objects.Text = render.Count(r.Done) + " of " + total
	}
	if r.ObjectsPerSecond > 0 {
		rate.Text = render.Count(r.ObjectsPerSecond) + "/s"
	}
	if t := r.EstimatedCompletionTime; t != nil && r.Unfinished {
		left.Text = render.Duration(t.Sub(p.Time))
	}
	if r.Failed > 0 {
		failures = Cell{Text: render.Count(r.Failed), Tone: Bad}
	}
	row.Cells = []Cell{
		{Text: r.ShownStatus()}, {Text: versions(r.Stored, cmp.Or(r.PresentStorageVersion, r.StorageVersion))},
		bar, objects, rate, left, failures, {Text: string(r.Verdict), Tone: toneOf(r.Verdict)},
	}
	return row
}

func barTone(r render.ProgressResource) Tone {
	switch {
	case r.Run == upgrade.HasFailed:
		return Bad
	case r.Unfinished:
		return Busy
	}
	return Good
}

// versions shows the versions that may be stored besides the one that is written now, and that one.
func versions(stored []string, now string) string {
	before := slices.DeleteFunc(slices.Clone(stored), func(version string) bool { return version == now })
	switch {
	case len(before) == 0:
		return now
	case now == "":
		return strings.Join(before, ", ")
	}
	return strings.Join(before, ", ") + " → " + now
}

func notesOf(notLookedAt, excluded []string) (notes []Note) {
	if len(notLookedAt) > 0 {
		notes = append(notes, Note{Title: "These parts of the cluster could not be read", Tone: Warn, Items: notLookedAt})
	}
	if len(excluded) > 0 {
		notes = append(notes, Note{Title: "The installation excludes these resources, so they are not judged",
			Items: excluded})
	}
	return notes
}
