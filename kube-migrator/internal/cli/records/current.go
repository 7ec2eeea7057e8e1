// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// Recorded is what the StorageStates of a cluster show about its resources.
type Recorded struct {
	Known
	upgrade.Question
}

// Recorded reads the StorageStates. If they cannot be read, it warns, and the result is empty.
func (q *Client) Recorded(ctx context.Context, inv *inventory.Inventory) Recorded {
	s := Recorded{Known: Known{Inventory: inv}, Question: upgrade.Question{Program: q.Program, Now: time.Now()}}
	var err error
	if s.States, s.Installed, err = q.ReadStates(ctx); err != nil {
		fmt.Fprintf(q.Notes, "Skipped: StorageStates: %v\n", exit.OneLine(err))
	}
	return s
}

// Finding returns the verdict on a resource. ok is false if it does not come from a StorageState.
func (s Recorded) Finding(r inventory.Resource) (finding upgrade.Finding, ok bool) {
	finding = s.Judge(s.Of(r))
	return finding, finding.Source == upgrade.ByStorageState
}

// IsCurrent reports whether a resource needs no migration: it is proven that everything is stored in the version that
// the API servers write, and status.storedVersions of its CustomResourceDefinition contains no other version.
func (s Recorded) IsCurrent(r inventory.Resource) bool {
	finding, ok := s.Finding(r)
	return ok && finding.Verdict == upgrade.Safe && len(r.Stale()) == 0
}

// Need returns whether a resource needs to be migrated. Its StorageState decides, unless status.storedVersions of its
// CustomResourceDefinition contains an older version, which only a migration can remove.
func (s Recorded) Need(r inventory.Resource, objects *inventory.Objects) inventory.Need {
	need := r.Need(objects)
	finding, ok := s.Finding(r)
	if !ok || r.Problem != nil || len(r.Stale()) > 0 {
		return need
	}
	verdicts := map[upgrade.Verdict]inventory.Answer{
		upgrade.Safe: inventory.NotNeeded, upgrade.Unsafe: inventory.Needed,
		upgrade.Undetermined: inventory.Undetermined,
	}
	return inventory.Need{Answer: verdicts[finding.Verdict], Why: finding.Why}
}

// Spare returns the chosen resources that the user named or that need to be migrated, and how many others there are.
// With --force it returns all.
func (s *Selection) Spare(chosen, named []inventory.Resource,
	isCurrent func(inventory.Resource) bool) (needed []inventory.Resource, spared int) {
	for _, r := range chosen {
		isNamed := slices.ContainsFunc(
			named, func(n inventory.Resource) bool { return n.GroupResource == r.GroupResource },
		)
		if !s.Force && !isNamed && isCurrent(r) {
			spared++
		} else {
			needed = append(needed, r)
		}
	}
	return needed, spared
}

// SpareCurrent skips resources that are current and that the user did not name, and reports how many.
func (q *Client) SpareCurrent(ctx context.Context, s *Selection, inv *inventory.Inventory,
	chosen []inventory.Resource) ([]inventory.Resource, error) {
	named, err := inv.FindAll(s.Names)
	if err != nil || len(named) == len(chosen) || s.Force {
		return chosen, err
	}
	needed, spared := s.Spare(chosen, named, q.Recorded(ctx, inv).IsCurrent)
	if spared > 0 {
		fmt.Fprintf(q.Notes, "Skipped: %d resources that are stored in the current version only; --force includes them.\n", spared)
	}
	return needed, nil
}

// WarnRolledBack warns if the resources that a user migrates by hand would lose fields, because Kubernetes was rolled
// back. It says nothing if that cannot be read.
func (q *Client) WarnRolledBack(ctx context.Context, inv *inventory.Inventory, chosen []inventory.Resource) {
	states, _, err := q.ReadStates(ctx)
	if err != nil {
		return
	}
	known, lossy, why := Known{Inventory: inv, States: states}, []string{}, ""
	for _, r := range chosen {
		if c := upgrade.RolledBack(known.Of(r).State); c != nil {
			lossy, why = append(lossy, r.GroupResource.String()), c.Message
		}
	}
	if len(lossy) > 0 {
		why, _, _ = strings.Cut(why, " Try: ")
		fmt.Fprintf(q.Notes, "Warning: %s: %s\n", phrase.Few(lossy), why)
	}
}
