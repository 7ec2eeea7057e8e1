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

func (w *world) crdAt(gen int) CRD {
	return CRD{UID: types.UID(uids[w.crd]), Generation: int64(gen), Hash: hashes[w.gens[gen]]}
}

// collection is what a list of one object shows.
func (w *world) collection() Collection {
	c := Collection{ResourceVersion: uint64(w.rv), Shared: w.shared()}
	for _, o := range w.objects {
		if o.exists && !w.blind {
			c.Witness = Witness{UID: types.UID(objectUIDs[o.uid%len(objectUIDs)]), ResourceVersion: uint64(o.rv)}
			break
		}
	}
	return c
}

// servers are those that live, and what others left behind.
func (w *world) servers() uint64 {
	all := uint64(w.endpoints) << 32
	for i := range w.n {
		if w.procs[i].listed {
			all |= 1 << i
		}
	}
	return all
}

// compare reads the collection, if that is due; the migration has been read before. A proof that waits for it is in no
// hurry here.
func (w *world) compare() Collection {
	due := w.kind == custom || w.kind == aggregated || w.compared != w.servers() || w.now%3 == 0
	if !due {
		return Collection{}
	}
	return w.collection()
}

// shared reports whether the objects are in the etcd of the record.
func (w *world) shared() bool { return w.kind == builtIn || w.kind == custom }

// note remembers the position of etcd.
func (w *world) note() {
	if w.npositions == len(w.positions) {
		copy(w.positions[:], w.positions[1:])
		w.npositions--
	}
	w.positions[w.npositions] = position{w.rv, w.now}
	w.npositions++
}

// reached is the last position that was read long enough before a look, unless etcd is behind it now.
func (w *world) reached(began int) (rv uint64) {
	for _, p := range w.positions[:w.npositions] {
		if p.at+sweepGrace <= began && p.rv <= w.rv {
			rv = uint64(p.rv)
		}
	}
	return rv
}

func (w *world) takeLook() {
	l := Look{Started: at(w.now), Restored: w.sawRestore, Revisions: w.kind != aggregated,
		Continuous: w.kind != aggregated && w.watchSince <= w.begun && !w.restartsHidden()}
	for i := range w.n {
		p := &w.procs[i]
		if p.listed || p.alive && p.draining && p.asked && p.answers {
			s := Server{ID: w.holder(i), Process: w.process(i), CameBack: w.expired(i)}
			if p.answers && !p.isolated && !p.suspended {
				s.Answered, s.Hash = true, hashes[w.showing(p)]
			}
			l.Servers = append(l.Servers, s)
		}
		if p.stale {
			l.Traces = append(l.Traces, leaseTraces[i*16+p.leases%16])
		}
	}
	l.Traces = append(l.Traces, endpointNames[w.endpoints%len(endpointNames)])
	if w.silent {
		l.Traces = append(l.Traces, Untraced)
	}
	if e, agreed, _ := w.agreement(); agreed {
		epoch := e.epoch()
		l.Epoch = &epoch
	}
	if w.kind == custom {
		d := w.crdAt(w.gen)
		for hash, is := range w.versions {
			if is {
				d.Stored = append(d.Stored, hashes[hash])
			}
		}
		l.CRD = &d
	}
	for _, s := range w.passed[:w.npassed] {
		if w.kept {
			l.Passed = append(l.Passed, w.lastProcess(s.what))
		} else {
			l.Passed = append(l.Passed, procNames[s.what])
		}
	}
	for _, s := range w.flips[:w.nflips] {
		l.CRDs = append(l.CRDs, w.crdAt(s.what))
	}
	w.look, w.lookTaken = l, true
}

// holder is the holder of the Lease of a process.
func (w *world) holder(i int) string {
	if w.kept {
		return hostNames[w.procs[i].host]
	}
	return procNames[i]
}

// process is how a look identifies a process. Where its Lease does not, the answer of the process does; without an
// answer it is assumed for a while to be the one that was there.
func (w *world) process(i int) string {
	p := &w.procs[i]
	switch {
	case !w.kept || p.answers && !p.isolated && !p.suspended:
		return procNames[i]
	case w.now-w.begun <= 1:
		return w.lastProcess(i)
	}
	return w.holder(i)
}

// lastProcess is the recorded process of the holder of a Lease, or the holder.
func (w *world) lastProcess(i int) string {
	for _, s := range w.record.Servers {
		if s.ID == w.holder(i) {
			return s.process()
		}
	}
	return w.holder(i)
}

// restartsHidden reports whether there may have been processes of which no Lease shows anything.
func (w *world) restartsHidden() bool {
	if !w.kept {
		return false
	}
	n := 0
	for i := range w.n {
		if !w.procs[i].listed {
			continue
		}
		n++
		if _, known := find(w.record.Servers, w.process(i)); !known {
			return true
		}
	}
	return n != len(w.record.Servers)
}

// expired reports whether the record has the trace of a Lease that the process did not renew.
func (w *world) expired(i int) bool {
	for j := range w.n {
		if w.holder(j) == w.holder(i) && slices.ContainsFunc(leaseTraces[j*16:j*16+16],
			func(trace string) bool { return slices.Contains(w.record.Traces, trace) }) {
			return true
		}
	}
	return false
}

