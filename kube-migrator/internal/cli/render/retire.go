// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// Retirement is what `retire -o json` prints.
type Retirement struct {
	CRD string `json:"definition"`
	// Version is the one that is retired, StorageVersion the one that is stored instead.
	Version        string        `json:"version"`
	StorageVersion string        `json:"storageVersion"`
	DryRun         bool          `json:"dryRun,omitempty"`
	Steps          []retire.Step `json:"steps"`
	// Owners are the field managers whose managedFields named the version before anything was done.
	Owners retire.Owners `json:"owners"`
	// Dependents are the objects whose ownerReferences named the version before anything was done; absent if there were
	// none, and every resource could be listed.
	Dependents *retire.Dependents `json:"dependents,omitempty"`
	// Losses are the objects that lose fields, which the user accepts; absent if there were none.
	Losses *pruning.Losses `json:"losses,omitempty"`
	// Migration is what rewriting the objects came to; absent where it was not begun.
	Migration *Migration `json:"migration,omitempty"`
	Error     string     `json:"error,omitempty"`
	// Next is the command that goes on.
	Next string `json:"next,omitempty"`
}

// Text writes the steps for users.
func (r *Retirement) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.CRD, r.headline())
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "  %-13s  %-9s  %s\n", s.Name, stateWord(s.State), clean(s.What))
	}
	if r.Migration != nil {
		var failures strings.Builder
		r.Migration.failuresText(&failures)
		b.WriteString(strings.ReplaceAll(failures.String(), "  failed      ", "  failed         "))
	}
	if r.Error != "" {
		fmt.Fprintf(&b, "  error          %s\n", r.Error)
	}
	if r.Next != "" {
		fmt.Fprintf(&b, "  next           %s\n", r.Next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func stateWord(s retire.State) string {
	switch s {
	case retire.Done:
		return "done"
	case retire.Todo:
		return "to do"
	case retire.NotAsked:
		return "not asked"
	}
	return string(s)
}

func (r *Retirement) headline() string {
	state := func(name retire.StepName) retire.State {
		for _, s := range r.Steps {
			if s.Name == name {
				return s.State
			}
		}
		return retire.Todo
	}
	switch {
	case r.DryRun:
		return "a dry run: this is what would be done to retire " + r.Version
	case r.Error != "":
		return r.Version + " is not retired yet"
	case state(retire.Remove) == retire.Done:
		return r.Version + " is retired"
	case state(retire.Unserve) == retire.Done:
		return "nothing is stored in " + r.Version + ", and it is not served"
	}
	return "nothing is stored in " + r.Version + ", and no managedFields entry names it"
}
