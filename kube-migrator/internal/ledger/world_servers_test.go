// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

func (w *world) start(host, hash int, joins bool) *proc {
	p := &w.procs[w.n]
	*p = proc{host: host, hash: hash, writes: w.gen, shows: w.gen, started: w.now, alive: true,
		joins: joins || w.kind == aggregated}
	w.n++
	return p
}

// appear: the process has its Lease, in the place of the one that its host had before.
func (w *world) appear(i int) {
	p := &w.procs[i]
	if p.visible {
		return
	}
	p.visible, p.listed = true, true
	for j := range w.n {
		q := &w.procs[j]
		switch {
		case j == i || q.host != p.host:
			continue
		case w.kept: // neither the Lease nor the address shows it
			p.endpoint = p.endpoint || q.listed && q.endpoint
			q.listed, q.endpoint = false, false
		default:
			w.unlist(j)
		}
		q.stale = false
	}
	w.join(p)
}

// join: the process is in the EndpointSlice, where that is kept.
func (w *world) join(p *proc) {
	if p.joins && !w.silent && !p.endpoint {
		p.endpoint = true
		w.endpoints++
	}
}

// relist: a suspended process renews its Lease again.
func (w *world) relist(i int) {
	p := &w.procs[i]
	p.listed, p.stale, p.back, p.wroteBack, p.relisted = true, false, false, false, w.now
	w.join(p)
}

// drain: the process is told to end. Its Lease and its address go at once, and it writes for some time.
func (w *world) drain(i int, asked bool) {
	p := &w.procs[i]
	if !p.writable() || p.draining {
		return
	}
	w.leave(i, true)
	w.goOn(i)
	p.draining, p.asked, p.ends = true, asked, w.now+mostDrain
	if w.kept {
		return // its Lease stays until it expires
	}
	w.unlist(i)
	p.stale = false // it has taken its Lease away
}

func (w *world) suspend(i int) {
	if p := &w.procs[i]; p.writable() && !p.draining && !p.back && p.visible {
		p.suspended, p.expires = true, w.now+leaseExpiry
	}
}

func (w *world) resume(i int) {
	p := &w.procs[i]
	if !p.alive || !p.suspended {
		return
	}
	p.suspended, p.resumed = false, w.now
	if p.back = !p.listed; p.back && w.kind == aggregated {
		w.relist(i) // no one asks it before it is an endpoint again
	}
}

// goOn: one that wrote after it was suspended has renewed its Lease by now: see the package comment for those that have
// not.
func (w *world) goOn(i int) {
	if p := &w.procs[i]; p.back && p.wroteBack {
		w.relist(i)
	}
}

// unlist: the process does not count as live any more.
func (w *world) unlist(i int) {
	p := &w.procs[i]
	if !p.listed {
		return
	}
	p.listed, p.stale = false, w.kind != aggregated
	p.leases++
	if p.endpoint {
		p.endpoint = false
		w.endpoints++
	}
	if w.up && w.kind != aggregated && w.npassed < len(w.passed) {
		w.passed[w.npassed] = sighted{i, w.now}
		w.npassed++
	}
}

// leave: a process that has written has its Lease by now, and is an endpoint if it takes its Lease away: see the package
// comment for those that do not.
func (w *world) leave(i int, graceful bool) {
	p := &w.procs[i]
	if !p.wrote {
		return
	}
	w.appear(i)
	if graceful && !p.endpoint {
		p.joins = true
		w.join(p)
	}
}

// kill ends a process.
func (w *world) kill(i int, graceful bool) {
	p := &w.procs[i]
	if !p.alive {
		return
	}
	w.leave(i, graceful)
	w.goOn(i)
	p.alive, p.answers, p.draining, p.died = false, false, false, w.now
	p.expires = w.now + leaseExpiry
	if graceful && !w.kept {
		w.unlist(i)
		p.stale = false // it has taken its Lease away
	}
}

func (w *world) onHost(host int) int {
	for i := range w.n {
		if p := &w.procs[i]; p.alive && !p.draining && p.host == host {
			return i
		}
	}
	return -1
}

// someone returns a process that takes requests, -1 where there is none.
func (w *world) someone(from int) int {
	for i := range w.n {
		if j := (i + from) % w.n; w.procs[j].writable() {
			return j
		}
	}
	return -1
}
