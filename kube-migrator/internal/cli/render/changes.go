// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// Changes shows what install and uninstall did to objects: as text each change at once, as JSON or YAML all of them at
// the end.
type Changes struct {
	Out    io.Writer
	Format Format
	report changeReport
}

// changeReport is what `install -o json` and `uninstall -o json` print.
type changeReport struct {
	// DryRun is none, client or server. With another than none, nothing was changed.
	DryRun string `json:"dryRun"`
	// Changes are in the order in which they were made.
	Changes []objectChange `json:"changes"`
}

// objectChange is what became of one object.
type objectChange struct {
	Outcome   string `json:"outcome"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Note      string `json:"note,omitempty"`
}

// NewChanges shows changes in a format. dryRun is none, client or server; it is part of the report.
func NewChanges(w io.Writer, format Format, dryRun string) *Changes {
	return &Changes{Out: w, Format: format, report: changeReport{DryRun: dryRun, Changes: []objectChange{}}}
}

// Len is the number of changes so far.
func (c *Changes) Len() int { return len(c.report.Changes) }

// Add takes in a change.
func (c *Changes) Add(change install.Change) {
	c.report.Changes = append(c.report.Changes, objectChange{
		Outcome: string(change.Outcome), Kind: change.Kind, Namespace: change.Namespace,
		Name: change.Name, Note: change.Note,
	})
	if c.Format != Text {
		return
	}
	name := change.Name
	if change.Namespace != "" {
		name = change.Namespace + "/" + name
	}
	var notes []string
	if c.report.DryRun != "none" {
		notes = append(notes, "dry run")
	}
	if change.Note != "" {
		notes = append(notes, change.Note)
	}
	line := fmt.Sprintf("%-10s  %s %s", change.Outcome, change.Kind, name)
	if len(notes) > 0 {
		line += " (" + strings.Join(notes, "; ") + ")"
	}
	fmt.Fprintln(c.Out, line)
}

// End writes what a program reads, also where an error cut the changes short.
func (c *Changes) End(err error) error {
	if c.Format == Text || err != nil && len(c.report.Changes) == 0 {
		return nil
	}
	if err := Data(c.Out, c.Format, c.report); err != nil {
		return fmt.Errorf("write what was done: %w", err)
	}
	return nil
}
