// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestPointless(t *testing.T) {
	weak := migrate.Epoch{Hash: "h", Servers: []string{"a"}, Evidence: migrate.Sampled}
	strong, later := weak, weak
	strong.Evidence, later.Servers = migrate.Observed, []string{"b"}
	complete := migrate.Summary{Complete: true, Epoch: weak, Counts: migrate.Counts{Rewritten: 3}}
	cut, failed, enough := complete, complete, complete
	cut.Complete, failed.Counts.Failed, enough.Epoch = false, 1, strong
	for name, test := range map[string]struct {
		c    migrate.Summary
		now  migrate.Epoch
		want bool
	}{
		"the same sweep with the same weak evidence":   {complete, weak, true},
		"not where the evidence is strong by now":      {complete, strong, false},
		"not in another epoch":                         {complete, later, false},
		"not where nothing was swept":                  {migrate.Summary{}, weak, false},
		"not where the sweep was cut short":            {cut, weak, false},
		"not where objects failed":                     {failed, weak, false},
		"not where the sweep itself had good evidence": {enough, weak, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pointless(test.c, test.now, migrate.Observed); got != test.want {
				t.Errorf("pointless: %v, want %v", got, test.want)
			}
			if pointless(test.c, test.now, migrate.Verified) {
				t.Error("another second pass may prove what this one did not")
			}
		})
	}
}

// Only the first attempt gives its turn away: where it is not known when an epoch began, each attempt sees it begin.
func TestOnlyTheFirstAttemptDoesNotWaitForItsEpochToSettle(t *testing.T) {
	for attempt, want := range map[int64]time.Duration{1: defaultTiming.settle, 2: 0, 3: 0} {
		r := &run{Options: Options{Process: newProcess(t), Attempt: attempt}, waits: defaultTiming}
		if got := r.options(assignment{}).SettlePatience; got != want {
			t.Errorf("attempt %d waits for %v, want %v", attempt, got, want)
		}
	}
	err := fmt.Errorf("sweep: %w", &migrate.UnsettledError{Left: time.Minute})
	if got := resultOf(err); got != ResultUnsettled {
		t.Errorf("verdict %q", got)
	}
}
