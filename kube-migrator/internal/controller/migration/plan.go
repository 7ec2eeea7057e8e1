// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// snapshot is everything that a pass decides from, at one moment: the migrations that are not at rest, those that have
// runs, and all runs.
type snapshot struct {
	now        time.Time
	since      time.Time // every look since then has succeeded
	live       bool      // runs were read past the cache
	migrations []v1alpha1.StorageVersionMigration
	whole      map[types.UID]bool // migrations that were read past the cache
	moment     string             // resourceVersion of their collection; read live only
	runs       []run
	inTree     inTree // read live only
	refused    refusedStarts
}

// planned is what to do for one migration.
type planned struct {
	migration *v1alpha1.StorageVersionMigration
	decision
}

// plan is what to do in one pass. It is pure.
type plan struct {
	migrations []planned // in the order of their turns
	orphans    []run     // whose migration is gone
}

// consequential reports whether the step is one that must not rely on what the cache shows.
func (d *planned) consequential() bool {
	return d.step != stepNothing && d.step != stepFollow || len(d.remove) > 0
}

func (p plan) consequential() bool {
	for i := range p.migrations {
		if p.migrations[i].consequential() {
			return true
		}
	}
	return len(p.orphans) > 0
}

// mostRead bounds how many migrations a pass reads past the cache at a time, and so how many large ones it holds (I6).
// The others follow.
const mostRead = 32

// unread returns the names of migrations that have to be read past the cache: there is something to do or to report for
// them, and they were not read that way. Those with something to do come first. writes reports whether a status has to
// be written.
func (p plan) unread(whole map[types.UID]bool, writes func(*planned) bool) []string {
	var first, then []string
	for i := range p.migrations {
		switch d := &p.migrations[i]; {
		case whole[d.migration.UID]:
		case d.consequential():
			first = append(first, d.migration.Name)
		case len(then) < mostRead && writes(d):
			then = append(then, d.migration.Name)
		}
	}
	all := append(first, then...)
	return all[:min(len(all), mostRead)]
}

// again returns when to look again without an event; zero means never.
func (p plan) again() time.Duration {
	var next time.Duration
	for _, d := range p.migrations {
		next = soonest(next, d.again)
	}
	if active(p.orphans) {
		next = soonest(next, haltAgain)
	}
	return next
}

// haltAgain is how often to check whether the worker of a run that is to be removed has stopped.
const haltAgain = time.Second

// soonest returns the shorter of two waits, where 0 means no wait.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// blockedAgain is how often to check whether another program's migration has ended.
const blockedAgain = 5 * time.Second

// waits are how long a migration may have to wait for its next attempt.
type waits struct {
	// firstRetry is the backoff after the first failure.
	firstRetry time.Duration
	settleTime time.Duration
}

// planAll decides about every migration, and whose turn it is (I8).
func planAll(s snapshot, most int, w waits) plan {
	var p plan
	exists := map[types.UID]bool{}
	for _, m := range s.migrations {
		exists[m.UID] = true
	}
	t := turns{most: most, inTree: s.inTree}
	begun := map[types.UID][]run{}
	for _, r := range s.runs {
		begun[r.uid] = append(begun[r.uid], r)
		if r.active {
			t.begin(r)
		}
		if !exists[r.uid] && !(r.stray && r.dismissed) {
			p.orphans = append(p.orphans, r)
		}
	}
	queue(s.migrations, begun, s.now)
	for i := range s.migrations {
		m := &s.migrations[i]
		if m.DeletionTimestamp != nil {
			p.orphans = append(p.orphans, inOrder(begun[m.UID])...)
			continue
		}
		d := decide(facts{now: s.now, since: s.since, migration: m, runs: inOrder(begun[m.UID]), moment: s.moment,
			firstRetry: w.firstRetry, settleTime: w.settleTime})
		if d.step == stepStart {
			no := t.refuse(d.run)
			if before, ok := s.refused[m.UID]; ok && (no != nil || before.due.After(s.now)) {
				no, d.again = before.refusal(d.run.generation), soonest(d.again, max(0, before.due.Sub(s.now)))
			}
			if no != nil {
				d.step, d.phase, d.reason, d.message = stepNothing, no.phase, no.reason, no.message
				if no.reason == v1alpha1.ReasonBlocked {
					d.again = blockedAgain
				}
			} else {
				t.begin(d.run)
				d.message = waitingForWorker
			}
		}
		p.migrations = append(p.migrations, planned{migration: m, decision: d})
	}
	return p
}
