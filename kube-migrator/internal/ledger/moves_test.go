// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// move is one thing that happens.
type move struct {
	name string
	kind int // of moves with the same name
	arg  int
	do   func(w *world, arg int)
}

func (m move) String() string { return fmt.Sprintf("%s %d", m.name, m.arg) }

// moves are all that can happen. What makes progress stands first: generators prefer it.
func moves() []move {
	var all []move
	kind := 0
	add := func(name string, weight, args int, do func(w *world, arg int)) {
		for range weight {
			for arg := range args {
				all = append(all, move{name, kind, arg, do})
			}
		}
		kind++
	}
	add("trigger", 6, 1, func(w *world, _ int) { w.trigger() })
	add("trigger goes on", 6, 1, func(w *world, _ int) { w.repeatedly(w.trigger, 3) })
	add("engine", 6, 1, func(w *world, _ int) { w.engine() })
	add("engine goes on", 4, 3, func(w *world, arg int) { w.repeatedly(w.engine, 4*arg+4) })
	add("all goes well", 8, 1, func(w *world, _ int) {
		w.repeatedly(func() { w.trigger(); w.engine() }, 5*settle)
	})
	add("wait", 3, 1, func(w *world, _ int) {
		for range settle {
			w.tick()
		}
	})
	add("write", 1, 9, func(w *world, arg int) {
		if by := w.someone(arg / objects); by >= 0 {
			w.put(arg%objects, by)
		}
	})
	add("write by the newest", 2, objects, func(w *world, arg int) {
		if w.procs[w.n-1].writable() {
			w.put(arg, w.n-1)
		}
	})
	add("write by one that ends or was suspended", 2, objects, func(w *world, arg int) {
		for i := range w.n {
			if p := &w.procs[i]; p.writable() && (p.draining || p.back) {
				w.put(arg, i)
			}
		}
	})
	add("delete", 1, objects, func(w *world, arg int) { w.objects[arg].exists = false; w.rv++ })
	add("restart", 3, hosts, restartServer)
	add("upgrade", 1, hosts*len(hashes), func(w *world, arg int) {
		startServer(w, arg)
		w.repeatedly(func() {}, leaseDelay)
		w.procs[w.n-1].answers = w.procs[w.n-1].alive
	})
	add("start", 1, 2*hosts*len(hashes), startServer)
	add("stop the newest", 3, 2, func(w *world, arg int) { w.kill(w.n-1, arg == 0) })
	add("stop", 1, 2*hosts, func(w *world, arg int) {
		if i := w.onHost(arg / 2); i >= 0 {
			w.kill(i, arg%2 == 0)
		}
	})
	add("surge", 3, 2*hosts, surge)
	add("drain", 1, 2*hosts, func(w *world, arg int) {
		if i := w.onHost(arg / 2); i >= 0 {
			w.drain(i, arg%2 == 0)
		}
	})
	add("suspend", 2, hosts, func(w *world, arg int) {
		if i := w.onHost(arg); i >= 0 {
			w.suspend(i)
			w.repeatedly(func() {}, leaseExpiry)
		}
	})
	add("resume", 3, hosts, func(w *world, arg int) {
		if i := w.onHost(arg); i >= 0 {
			w.resume(i)
		}
	})
	add("resume, and show what is not written yet", 3, hosts, func(w *world, arg int) {
		if i := w.onHost(arg); i >= 0 && w.procs[i].suspended {
			w.resume(i)
			w.put(arg, i)
			w.procs[i].shows = w.gen
			w.repeatedly(w.trigger, leaseDelay+2)
		}
	})
	add("upgrade all", 4, len(hashes), func(w *world, hash int) {
		for host := range hosts {
			if i := w.onHost(host); i >= 0 && w.n < mostProcs {
				w.kill(i, true)
				w.start(host, hash, true).answers = true
			}
		}
		w.repeatedly(func() {}, leaseDelay)
	})
	add("answer", 2, 1, func(w *world, _ int) {
		if p := &w.procs[w.n-1]; p.alive {
			p.answers = true
		}
	})
	add("isolate", 1, hosts, func(w *world, arg int) {
		if i := w.onHost(arg); i >= 0 {
			w.procs[i].isolated = !w.procs[i].isolated
		}
	})
	add("flip", 3, len(hashes), flip)
	add("flip there and back", 3, len(hashes), func(w *world, hash int) {
		before := w.gens[w.gen]
		flip(w, hash)
		w.repeatedly(func() {}, mostLag)
		if by := w.someone(0); by >= 0 {
			w.put(hash%objects, by)
		}
		flip(w, before)
		w.repeatedly(func() {}, mostLag)
	})
	add("learn", 1, 2*hosts, learn)
	add("prune storedVersions", 2, 1, func(w *world, _ int) {
		w.versions = [len(hashes)]bool{}
		w.versions[w.gens[w.gen]] = true
	})
	add("finish", 4, 1, func(w *world, _ int) { w.finish() })
	add("trigger dies", 2, 1, func(w *world, _ int) { w.lose(); w.up, w.sawRestore = false, false })
	add("trigger starts", 4, 1, func(w *world, _ int) {
		if !w.up {
			w.lose()
			w.up = true
		}
	})
	add("gap", 2, 1, func(w *world, _ int) { w.npassed, w.nflips, w.watchSince = 0, 0, w.now; w.lookTaken = false })
	add("user asks", 1, 1, func(w *world, _ int) { w.generation++; w.run = run{} })
	add("user deletes the migration", 1, 1, func(w *world, _ int) {
		w.generation, w.completed, w.hasProof, w.run = 0, 0, false, run{}
	})
	add("user deletes the record", 1, 1, func(w *world, _ int) {
		w.record, w.begun, w.lookTaken = State{}, w.now, false
	})
	add("run fails", 1, 1, func(w *world, _ int) { w.run = run{} })
	add("by hand", 2, 1, func(w *world, _ int) {
		w.hand = run{active: true, byHand: true, start: w.mainRV, after: w.record.After}
		w.takeProven(&w.hand)
	})
	add("CRD created again", 1, len(hashes), recreateCRD)
	add("backup", 8, 1, func(w *world, _ int) { w.backup, w.hasBackup = w.stored, true })
	add("restore", 3, 5, (*world).restore)
	return all
}

