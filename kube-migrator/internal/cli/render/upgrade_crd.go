// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdupgrade"
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
	Steps []crdupgrade.Step `json:"steps,omitempty"`
	// Losses are the fields that objects lose.
	Losses []crdupgrade.Loss `json:"losses,omitempty"`
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
func (r *CRDUpgrades) Conclude(u *crdupgrade.Upgrade, err error, next string) {
	c := CRDUpgrade{
		Name: u.Next.Name(), From: u.Next.From, State: CRDUpgraded, Steps: u.Done, Losses: u.Planned.Losses,
		Migration: r.migrations[u.Next.Name()], Next: next,
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
func CRDStep(name string, s crdupgrade.Step) string {
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
		for _, l := range c.Losses {
			if l.Objects+l.Possibly > 0 {
				fmt.Fprintf(&b, "  loses  %s\n", clean(l.String()))
			}
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
