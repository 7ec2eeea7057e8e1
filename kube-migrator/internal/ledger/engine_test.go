// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "slices"

// engine takes the next step of the run that is at work, or starts one.
func (w *world) engine() {
	if !w.run.active && w.generation > w.completed {
		w.run = run{active: true, gen: w.generation, start: w.mainRV}
		w.takeProven(&w.run)
	} else if w.run.active {
		w.sweep(&w.run)
	}
	if w.hand.active {
		w.sweep(&w.hand)
	}
}

// sweep takes the run's next step, as the package migrate does: wait for an epoch, settle, read the baseline, rewrite
// object by object, confirm. It knows of the epoch only what its looks show.
func (w *world) sweep(r *run) {
	if r.sweeping && r.next < objects && (w.now+r.next)%4 != 0 {
		w.sweepOne(r)
		return
	}
	e, agreed, disagree := w.agreement()
	switch {
	case !agreed && !disagree:
		return // nothing was learnt
	case disagree || r.known && e != r.epoch:
		w.endPass(r, e, disagree)
		return
	case !r.known:
		r.known, r.epoch, r.since, r.sweeping = true, e, w.now, false
		return
	case !r.sweeping:
		if w.now-r.since >= settle {
			r.sweeping, r.baseline, r.baselineAt, r.next, r.confirmed = true, w.rv, w.now, 0, w.rv
			r.trailAt, r.trailRV = w.now, w.rv
		}
		return
	}
	if w.now-r.trailAt >= sweepGrace {
		r.confirmed = r.trailRV
		r.trailAt, r.trailRV = w.now, w.rv
	}
	if r.next == objects && w.now-r.lastWrite >= sweepGrace {
		p := proven{start: r.start, epoch: r.epoch, baselineAt: r.baselineAt, baseline: r.baseline}
		if r.byHand {
			// It records its proof itself, whether a trigger is there or not.
			before := State{After: r.after}
			w.write(w.rules.byHand(before, w.record, p.proof(), w.collection()).State, w.begun, &p)
		} else {
			w.completed, w.hasProof, w.proof = r.gen, true, p
		}
		*r = run{}
	}
}

// takeProven tells a run what is recorded as proven.
func (w *world) takeProven(r *run) {
	if w.record.Epoch == nil {
		return
	}
	r.proven = w.record.Proven
	for i := range mostProcs {
		if slices.Contains(w.record.Epoch.Processes, procNames[i]) {
			r.provenBy |= 1 << i
		}
	}
}

// knows reports whether the run may rely on what it was told: the same processes run as when that was recorded.
func (r *run) knows() bool {
	return r.proven.Hash == hashes[r.epoch.hash] && r.provenBy == r.epoch.procs
}

func (w *world) sweepOne(r *run) {
	o := &w.objects[r.next]
	current := o.rv > r.baseline || r.knows() && uint64(o.rv) <= r.proven.UpTo
	for _, good := range r.ranges[:r.nranges] {
		current = current || o.rv > good[0] && o.rv <= good[1]
	}
	if o.exists && !current {
		if by := w.someone(w.now); by >= 0 {
			w.put(r.next, by)
		} else {
			return
		}
	}
	r.next++
	r.lastWrite = w.now
}

// endPass keeps what the pass has confirmed as a good range, while the hash stays.
func (w *world) endPass(r *run, e epochKey, disagree bool) {
	if r.sweeping && r.nranges < len(r.ranges) {
		r.ranges[r.nranges] = [2]int{r.baseline, r.confirmed}
		r.nranges++
	}
	if r.sweeping && r.knows() && r.nranges < len(r.ranges) {
		r.ranges[r.nranges] = [2]int{0, int(r.proven.UpTo)}
		r.nranges++
	}
	if !disagree && r.known && e.hash != r.epoch.hash {
		*r = run{active: true, byHand: r.byHand, gen: r.gen, start: r.start, after: r.after, proven: r.proven,
			provenBy: r.provenBy}
	}
	if disagree {
		// The hash of the run stays known: another one ends it.
		r.sweeping = false
		r.epoch.procs = 0
		return
	}
	r.known, r.epoch, r.since, r.sweeping = true, e, w.now, false
}