// repeatedly does a thing once a tick, and checks in between as play does.
func (w *world) repeatedly(do func(), times int) {
	for range times {
		do()
		w.tick()
		w.checkTruth()
	}
}

func startServer(w *world, arg int) {
	if w.n == mostProcs {
		return
	}
	host := arg % hosts
	if i := w.onHost(host); i >= 0 {
		w.kill(i, true)
	}
	w.start(host, arg/hosts%len(hashes), arg/hosts/len(hashes) == 0)
}

// surge starts another process, waits for it, and then tells one to end that goes on writing.
func surge(w *world, arg int) {
	old := w.onHost(arg / 2)
	if old < 0 || w.n == mostProcs {
		return
	}
	host := (arg/2 + 1) % hosts
	if i := w.onHost(host); i >= 0 && i != old {
		w.kill(i, true)
	}
	w.start(host, (w.procs[old].hash+arg%2)%len(hashes), true).answers = true
	w.repeatedly(func() {}, leaseDelay)
	w.drain(old, arg%2 == 0)
}

// restartServer is a rolling restart's step: the same version, and an answer as soon as it can be asked.
func restartServer(w *world, host int) {
	if i := w.onHost(host); i >= 0 && w.n < mostProcs {
		hash := w.procs[i].hash
		w.kill(i, true)
		w.start(host, hash, true).answers = true
		w.repeatedly(func() {}, leaseDelay)
	}
}

// flip changes the CRD's storage version, or something else in its spec.
func flip(w *world, hash int) {
	if w.kind != custom || w.gen+1 >= mostGens {
		return
	}
	w.gen++
	w.gens[w.gen], w.flipped[w.gen], w.versions[hash] = hash, w.now, true
	if w.up && w.nflips < len(w.flips) {
		w.flips[w.nflips] = sighted{w.gen, w.now}
		w.nflips++
	}
}

