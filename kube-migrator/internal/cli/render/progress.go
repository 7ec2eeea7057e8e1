// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// Progress is what `progress -o json` prints. Numbers are raw, times RFC 3339.
type Progress struct {
	Verdict upgrade.Verdict `json:"verdict"`
	// Sentence says the verdict and its reason to people.
	Sentence  string             `json:"sentence"`
	Resources []ProgressResource `json:"resources"`
	Total     ProgressTotal      `json:"total"`
	// NotCovered are resources that are not safe, or not known to be, and that no StorageVersionMigration is about.
	NotCovered []string `json:"notCovered"`
	// Excluded are resources that the installation excludes, and that no one named: nothing is said about them.
	Excluded []string `json:"excluded,omitempty"`
	// NotLookedAt are the parts of the cluster that could not be read, and why.
	NotLookedAt []string `json:"notLookedAt,omitempty"`
	// Time is when this was so.
	Time time.Time `json:"time"`
}

// ProgressTotal adds up the resources.
type ProgressTotal struct {
	Total            int64 `json:"total"`
	Done             int64 `json:"done"`
	Failed           int64 `json:"failed"`
	ObjectsPerSecond int64 `json:"objectsPerSecond"`
}

// Runbook is the page with a section for each reason for which a run fails.
const Runbook = "https://github.com/kube-migrator/kube-migrator/blob/main/docs/runbook.md#"

// ProgressResource is one resource and the StorageVersionMigration that counts for it.
type ProgressResource struct {
	Resource string `json:"resource"`
	// Migration is the name of the StorageVersionMigration; empty where there is none.
	Migration string          `json:"migration,omitempty"`
	Verdict   upgrade.Verdict `json:"verdict"`
	Why       string          `json:"why"`
	// Status is status.state; empty where there is no StorageVersionMigration.
	Status  string `json:"status,omitempty"`
	Summary string `json:"summary,omitempty"`
	// Run is how far the run is that is requested now.
	Run upgrade.Run `json:"run,omitempty"`
	// Unfinished: a run was requested that has neither succeeded nor failed.
	Unfinished bool `json:"unfinished"`
	// StorageVersion and its hash are what the run migrates to; the present ones are what discovery shows.
	StorageVersion            string `json:"storageVersion,omitempty"`
	StorageVersionHash        string `json:"storageVersionHash,omitempty"`
	PresentStorageVersion     string `json:"presentStorageVersion,omitempty"`
	PresentStorageVersionHash string `json:"presentStorageVersionHash,omitempty"`
	Evidence                  string `json:"evidence,omitempty"`
	Generation                int64  `json:"generation,omitempty"`
	CompletedGeneration       int64  `json:"completedGeneration,omitempty"`
	Total                     int64  `json:"total"`
	TotalIsExact              bool   `json:"totalIsExact"`
	Done                      int64  `json:"done"`
	Rewritten                 int64  `json:"rewritten"`
	Current                   int64  `json:"current"`
	Gone                      int64  `json:"gone"`
	Failed                    int64  `json:"failed"`
	// WouldLoseFields are those of Failed that were left alone, because they would lose fields.
	WouldLoseFields         int64             `json:"wouldLoseFields,omitempty"`
	Retried                 int64             `json:"retried"`
	ObjectsPerSecond        int64             `json:"objectsPerSecond"`
	EstimatedCompletionTime *time.Time        `json:"estimatedCompletionTime,omitempty"`
	StartTime               *time.Time        `json:"startTime,omitempty"`
	UpdateTime              *time.Time        `json:"updateTime,omitempty"`
	CompletionTime          *time.Time        `json:"completionTime,omitempty"`
	Failures                []ProgressFailure `json:"failures,omitempty"`
	// Try is the command that helps; empty where nothing has to be done.
	Try string `json:"try,omitempty"`
	// Runbook is the section of Runbook about the reason for which the last run failed; empty if none has.
	Runbook string `json:"runbook,omitempty"`
	// Unlisted: tables leave the resource out. It has no StorageVersionMigration, and no one named it.
	Unlisted bool `json:"-"`
	// Stored are the versions that may be stored, as in a Finding, and Recorded is the StorageState; nil for none. Pages
	// show both.
	Stored   []string                     `json:"-"`
	Recorded *v1alpha1.StorageStateStatus `json:"-"`
}

// ProgressFailure is one object that could not be rewritten.
type ProgressFailure struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	Attempts  int64  `json:"attempts,omitempty"`
}

// ProgressStyle is how progress is shown to people. The zero value is for files and pipes.
type ProgressStyle struct {
	// Bars are drawn, for a terminal.
	Bars bool
	// Colors are those of ANSI terminals.
	Colors bool
}

// Unfinished reports whether any run that was asked for has neither succeeded nor failed.
func (p Progress) Unfinished() bool {
	return slices.ContainsFunc(p.Resources, func(r ProgressResource) bool { return r.Unfinished })
}

// Line is one resource in one line, for a log.
func (r ProgressResource) Line() string {
	line := r.Resource + "  " + r.row(time.Time{})[2]
	if r.Status == string(v1alpha1.PhaseWaiting) && r.Unfinished { // the summary says for what, and until when
		return r.Resource + "  " + clean(r.Summary)
	}
	if percent := Percent(r.Done, r.Total); percent != "" {
		line += "  " + percent + "%  " + Count(r.Done) + "/" + Count(r.Total)
	}
	if r.ObjectsPerSecond > 0 {
		line += "  " + rate(r.ObjectsPerSecond)
	}
	if r.Failed > 0 {
		line += "  " + Count(r.Failed) + " failed"
	}
	return line
}