func (w *world) migration() Migration {
	m := Migration{Generation: w.generation, Completed: w.completed, Started: w.run.active && w.run.gen == w.generation,
		Start: uint64(w.run.start)}
	if w.hasProof {
		p := w.proof.proof()
		m.Proof = &p
	}
	if w.hasProof && w.completed == w.generation {
		m.Started, m.Start = true, m.Proof.Start
	}
	return m
}

func (p proven) proof() Proof {
	return Proof{Start: uint64(p.start), Epoch: p.epoch.epoch(), Baseline: uint64(p.baseline), Observed: true}
}

// known is the proof that the ledger is told of; nil: none.
func (w *world) known() *proven {
	if !w.hasProof {
		return nil
	}
	return &w.proof
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
		w.look.Own, w.look.Moment = w.migration(), uint64(w.mainRV)
		if w.look.Collection = w.compare(); w.look.Collection.ResourceVersion != 0 {
			w.compared = w.servers()
		}
		begun := int(w.look.Started.Unix() / 60)
		w.look.Shared, w.look.Elsewhere, w.look.Reached = w.shared(), !w.shared(), w.reached(begun)
		w.note()
		d := w.rules.looked(w.record, w.look)
		w.write(d.State, begun, w.known())
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

// disturbed reports whether servers came or went since the recorded look.
func (w *world) disturbed() bool {
	if w.kind == aggregated || w.watchSince > w.begun || w.npassed > 0 || w.nflips > 0 {
		return true
	}
	for i := range w.n {
		if known := slices.ContainsFunc(w.record.Servers, func(s Server) bool { return s.ID == w.holder(i) }); w.procs[i].listed &&
			!known {
			return true
		}
	}
	return false
}

// finish is the trigger that hears of a migration that succeeded.
func (w *world) finish() {
	if w.up && w.lookedInLife && !w.lookTaken && !w.disturbed() {
		m := w.migration()
		if m.Proof != nil {
			w.note()
			w.write(w.rules.finished(w.record, []Proof{*m.Proof}, w.compare()).State, w.begun, w.known())
		}
	}
}

// write records a State, and checks I2. proof is what it may rest on; nil: nothing.
func (w *world) write(s State, begun int, proof *proven) {
	for i, hash := range hashes {
		if slices.Contains(w.record.Persisted, hash) && !slices.Contains(s.Persisted, hash) {
			w.checkTrim(s, begun, i, proof)
		}
	}
	if slices.Contains(w.record.Persisted, Unknown) && !slices.Contains(s.Persisted, Unknown) {
		w.checkTrim(s, begun, -1, proof)
	}
	w.record, w.begun = s, begun
	w.mainRV++
	w.recordRV, w.sawRecordRV = w.mainRV, w.mainRV
}

// checkTrim is I2 for one hash that leaves, or Unknown (-1).
func (w *world) checkTrim(s State, begun, hash int, proof *proven) {
	w.trims++
	switch {
	case proof == nil:
		w.broken = "I2: trimmed without a proof"
		return
	case len(s.Persisted) != 1 || s.Persisted[0] != hashes[proof.epoch.hash]:
		w.broken = "I2: trimmed to something else than what was proven"
		return
	case s.Epoch == nil || !s.Epoch.Same(proof.epoch.epoch()):
		w.broken = "I2: trimmed in another epoch than that of the proof"
		return
	}
	for i := range hashes {
		leaves := i == hash || hash < 0 && i != proof.epoch.hash
		if by := w.lastWriter[i]; leaves && by >= 0 && w.lastWrite[i] > proof.baselineAt && w.lastWrite[i] <= begun &&
			!w.procs[by].alive && w.procs[by].died < begun {
			w.broken = "I2: trimmed " + hashes[i] + ", which was written after the baseline of the proof"
		}
	}
}

// checkTruth is I1. It speaks of what was written before the recorded look began, by servers that were gone by then or
// live now: of what was written and came to its end since then no one can know, and the heartbeat says so. Of a process
// that was suspended, no look knows that began before it renewed its Lease.
func (w *world) checkTruth() {
	w.checkProven()
	if len(w.record.Persisted) == 0 || w.restoredAt >= w.begun || slices.Contains(w.record.Persisted, Unknown) {
		return
	}
	for i := range w.objects {
		o := &w.objects[i]
		by := &w.procs[o.by]
		if !o.exists || slices.Contains(w.record.Persisted, hashes[o.hash]) || o.at >= w.begun || !by.alive &&
			by.died >= w.begun || w.shown(o.hash) {
			continue
		}
		if by.resumed > 0 && o.at >= by.resumed && (by.back || w.begun <= by.relisted) {
			continue
		}
		w.broken = fmt.Sprintf("I1: object %d is stored in %s, recorded is %v, and no server shows it", i,
			hashes[o.hash], w.record.Persisted)
	}
}

// checkProven is I10.
func (w *world) checkProven() {
	for i, o := range w.objects {
		if proven := w.record.Proven; o.exists && uint64(o.rv) <= proven.UpTo && hashes[o.hash] != proven.Hash {
			w.broken = fmt.Sprintf("I10: object %d is stored in %s at %d, and %s is proven up to %d", i, hashes[o.hash], o.rv,
				proven.Hash, proven.UpTo)
		}
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
