// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
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
		if w.procs[w.n-1].alive {
			w.put(arg, w.n-1)
		}
	})
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
	add("user deletes the record", 1, 1, func(w *world, _ int) { w.record, w.begun, w.lookTaken = State{}, w.now, false })
	add("run fails", 1, 1, func(w *world, _ int) { w.run = run{} })
	add("definition anew", 1, len(hashes), defineAnew)
	add("backup", 2, 1, func(w *world, _ int) { w.backup, w.hasBackup = w.stored, true })
	add("restore", 2, 2, (*world).restore)
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

// restartServer is a rolling restart's step: the same version, and an answer as soon as it can be asked.
func restartServer(w *world, host int) {
	if i := w.onHost(host); i >= 0 && w.n < mostProcs {
		hash := w.procs[i].hash
		w.kill(i, true)
		w.start(host, hash, true).answers = true
		w.repeatedly(func() {}, leaseDelay)
	}
}

// flip changes the definition's storage version, or something else in its spec.
func flip(w *world, hash int) {
	if !w.custom || w.gen+1 >= mostGens {
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

// defineAnew: the definition is deleted, and with it all objects, and created anew.
func defineAnew(w *world, hash int) {
	if !w.custom || w.uid+1 >= len(uids) {
		return
	}
	w.uid++
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
	w.lookTaken, w.lookedInLife, w.request = false, false, 0
}

// restore sets etcd back, and restarts the API servers: all of it, or only the resource's own etcd (1).
func (w *world) restore(own int) {
	if !w.hasBackup || w.n+hosts > mostProcs || own == 1 && w.custom {
		return
	}
	for host := range hosts {
		if i := w.onHost(host); i >= 0 {
			w.kill(i, true)
			w.start(host, w.procs[i].hash, true)
		}
	}
	w.run, w.lookTaken, w.request = run{}, false, 0
	if own == 1 {
		w.objects, w.rv, w.restoredAt = w.backup.objects, w.backup.rv, w.now
	} else {
		// The sweep that the backup knows of, and the EndpointSlice, which was written since, go back as well.
		w.stored = w.backup
		w.npassed, w.nflips, w.watchSince = 0, 0, w.now
		for i := range w.n {
			w.procs[i].writes, w.procs[i].shows = w.gen, w.gen
		}
		for g := range w.flipped {
			w.flipped[g] = min(w.flipped[g], w.now)
		}
	}
	w.sawRestore = w.up
}
