// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Durations of the model, in ticks. Their order is that of the real ones.
const (
	leaseDelay  = 2 // until a process that serves has its Lease, at most
	sweepGrace  = 3 // what a run waits before it compares the epoch at the end
	leaseExpiry = 4 // how long a crashed process counts as live
	mostLag     = 4 // until every server has read a definition
	settle      = 6
	mostProcs   = 12
	mostGens    = 12
	objects     = 3
	hosts       = 3
)

var hashes = [...]string{"v0", "v1", "v2"}

// proc is one process of an API server: it lives once.
type proc struct {
	host                     int
	hash                     int // of a built-in resource
	writes, shows            int // generations of the definition that it has read
	started, died, expires   int
	alive, wrote             bool
	visible, joins, endpoint bool // has a Lease; will be, is in the EndpointSlice
	listed                   bool // its Lease is fresh
	stale                    bool // its Lease is there and not renewed
	answers, isolated        bool
}

type object struct {
	hash, rv, at, by int
	exists           bool
}

// epochKey identifies an epoch, as the engine sees it.
type epochKey struct {
	hash, gen, uid int
	procs          uint32
}

// run is the engine's sweep for one generation of the migration.
type run struct {
	active          bool
	gen             int64
	known           bool // an epoch is being followed
	epoch           epochKey
	since, baseline int // baseline: resourceVersion
	baselineAt      int
	sweeping        bool
	next, lastWrite int
	ranges          [4][2]int // good ranges of the hash
	nranges         int
	trailAt         int
	trailRV         int
	confirmed       int
}

// proven is a finished run: what the ledger is told, and what only the model knows.
type proven struct {
	gen        int64
	epoch      epochKey
	baselineAt int
}

// stored is everything that etcd holds.
type stored struct {
	objects    [objects]object
	rv         int
	gens       [mostGens]int
	flipped    [mostGens]int
	gen, uid   int
	versions   [len(hashes)]bool // status.storedVersions
	endpoints  int               // generation of the EndpointSlice
	record     State
	begun      int // of the recorded look
	generation int64
	completed  int64
	proof      proven
	hasProof   bool
}

// sighted is something that the trigger's watch has seen.
type sighted struct{ what, at int }

// world is one history. It is made of arrays, so that a hundred thousand of them cost little.
type world struct {
	stored
	rules  rules
	custom bool
	now    int
	procs  [mostProcs]proc
	n      int
	run    run

	// The trigger.
	up           bool
	watchSince   int
	passed       [32]sighted
	npassed      int
	flips        [16]sighted
	nflips       int
	sawRestore   bool
	lookedInLife bool
	look         Look
	lookTaken    bool
	request      int64

	backup    stored
	hasBackup bool

	// What only the model knows.
	lastWrite  [len(hashes)]int
	lastWriter [len(hashes)]int
	restoredAt int // when the resource's own etcd was set back and the record was not
	trims      int
	doubts     int
	broken     string
	trace      func(string, ...any)
}

// begin is a cluster in which everything is in v1 and proven to be.
func (w *world) begin(r rules, custom bool, servers int) {
	*w = world{rules: r, custom: custom, now: 10, trace: w.trace}
	w.gens[1], w.gen, w.uid = 1, 1, 1
	w.versions[1] = true
	for i := range w.lastWriter {
		w.lastWriter[i] = -1
	}
	for h := range servers {
		p := w.start(h, 1, true)
		p.started, p.answers = 0, true
		w.appear(w.n - 1)
	}
	for i := range w.objects {
		w.put(i, 0)
	}
	w.generation, w.completed = 1, 1
	w.up, w.watchSince = true, w.now
	w.now++
	w.record = State{Persisted: []string{hashes[1]}, From: 1}
	w.takeLook()
	l := w.look
	w.record.Servers, w.record.Traces, w.record.Definition, w.record.Epoch = l.Servers, l.Traces, l.Definition, l.Epoch
	w.record.Current, w.record.Heartbeat, w.record.Collection = hashes[1], l.Begun, l.Collection
	w.begun, w.lookTaken, w.lookedInLife = w.now, false, true
}

// Servers.

