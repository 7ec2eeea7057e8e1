// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
)

// records is what the StorageStates of a cluster say about its resources.
type records struct {
	known
	upgrade.Question
}

// records reads the StorageStates. Where they cannot be read it says so, and nothing is known.
func (q *requests) records(ctx context.Context, inv *inventory.Inventory) records {
	s := records{known: known{inv: inv}, Question: upgrade.Question{Program: q.env.name, Now: time.Now()}}
	var err error
	if s.states, s.Installed, err = q.readStates(ctx); err != nil {
		fmt.Fprintf(q.env.Err, "Skipped: StorageStates: %v\n", oneLine(err))
	}
	return s
}

// finding is the verdict on a resource; ok is false where no StorageState supports it.
func (s records) finding(r inventory.Resource) (finding upgrade.Finding, ok bool) {
	finding = s.Judge(s.of(r))
	return finding, finding.Source == upgrade.ByStorageState
}

// isCurrent reports whether nothing is left to do about a resource: everything is proven to be stored in the version
// that the API servers write, and its CustomResourceDefinition claims no other.
func (s records) isCurrent(r inventory.Resource) bool {
	finding, ok := s.finding(r)
	return ok && finding.Verdict == upgrade.Safe && len(r.Stale()) == 0
}

// need is whether a resource needs to be migrated. Its StorageState knows more than its CustomResourceDefinition does,
// unless that claims an older version: the claim remains to be removed.
func (s records) need(r inventory.Resource, objects *inventory.Objects) inventory.Need {
	need := r.Need(objects)
	finding, ok := s.finding(r)
	if !ok || r.Problem != nil || len(r.Stale()) > 0 {
		return need
	}
	verdicts := map[upgrade.Verdict]inventory.Answer{
		upgrade.Safe: inventory.NotNeeded, upgrade.Unsafe: inventory.Needed,
		upgrade.Undetermined: inventory.Undetermined,
	}
	return inventory.Need{Answer: verdicts[finding.Verdict], Why: finding.Why}
}

// spare returns those of the chosen resources that were named or need to be migrated, and how many others there are;
// --force spares none.
func (s *selection) spare(chosen, named []inventory.Resource, isCurrent func(inventory.Resource) bool) (needed []inventory.Resource, spared int) {
	for _, r := range chosen {
		isNamed := slices.ContainsFunc(
			named, func(n inventory.Resource) bool { return n.GroupResource == r.GroupResource },
		)
		if !s.force && !isNamed && isCurrent(r) {
			spared++
		} else {
			needed = append(needed, r)
		}
	}
	return needed, spared
}

// spareCurrent leaves out what was not named and is current, and says so.
func (q *requests) spareCurrent(ctx context.Context, s *selection, inv *inventory.Inventory,
	chosen []inventory.Resource) ([]inventory.Resource, error) {
	named, err := inv.FindAll(s.names)
	if err != nil || len(named) == len(chosen) || s.force {
		return chosen, err
	}
	needed, spared := s.spare(chosen, named, q.records(ctx, inv).isCurrent)
	if spared > 0 {
		fmt.Fprintf(q.env.Err, "Left out: %d resources that are stored in the present version as a whole; --force "+
			"includes them.\n", spared)
	}
	return needed, nil
}
