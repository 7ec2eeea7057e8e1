// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The trigger: it looks, records, asks; it may die between any two.

func at(tick int) time.Time { return time.Unix(int64(tick)*60, 0) }

func (w *world) definition(gen int) Definition {
	return Definition{UID: types.UID(uids[w.uid]), Generation: int64(gen), Hash: hashes[w.gens[gen]]}
}

func (w *world) takeLook() {
	l := Look{Begun: at(w.now), Collection: Collection{ResourceVersion: uint64(w.rv)}, Continuous: w.watchSince <= w.begun, Restored: w.sawRestore}
	for i := range w.n {
		p := &w.procs[i]
		if p.listed {
			s := Server{ID: procNames[i], Process: procNames[i]}
			if p.answers && !p.isolated {
				s.Answered, s.Hash = true, hashes[w.showing(p)]
			}
			l.Servers = append(l.Servers, s)
		}
		if p.stale {
			l.Traces = append(l.Traces, leaseTraces[i])
		}
	}
	l.Traces = append(l.Traces, endpointNames[w.endpoints%len(endpointNames)])
	if e, agreed, _ := w.agreement(); agreed {
		epoch := e.epoch()
		l.Epoch = &epoch
	}
	if w.custom {
		d := w.definition(w.gen)
		for hash, is := range w.versions {
			if is {
				d.Stored = append(d.Stored, hashes[hash])
			}
		}
		l.Definition = &d
	}
	for _, s := range w.passed[:w.npassed] {
		l.Passed = append(l.Passed, procNames[s.what])
	}
	for _, s := range w.flips[:w.nflips] {
		l.Definitions = append(l.Definitions, w.definition(s.what))
	}
	w.look, w.lookTaken = l, true
}

func (w *world) migration() Migration {
	m := Migration{Generation: w.generation, Completed: w.completed}
	if w.hasProof {
		m.Proof = &Proof{Generation: w.proof.gen, Epoch: w.proof.epoch.epoch()}
	}
	return m
}

// trigger takes its next step.
func (w *world) trigger() {
	switch {
	case !w.up:
	case w.request > 0:
		if w.generation < w.request {
			w.generation = w.request
			w.run = run{}
		}
		w.request = 0
	case !w.lookTaken:
		w.takeLook()
	default:
		w.look.Migration = w.migration()
		d := w.rules.looked(w.record, w.look)
		begun := int(w.look.Begun.Unix() / 60)
		w.write(d.State, begun)
		w.request, w.lookTaken, w.lookedInLife, w.sawRestore = d.Request, false, true, false
		if d.Doubt != "" {
			w.doubts++
		}
		w.npassed = since(w.passed[:w.npassed], begun)
		w.nflips = since(w.flips[:w.nflips], begun)
	}
}

func since(events []sighted, begun int) int {
	n := 0
	for _, s := range events {
		if s.at >= begun {
			events[n] = s
			n++
		}
	}
	return n
}

// finish is the trigger that hears of a migration that succeeded.
func (w *world) finish() {
	if w.up && w.lookedInLife && !w.lookTaken {
		w.write(w.rules.finished(w.record, w.migration(), Collection{ResourceVersion: uint64(w.rv)}).State, w.begun)
	}
}

// write records a State, and checks I2.
func (w *world) write(s State, begun int) {
	for i, hash := range hashes {
		if slices.Contains(w.record.Persisted, hash) && !slices.Contains(s.Persisted, hash) {
			w.checkTrim(s, begun, i)
		}
	}
	if slices.Contains(w.record.Persisted, Unknown) && !slices.Contains(s.Persisted, Unknown) {
		w.checkTrim(s, begun, -1)
	}
	w.record, w.begun = s, begun
}

// checkTrim is I2 for one hash that leaves, or Unknown (-1).
func (w *world) checkTrim(s State, begun, hash int) {
	w.trims++
	switch {
	case !w.hasProof:
		w.broken = "I2: trimmed without a proof"
		return
	case len(s.Persisted) != 1 || s.Persisted[0] != hashes[w.proof.epoch.hash]:
		w.broken = "I2: trimmed to something else than what was proven"
		return
	case s.Epoch == nil || !s.Epoch.Same(w.proof.epoch.epoch()):
		w.broken = "I2: trimmed in another epoch than that of the proof"
		return
	}
	for i := range hashes {
		leaves := i == hash || hash < 0 && i != w.proof.epoch.hash
		if by := w.lastWriter[i]; leaves && by >= 0 && w.lastWrite[i] > w.proof.baselineAt && w.lastWrite[i] <= begun &&
			!w.procs[by].alive && w.procs[by].died < begun {
			w.broken = "I2: trimmed " + hashes[i] + ", which was written after the baseline of the proof"
		}
	}
}

// checkTruth is I1. It speaks of what was written before the recorded look began, by servers that were gone by then or live
// now: of what was written and came to its end since then nobody can know, and the heartbeat says so.
func (w *world) checkTruth() {
	if len(w.record.Persisted) == 0 || w.restoredAt >= w.begun || slices.Contains(w.record.Persisted, Unknown) {
		return
	}
	for i := range w.objects {
		o := &w.objects[i]
		by := &w.procs[o.by]
		if !o.exists || slices.Contains(w.record.Persisted, hashes[o.hash]) || o.at >= w.begun || !by.alive && by.died >= w.begun || w.shown(o.hash) {
			continue
		}
		w.broken = fmt.Sprintf("I1: object %d is stored in %s, recorded is %v, and no server shows it", i, hashes[o.hash], w.record.Persisted)
	}
}

func (w *world) shown(hash int) bool {
	for i := range w.n {
		if p := &w.procs[i]; p.alive && (w.showing(p) == hash || w.written(p) == hash) {
			return true
		}
	}
	return false
}