func (w *world) start(host, hash int, joins bool) *proc {
	p := &w.procs[w.n]
	*p = proc{host: host, hash: hash, writes: w.gen, shows: w.gen, started: w.now, alive: true, joins: joins}
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
		if q := &w.procs[j]; j != i && q.host == p.host {
			w.unlist(j)
			q.stale = false
		}
	}
	if p.joins {
		p.endpoint = true
		w.endpoints++
	}
}

// unlist: the process does not count as live any more.
func (w *world) unlist(i int) {
	p := &w.procs[i]
	if !p.listed {
		return
	}
	p.listed, p.stale = false, true
	if p.endpoint {
		p.endpoint = false
		w.endpoints++
	}
	if w.up && w.npassed < len(w.passed) {
		w.passed[w.npassed] = sighted{i, w.now}
		w.npassed++
	}
}

// kill ends a process. One that has written has its Lease by then: see the package comment for those that do not.
func (w *world) kill(i int, graceful bool) {
	p := &w.procs[i]
	if !p.alive {
		return
	}
	if p.wrote {
		w.appear(i)
	}
	p.alive, p.answers, p.died = false, false, w.now
	p.expires = w.now + leaseExpiry
	if graceful {
		w.unlist(i)
	}
}

func (w *world) onHost(host int) int {
	for i := range w.n {
		if w.procs[i].alive && w.procs[i].host == host {
			return i
		}
	}
	return -1
}

// someone returns a live process, -1 where there is none.
func (w *world) someone(from int) int {
	for i := range w.n {
		if j := (i + from) % w.n; w.procs[j].alive {
			return j
		}
	}
	return -1
}

func (w *world) written(p *proc) int {
	if w.custom {
		return w.gens[p.writes]
	}
	return p.hash
}

func (w *world) showing(p *proc) int {
	if w.custom {
		return w.gens[p.shows]
	}
	return p.hash
}

func (w *world) put(i, by int) {
	p := &w.procs[by]
	hash := w.written(p)
	w.rv++
	w.objects[i] = object{hash: hash, rv: w.rv, at: w.now, by: by, exists: true}
	p.wrote = true
	w.lastWrite[hash], w.lastWriter[hash] = w.now, by
}

// tick lets time pass, and what cannot take longer happen.
func (w *world) tick() {
	w.now++
	for i := range w.n {
		p := &w.procs[i]
		if p.alive && w.now-p.started >= leaseDelay {
			w.appear(i)
		}
		if p.alive && w.now-p.started > leaseDelay+2 {
			p.answers = true
		}
		if !p.alive && p.listed && w.now >= p.expires {
			w.unlist(i)
		}
		for g := p.writes + 1; g <= w.gen; g++ {
			if w.now-w.flipped[g] >= mostLag {
				p.writes = g
			}
		}
		p.shows = max(p.shows, min(p.writes, p.shows+1))
		for g := p.shows + 1; g <= w.gen; g++ {
			if w.now-w.flipped[g] >= mostLag {
				p.shows = g
			}
		}
	}
}

// agreement is what a look at the servers finds: the epoch, whether they agree, whether they were all heard.
func (w *world) agreement() (e epochKey, agreed, disagree bool) {
	e = epochKey{hash: -1}
	heard := true
	for i := range w.n {
		p := &w.procs[i]
		if !p.listed {
			continue
		}
		e.procs |= 1 << i
		if !p.answers || p.isolated {
			heard = false
			continue
		}
		hash := w.showing(p)
		if e.hash >= 0 && e.hash != hash {
			disagree = true
		}
		e.hash = hash
	}
	if w.custom {
		e.gen, e.uid = w.gen, w.uid
		disagree = disagree || e.hash >= 0 && e.hash != w.gens[w.gen]
	}
	return e, heard && !disagree && e.procs != 0, disagree
}

var (
	procNames     = numbered("p", mostProcs)
	leaseTraces   = numbered("lease/", mostProcs)
	endpointNames = numbered("endpoints/", 128)
	uids          = numbered("uid", 32)
)

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + fmt.Sprintf("%02d", i)
	}
	return names
}

func (e epochKey) epoch() Epoch {
	epoch := Epoch{Hash: hashes[e.hash], Generation: int64(e.gen)}
	if e.uid > 0 {
		epoch.UID = types.UID(uids[e.uid])
	}
	for i := range mostProcs {
		if e.procs&(1<<i) != 0 {
			epoch.Processes = append(epoch.Processes, procNames[i])
		}
	}
	return epoch
}
