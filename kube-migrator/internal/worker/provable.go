// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// leastEvidence returns the weakest evidence that proves anything.
func (r *run) leastEvidence() migrate.Evidence {
	return cmp.Or(r.Process.settings.MinEvidence, migrate.Verified)
}

// provable checks, before an attempt repeats a complete sweep whose evidence was too weak, whether another sweep could
// prove more. If not, the attempt ends here with a *problem: sending the same patches again would change nothing (I7).
func (s *sweeping) provable(ctx context.Context, servers *agreement.Resource) error {
	if s.run.Attempt <= 1 {
		return nil
	}
	c := s.run.record.load()
	now, explanation, err := servers.Look(ctx)
	if err != nil {
		return nil // the sweep asks again, and waits
	}
	if c == nil || !pointless(c.Summary, now, s.run.leastEvidence()) {
		return nil
	}
	before := c.Summary
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before.Total, s.before.Listed, s.before.Counts = before.Total, before.Listed, before.Counts
	s.before.Epoch, s.before.Baseline = now, before.Baseline
	return &problem{ResultNotProven, notProven(before.Counts.Done(), now.Evidence, s.run.leastEvidence(),
		explanation.Reason)}
}

// pointless reports whether a sweep in the present epoch would only repeat the sweep of summary c, with the same
// evidence. Another epoch is reason enough for a sweep, because any version may have been written since then. So is a
// second pass that found objects in another version: the next one may not. It is pure.
func pointless(c migrate.Summary, now migrate.Epoch, least migrate.Evidence) bool {
	return c.Complete && c.Counts.Failed == 0 && c.Epoch.Evidence < least &&
		now.Evidence < least.AtOnce() && c.Epoch.Same(now)
}
