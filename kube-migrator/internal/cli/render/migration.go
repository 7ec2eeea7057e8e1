// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Outcome is what became of the migration of one resource; a closed set.
type Outcome string

// The outcomes.
const (
	Proven      Outcome = "Proven"      // every object is accounted for, and nothing can have happened since
	NotProven   Outcome = "NotProven"   // every object was rewritten, but the evidence is too weak to conclude anything
	Incomplete  Outcome = "Incomplete"  // some objects could not be rewritten
	Stopped     Outcome = "Stopped"     // by the user
	Unfinished  Outcome = "Unfinished"  // an error ended it
	WouldRun    Outcome = "WouldRun"    // --dry-run=client
	WouldPass   Outcome = "WouldPass"   // --dry-run=server: admission and validation refuse nothing
	WouldReject Outcome = "WouldReject" // --dry-run=server: they refuse some objects
)

// Migrations is what `migrate -o json` prints. Numbers are raw, times RFC 3339.
type Migrations struct {
	Reason    string      `json:"reason,omitempty"`
	DryRun    string      `json:"dryRun,omitempty"`
	Resources []Migration `json:"resources"`
}

// Migration is one resource of it.
type Migration struct {
	Resource       string         `json:"resource"`
	StorageVersion string         `json:"storageVersion"`
	Outcome        Outcome        `json:"outcome"`
	Result         migrate.Result `json:"result"`
	// Evidence says in a sentence how the agreement of the API servers is known.
	Evidence string `json:"evidence,omitempty"`
	// StoredVersionsBefore is a CRD's status.storedVersions; StoredVersionsAfter what it was pruned to, empty
	// where it was not.
	StoredVersionsBefore []string `json:"storedVersionsBefore,omitempty"`
	StoredVersionsAfter  []string `json:"storedVersionsAfter,omitempty"`
	// StoredVersionsKept says why they were not pruned.
	StoredVersionsKept string `json:"storedVersionsKept,omitempty"`
	// StorageState is what the resource's StorageState says now of the versions that may be stored: the storage version
	// alone, because the proof was recorded there. Empty where it was not.
	StorageState []string `json:"storageState,omitempty"`
	// StorageStateKept says why the proof was not recorded. Empty where there is no StorageState to record it in, too:
	// kube-migrator is not installed.
	StorageStateKept string `json:"storageStateKept,omitempty"`
	// Losses are the objects that would be left alone, because they would lose fields, with --dry-run=client; absent where
	// none can.
	Losses *pruning.Outlook `json:"losses,omitempty"`
	Error  string           `json:"error,omitempty"`
	// Next is the command that goes on, or that retries only what failed.
	Next string `json:"next,omitempty"`
}

// shownFailures is how many failures are shown to people; JSON has them all.
const shownFailures = 20

// inDetail is how many resources are each described in full; of more, only those that need attention are.
const inDetail = 4

