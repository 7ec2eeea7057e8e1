// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// CRDUpgrades is what `upgrade-crd -o json` prints.
type CRDUpgrades struct {
	DryRun bool         `json:"dryRun,omitempty"`
	CRDs   []CRDUpgrade `json:"crds"`

	migrations map[string]*Migration
}

// CRDUpgrade is what became of one CRD.
type CRDUpgrade struct {
	Name  string   `json:"name"`
	From  string   `json:"from"`
	State CRDState `json:"state"`
	// Steps are those that were done; in a dry run those that would be.
	Steps []crdlife.Step `json:"steps,omitempty"`
	// Losses are the objects that lose fields.
	Losses *pruning.Losses `json:"losses,omitempty"`
	// Migration is what rewriting the objects came to; absent where it was not begun.
	Migration *Migration `json:"migration,omitempty"`
	// Reason is why it was refused; empty where it was not.
	Reason refusal.Reason `json:"reason,omitempty"`
	Error  string         `json:"error,omitempty"`
	// Next is the command that helps.
	Next string `json:"next,omitempty"`
}

// CRDState says how far the upgrade of a CRD came; a closed set.
type CRDState string

// The states.
const (
	CRDPlanned    CRDState = "Planned"    // a dry run
	CRDUpgraded   CRDState = "Upgraded"   // the CRD of the file is in the cluster
	CRDRefused    CRDState = "Refused"    // nothing was done, or nothing more
	CRDUnfinished CRDState = "Unfinished" // an error ended it; the same command continues
)

// Add notes what rewriting the objects of a CRD came to.
func (r *CRDUpgrades) Add(name string, m Migration) {
	if r.migrations == nil {
		r.migrations = map[string]*Migration{}
	}
	r.migrations[name] = &m
}

// Conclude adds what became of a CRD; next is the command that helps after err.
func (r *CRDUpgrades) Conclude(u *crdlife.Upgrade, err error, next string) {
	c := CRDUpgrade{
		Name: u.Next.Name(), From: u.Next.From, State: CRDUpgraded, Steps: u.Done,
		Migration: r.migrations[u.Next.Name()], Next: next,
	}
	if u.Planned.Losses.Objects > 0 {
		c.Losses = &u.Planned.Losses
	}
	refused := (*refusal.Error)(nil)
	switch {
	case errors.As(err, &refused):
		c.State, c.Reason = CRDRefused, refused.Reason
	case err != nil:
		c.State = CRDUnfinished
	case r.DryRun:
		c.State, c.Steps = CRDPlanned, u.Planned.Steps
	}
	if err != nil {
		c.Error = strings.Join(strings.Fields(err.Error()), " ")
	}
	r.CRDs = append(r.CRDs, c)
}

// CRDStep is one step of a CRD, in one line.
func CRDStep(name string, s crdlife.Step) string {
	return fmt.Sprintf("%s  %-13s  %s\n", name, s.Name, clean(s.What))
}

// Text writes what was not said while it was done: a dry run's steps, what is lost, and what is left to do.
func (r *CRDUpgrades) Text(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.CRDs {
		if c.State == CRDPlanned {
			for _, s := range c.Steps {
				s.What += " (dry run)"
				b.WriteString(CRDStep(c.Name, s))
			}
		}
		if c.Error != "" {
			fmt.Fprintf(&b, "%s  %-13s  %s\n", c.Name, strings.ToLower(string(c.State)), clean(c.Error))
		}
		if c.Losses != nil && c.State != CRDRefused { // a refusal names them
			fmt.Fprintf(&b, "  loses fields  %s: %s\n", phrase.Objects(c.Losses.Objects), clean(c.Losses.String()))
		}
		if c.Migration != nil {
			c.Migration.failuresText(&b)
		}
		if c.Next != "" {
			fmt.Fprintf(&b, "  Try: %s\n", c.Next)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