// Write writes the progress.
func (p Progress) Write(w io.Writer, format Format, style ProgressStyle) error {
	switch format {
	case Table, Wide:
		return p.table(w, format == Wide, style)
	case Name:
		for _, r := range p.Resources {
			if r.Migration == "" {
				continue
			}
			if _, err := fmt.Fprintln(w, "storageversionmigration.migration.k8s.io/"+r.Migration); err != nil {
				return fmt.Errorf("write names: %w", err)
			}
		}
		return nil
	default:
		return Data(w, format, p)
	}
}

func (p Progress) table(w io.Writer, wide bool, style ProgressStyle) error {
	header := []string{"RESOURCE", "STORAGE", "STATUS", "%", "DONE", "TOTAL", "RATE", "ETA", "FAILED"}
	if wide {
		header = append(header, "MIGRATION", "EVIDENCE", "VERDICT", "WHY")
	}
	if style.Bars {
		header = append([]string{"PROGRESS"}, header...)
	}
	rows := make([][]string, 0, len(p.Resources)+1)
	for _, r := range p.Resources {
		if r.Unlisted {
			continue
		}
		row := r.row(p.Time)
		if wide {
			row = append(row, r.Migration, r.Evidence, string(r.Verdict), r.Why)
		}
		rows = append(rows, barred(row, r.Done, r.Total, style))
	}
	if len(rows) > 1 {
		t := p.Total
		row := []string{"total", "", "", Percent(t.Done, t.Total), Count(t.Done), Count(t.Total),
			rate(t.ObjectsPerSecond), "", Count(t.Failed)}
		if wide {
			row = append(row, "", "", string(p.Verdict), "")
		}
		rows = append(rows, barred(row, t.Done, t.Total, style))
	}
	if len(rows) > 0 {
		if err := Tabulate(w, header, rows); err != nil {
			return err
		}
	}
	return p.below(w, wide, style)
}

// below writes what follows the table: what has failed, the reasons, unless the table contains them, and the verdict.
func (p Progress) below(w io.Writer, wide bool, style ProgressStyle) error {
	var b strings.Builder
	var reasons []reason
	for _, r := range p.Resources {
		switch {
		case r.Run == upgrade.HasFailed:
			b.WriteString("\n")
			r.failures(&b)
		case r.Verdict != upgrade.Safe && !r.Unfinished && !wide:
			reasons = append(reasons, reason{r.Resource, "", r.Why, r.Try})
		}
	}
	if len(reasons) > 0 {
		b.WriteString("\n")
		writeReasons(&b, reasons, 0)
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintln(&b, colored(p.Sentence, p.Verdict, style))
	_, err := io.WriteString(w, b.String())
	return err
}

func barred(row []string, done, total int64, style ProgressStyle) []string {
	if !style.Bars {
		return row
	}
	const cells = 20
	full := 0
	if total > 0 {
		full = int(cells * min(1, float64(done)/float64(total)))
	}
	return append([]string{"[" + strings.Repeat("=", full) + strings.Repeat(".", cells-full) + "]"}, row...)
}

func (r ProgressResource) row(now time.Time) []string {
	if r.Migration == "" {
		return []string{r.Resource, r.PresentStorageVersion, r.ShownStatus(), "", "", "", "", "", ""}
	}
	eta := ""
	if t := r.EstimatedCompletionTime; t != nil {
		eta = Duration(t.Sub(now))
	}
	total := Count(r.Total)
	if !r.TotalIsExact && r.Total > 0 {
		total = "~" + total
	}
	return []string{
		r.Resource, r.StorageVersion, r.ShownStatus(), Percent(r.Done, r.Total), Count(r.Done), total,
		rate(r.ObjectsPerSecond), eta, Count(r.Failed),
	}
}

// ShownStatus is the status in one word. A success whose resource is unsafe now, because another version was written
// since, is shown as Outdated.
func (r ProgressResource) ShownStatus() string {
	switch {
	case r.Migration == "" && r.Verdict == upgrade.Safe:
		return "Current"
	case r.Migration == "":
		return "NotRequested"
	case r.Status == "Succeeded" && r.Verdict == upgrade.Unsafe:
		return "Outdated"
	}
	return r.Status
}

// WriteFailure says what could not be done.
func (r ProgressResource) WriteFailure(w io.Writer) error {
	var b strings.Builder
	r.failures(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// failures says what could not be done, and what to try.
func (r ProgressResource) failures(b *strings.Builder) {
	fmt.Fprintf(b, "%s failed: %s\n", r.Resource, clean(r.Why))
	for i, f := range r.Failures {
		if i == shownFailures {
			break
		}
		fmt.Fprintf(b, "  failed  %s: %s: %s\n", printable.Name(f.Namespace, f.Name), clean(f.Reason),
			clean(f.Message))
	}
	if hidden := r.Failed - int64(min(shownFailures, len(r.Failures))); hidden > 0 && len(r.Failures) > 0 {
		fmt.Fprintf(b, "  failed  and %s more\n", Count(hidden))
	}
	if r.Try != "" {
		fmt.Fprintf(b, "  Try: %s\n", r.Try)
	}
	if r.Runbook != "" {
		fmt.Fprintf(b, "  See %s\n", r.Runbook)
	}
}

func colored(text string, verdict upgrade.Verdict, style ProgressStyle) string {
	if !style.Colors {
		return text
	}
	color := map[upgrade.Verdict]string{upgrade.Safe: "32", upgrade.Unsafe: "31", upgrade.Undetermined: "33"}[verdict]
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Percent is the share of what is done: 100 only where all of it is, empty where the total is not known.
func Percent(done, total int64) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%d", int(math.Floor(100*min(1, float64(done)/float64(total)))))
}

func rate(objectsPerSecond int64) string {
	if objectsPerSecond <= 0 {
		return ""
	}
	return Count(objectsPerSecond) + "/s"
}