// Text writes the summary for users.
func (m *Migrations) Text(w io.Writer) error {
	many := len(m.Resources) > inDetail
	if many {
		if err := m.table(w); err != nil {
			return err
		}
	}
	var b strings.Builder
	for i := range m.Resources {
		if r := &m.Resources[i]; !many || r.Outcome != Proven && r.Outcome != WouldRun && r.Outcome != WouldPass {
			r.text(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *Migrations) table(w io.Writer) error {
	rows := make([][]string, len(m.Resources))
	for i := range m.Resources {
		r := &m.Resources[i]
		c := r.Result.Counts
		rows[i] = []string{
			r.Resource, r.StorageVersion, string(r.Outcome), Count(r.Result.Total),
			Count(c.Rewritten + c.RewrittenBefore), Count(c.Current),
			Count(c.Gone), Count(c.Failed), strings.Join(r.StoredVersionsAfter, ","), r.evidence(),
		}
	}
	return Tabulate(w, []string{"RESOURCE", "STORAGE", "OUTCOME", "OBJECTS", "REWRITTEN", "CURRENT", "GONE", "FAILED",
		"PRUNED TO", "EVIDENCE"}, rows)
}

// evidence is that of the result, "" where there is none.
func (m *Migration) evidence() string {
	if m.Result.Epoch.Evidence == 0 {
		return ""
	}
	return m.Result.Epoch.Evidence.String()
}

func (m *Migration) text(b *strings.Builder) {
	r, c := m.Result, m.Result.Counts
	fmt.Fprintln(b, m.Headline())
	if m.Outcome == WouldRun {
		if left := m.Losses.String(); left != "" {
			fmt.Fprintf(b, "  left alone  %s\n", clean(left))
		}
		return
	}
	if m.Outcome == WouldPass || m.Outcome == WouldReject {
		fmt.Fprintf(b, "  objects     %s accepted, %s gone, %s refused", Count(c.Accepted+c.Current), Count(c.Gone),
			Count(c.Failed-c.WouldLoseFields))
		if c.WouldLoseFields > 0 {
			fmt.Fprintf(b, ", %s left alone", Count(c.WouldLoseFields))
		}
	} else {
		fmt.Fprintf(b, "  objects     %s rewritten, %s already current, %s gone, %s failed", Count(c.Rewritten),
			Count(c.Current), Count(c.Gone), Count(c.Failed))
	}
	if r.RewritingSeconds > 0 {
		fmt.Fprintf(b, ", in %s", Duration(time.Duration(r.RewritingSeconds*float64(time.Second))))
	}
	b.WriteString("\n")
	if c.RewrittenBefore > 0 {
		fmt.Fprintf(b, "              %s more were rewritten in %d earlier passes that the end of an epoch cut short\n",
			Count(c.RewrittenBefore), r.Restarts)
	}
	if c.ThroughStatus > 0 {
		fmt.Fprintf(b, "  status      %s of them by an empty patch of their status, because their own was refused\n",
			Count(c.ThroughStatus))
	}
	if c.ChangedByAdmission > 0 {
		fmt.Fprintf(b, "  admission   changed %s objects when they were rewritten\n", Count(c.ChangedByAdmission))
	}
	if c.ManagedFieldsDropped > 0 {
		fmt.Fprintf(b, "  ownership   %s objects lost their managedFields: the API server drops them if an object is too "+
			"large for etcd with them or, before 1.37, if they name a version that it cannot convert the object to\n", Count(c.ManagedFieldsDropped))
	}
	if r.SpreadOver > 0 {
		fmt.Fprintf(b, "  servers     the patches were spread over %d API servers\n", r.SpreadOver)
	}
	if r.Verified {
		fmt.Fprintf(b, "  verified    by a second pass in which every object stayed as it was\n")
	}
	if m.Evidence != "" {
		fmt.Fprintf(b, "  evidence    %s\n", m.Evidence)
	}
	if r.Epoch.Evidence == migrate.Verified && m.Outcome == Proven {
		fmt.Fprintf(b, "  risk        %s\n", migrate.RiskOfVerified)
	}
	m.storedVersionsText(b)
	switch {
	case len(m.StorageState) > 0:
		fmt.Fprintf(b, "  recorded    its StorageState says [%s]\n", strings.Join(m.StorageState, " "))
	case m.StorageStateKept != "":
		fmt.Fprintf(b, "  unrecorded  its StorageState stays as it is: %s\n", m.StorageStateKept)
	}
	m.failuresText(b)
	if m.Error != "" {
		fmt.Fprintf(b, "  error       %s\n", m.Error)
	}
	if m.Next != "" {
		fmt.Fprintf(b, "  next        %s\n", m.Next)
	}
}

func (m *Migration) headline() string {
	switch m.Outcome {
	case Proven:
		if m.Result.Counts.Done() == 0 {
			return "there are no objects"
		}
		return "every object is stored as " + m.StorageVersion
	case NotProven:
		return "rewritten, but not proven"
	case Incomplete:
		return "finished with failures"
	case Stopped:
		return fmt.Sprintf("stopped after %s of %s objects", Count(m.Result.Counts.Done()), Count(m.Result.Total))
	case Unfinished:
		return fmt.Sprintf("ended by an error after %s of %s objects",
			Count(m.Result.Counts.Done()), Count(m.Result.Total))
	case WouldRun:
		if m.Losses != nil && m.Losses.Objects > 0 {
			return fmt.Sprintf("would rewrite about %s objects, but not all", Count(m.Result.Total))
		}
		return fmt.Sprintf("would rewrite about %s objects", Count(m.Result.Total))
	case WouldPass:
		return "a dry run: the API server would refuse no object"
	case WouldReject:
		if c := m.Result.Counts; c.Failed == c.WouldLoseFields {
			return "a dry run: some objects would be left alone, because they would lose fields"
		}
		return "a dry run: the API server would refuse some objects"
	}
	return string(m.Outcome)
}

func (m *Migration) storedVersionsText(b *strings.Builder) {
	switch {
	case m.StoredVersionsKept != "":
		fmt.Fprintf(b, "  CRD         status.storedVersions stays [%s]: %s\n",
			strings.Join(m.StoredVersionsBefore, " "), m.StoredVersionsKept)
	case len(m.StoredVersionsAfter) > 0:
		fmt.Fprintf(b, "  CRD         status.storedVersions [%s] → [%s]\n", strings.Join(m.StoredVersionsBefore, " "),
			strings.Join(m.StoredVersionsAfter, " "))
	case len(m.StoredVersionsBefore) > 0 && m.Outcome == Proven:
		fmt.Fprintf(b, "  CRD         status.storedVersions is [%s]\n", strings.Join(m.StoredVersionsBefore, " "))
	}
}

func (m *Migration) failuresText(b *strings.Builder) {
	for i, f := range m.Result.Failures {
		if i == shownFailures {
			break
		}
		fmt.Fprintf(b, "  failed      %s: %s: %s\n", printable.Name(f.Namespace, f.Name), f.Reason, clean(f.Message))
	}
	if hidden := m.Result.Counts.Failed - int64(min(shownFailures, len(m.Result.Failures))); hidden > 0 {
		fmt.Fprintf(b, "  failed      and %s more, see -o json\n", Count(hidden))
	}
}

// Headline is the outcome in one line.
func (m *Migration) Headline() string {
	return fmt.Sprintf("%s (%s): %s", m.Resource, m.StorageVersion, m.headline())
}

// Bar is the progress of one resource in one line, for a terminal that is width columns wide.
func Bar(name string, p migrate.Progress, objectsPerSecond float64, width int) string {
	line := name + "  " + Line(p, objectsPerSecond)
	if room := width - len([]rune(line)) - 5; p.Total > 0 && measured(p.Phase) && room >= 10 {
		const most = 30
		cells := min(room, most)
		full := int(float64(cells) * min(1, fraction(p)))
		line = name + "  [" + strings.Repeat("=", full) + strings.Repeat(" ", cells-full) + "]  " +
			Line(p, objectsPerSecond)
	}
	if runes := []rune(line); width > 0 && len(runes) >= width {
		line = string(runes[:width-1])
	}
	return line
}

// measured reports whether a phase has a beginning and an end in objects.
func measured(p migrate.Phase) bool {
	return p == migrate.Rewriting || p == migrate.Retrying || p == migrate.Verifying
}

// Line is the progress of one resource for a log. A rate of 0 is not known yet, and not shown.
func Line(p migrate.Progress, objectsPerSecond float64) string {
	switch p.Phase {
	case migrate.Preparing:
		return "checking permissions and readiness"
	case migrate.Waiting:
		return "waiting " + clean(p.Waiting)
	case migrate.Confirming:
		return "confirming that the API servers still agree"
	case migrate.Done:
		return "done"
	case migrate.Rewriting, migrate.Retrying, migrate.Verifying:
	}
	done := p.Counts.Done()
	if p.Phase == migrate.Verifying {
		done = p.Verified
	}
	var b strings.Builder
	switch p.Phase { //nolint:exhaustive // the others have no word of their own
	case migrate.Retrying:
		b.WriteString("retrying what failed  ")
	case migrate.Verifying:
		b.WriteString("verifying  ")
	}
	fmt.Fprintf(&b, "%3.0f%%  %s/%s", 100*min(1, fraction(p)), Count(done), Count(max(p.Total, done)))
	if objectsPerSecond > 0 {
		fmt.Fprintf(&b, "  %s/s", Count(int64(objectsPerSecond)))
	}
	if left := p.Total - done; left > 0 && objectsPerSecond >= 1 {
		fmt.Fprintf(&b, "  ETA %s", Duration(time.Duration(float64(left)/objectsPerSecond*float64(time.Second))))
	}
	fmt.Fprintf(&b, "  %d in flight", p.Pace.InFlightLimit)
	if p.Pace.Servers > 0 {
		fmt.Fprintf(&b, " at %d servers", p.Pace.Servers)
	}
	if p.Counts.Failed > 0 {
		fmt.Fprintf(&b, "  %s failed", Count(p.Counts.Failed))
	}
	return b.String()
}

func fraction(p migrate.Progress) float64 {
	done := p.Counts.Done()
	if p.Phase == migrate.Verifying {
		done = p.Verified
	}
	return float64(done) / float64(max(p.Total, done, 1))
}
