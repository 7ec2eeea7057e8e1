// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/install"
)

// changes shows what install and uninstall did to objects: for people each as it happens, for programs all of them at
// the end.
type changes struct {
	env    *environment
	output render.Format
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

func (env *environment) changes(output render.Format, dryRun string) *changes {
	return &changes{env: env, output: output, report: changeReport{DryRun: dryRun, Changes: []objectChange{}}}
}

// add takes in a change.
func (c *changes) add(change install.Change) {
	c.report.Changes = append(c.report.Changes, objectChange{
		Outcome: string(change.Outcome), Kind: change.Kind, Namespace: change.Namespace,
		Name: change.Name, Note: change.Note,
	})
	if c.output != render.Text {
		return
	}
	name := change.Name
	if change.Namespace != "" {
		name = change.Namespace + "/" + name
	}
	var notes []string
	if c.report.DryRun != dryRunNone {
		notes = append(notes, "dry run")
	}
	if change.Note != "" {
		notes = append(notes, change.Note)
	}
	line := fmt.Sprintf("%-10s  %s %s", change.Outcome, change.Kind, name)
	if len(notes) > 0 {
		line += " (" + strings.Join(notes, "; ") + ")"
	}
	fmt.Fprintln(c.env.Out, line)
}

// end writes what a program reads, also where an error cut the changes short.
func (c *changes) end(err error) error {
	if c.output == render.Text || err != nil && len(c.report.Changes) == 0 {
		return nil
	}
	if err := render.Data(c.env.Out, c.output, c.report); err != nil {
		return fmt.Errorf("write what was done: %w", err)
	}
	return nil
}