// learn: a server reads the next generation, or discovery does before the handler.
func learn(w *world, arg int) {
	if i := w.onHost(arg / 2); i >= 0 {
		p := &w.procs[i]
		if arg%2 == 0 {
			p.writes = min(p.writes+1, w.gen)
		} else {
			p.shows = min(p.shows+1, w.gen)
		}
	}
}

// recreateCRD deletes the CRD, and with it all objects, and creates it again.
func recreateCRD(w *world, hash int) {
	if w.kind != custom || w.crd+1 >= len(uids) {
		return
	}
	w.crd++
	w.gen, w.gens, w.flipped = 1, [mostGens]int{1: hash}, [mostGens]int{}
	w.versions = [len(hashes)]bool{}
	w.versions[hash] = true
	w.nflips = 0
	for i := range w.objects {
		w.objects[i].exists = false
	}
	for i := range w.n {
		w.procs[i].writes, w.procs[i].shows = 1, 1
	}
}

// lose is what a trigger forgets when it dies.
func (w *world) lose() {
	w.npassed, w.nflips, w.watchSince = 0, 0, w.now
	w.lookTaken, w.lookedInLife, w.request, w.sawRecordRV, w.compared, w.npositions = false, false, 0, 0, 0, 0
}

// How an etcd is restored.
const (
	mainBack       = iota // everything, and its revision goes back
	mainBumped            // its revision leaps forward
	ownBack               // the etcd of the resource alone
	ownBumped             //
	ownHasCaughtUp        // its revision is what it would have been
)

// restore sets an etcd back, and restarts the API servers.
func (w *world) restore(how int) {
	own := how >= ownBack
	separate := w.kind == ownEtcd || w.kind == aggregated
	if !w.hasBackup || w.n+hosts > mostProcs || own && !separate {
		return
	}
	// One that has caught up is known by the witness alone, by a look before that is written again: see the package
	// comment.
	if old, known := w.backup.first(), w.record.Collection.Witness; how == ownHasCaughtUp &&
		!(old.exists && known.UID == types.UID(objectUIDs[old.uid%len(objectUIDs)]) &&
			uint64(old.rv) < known.ResourceVersion) {
		how = ownBack
	}
	var again [hosts]bool
	for host := range hosts {
		again[host] = w.onHost(host) >= 0
	}
	again[0] = again[0] || again == [hosts]bool{} // who restores it has a server to look with
	for i := range w.n {
		w.kill(i, true)
	}
	for host := range hosts {
		if again[host] {
			w.start(host, w.lastOn(host), true)
		}
	}
	w.run, w.lookTaken, w.request = run{}, false, 0
	w.hand.nranges = 0 // its witnesses are gone
	now := w.etcd
	if own {
		w.etcd, w.restoredAt = w.backup.etcd, w.now
		w.uid = now.uid // UIDs do not come back
		switch how {
		case ownBumped:
			w.rv += bump
		case ownHasCaughtUp:
			w.rv = now.rv + 1
		}
		// Restarted API servers are a reason to look at once. Until then it must not catch up: see the package comment.
		w.trigger()
		w.trigger()
		return
	}
	// The sweep that the backup knows of, and the EndpointSlice, which was written since, go back as well.
	w.stored = w.backup
	if separate {
		w.etcd = now
	}
	w.uid = now.uid
	if how == mainBumped { // watches go on, and a trigger that has seen a newer record knows
		w.mainRV += bump
		if !separate {
			w.rv += bump
		}
		w.sawRestore = w.up && w.recordRV < w.sawRecordRV
	} else {
		w.npassed, w.nflips, w.watchSince = 0, 0, w.now
		w.sawRestore = w.up
	}
	for i := range w.n {
		w.procs[i].writes, w.procs[i].shows = w.gen, w.gen
	}
	for g := range w.flipped {
		w.flipped[g] = min(w.flipped[g], w.now)
	}
}

// first is the object that stands first in lists.
func (e *etcd) first() object {
	for _, o := range e.objects {
		if o.exists {
			return o
		}
	}
	return object{}
}

// lastOn is the hash of the newest process of a host.
func (w *world) lastOn(host int) int {
	for i := w.n - 1; i >= 0; i-- {
		if w.procs[i].host == host {
			return w.procs[i].hash
		}
	}
	return 1
}
