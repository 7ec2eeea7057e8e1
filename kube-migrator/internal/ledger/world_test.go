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
	mostLag     = 4 // until every server has read a CRD
	mostDrain   = 4 // how long a process that was told to end goes on writing
	settle      = 6
	mostProcs   = 12
	mostGens    = 12
	objects     = 3
	hosts       = 3
	bump        = 1 << 40 // of a revision, when etcd is restored
)

// kind is what a resource is, and in which etcd it is stored.
type kind int

const (
	builtIn    kind = iota
	ownEtcd         // built-in, in an etcd of its own
	custom          // in the etcd of the record, as built-in ones are
	aggregated      // in an etcd of its own, written by processes that no one watches and that have no Leases
)

var hashes = [...]string{"v0", "v1", "v2"}

// proc is one process of an API server: it lives once.
type proc struct {
	host                     int
	hash                     int // of a built-in resource
	writes, shows            int // generations of the CRD that it has read
	started, died, expires   int
	alive, wrote             bool
	visible, joins, endpoint bool // has a Lease; will be, is in the EndpointSlice
	listed                   bool // its Lease is fresh
	stale                    bool // its Lease is there and not renewed
	answers, isolated        bool

	draining, asked bool // was told to end and still writes; looks still ask it
	ends            int
	suspended       bool
	resumed, leases int  // when it went on; how often it let its Lease expire
	relisted        int  // when it renewed that Lease
	back, wroteBack bool // went on, and has no Lease yet; wrote since
}

// writable: it takes requests.
func (p *proc) writable() bool { return p.alive && !p.suspended }

type object struct {
	hash, rv, at, by, uid int
	exists                bool
}

// epochKey identifies an epoch, as the engine sees it.
type epochKey struct {
	hash, gen, uid int
	procs          uint32
}

// run is the engine's sweep for one generation of the migration, or by hand.
type run struct {
	active          bool
	byHand          bool
	gen             int64
	start           int    // moment
	after           uint64 // by hand: what the record required when it started
	known           bool   // an epoch is being followed
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
	proven          Proven // as recorded when the run started
	provenBy        uint32 // the processes of the recorded epoch
}

// proven is a finished run: what the ledger is told, and what only the model knows.
type proven struct {
	start      int // moment
	epoch      epochKey
	baselineAt int
	baseline   int // resourceVersion
}

// etcd is the one that holds the objects.
type etcd struct {
	objects [objects]object
	rv, uid int
}

// stored is everything that is stored. The objects of some kinds are in an etcd of their own, the rest always in the
// main one.
type stored struct {
	etcd
	mainRV     int // what changes the record counts
	recordRV   int
	gens       [mostGens]int
	flipped    [mostGens]int
	gen, crd   int
	versions   [len(hashes)]bool // status.storedVersions
	endpoints  int               // generation of the EndpointSlice
	record     State
	begun      int // of the recorded look
	generation int64
	completed  int64
	proof      proven
	hasProof   bool
}

// position is one of etcd that the trigger has read.
type position struct{ rv, at int }

// sighted is something that the trigger's watch has seen.
type sighted struct{ what, at int }

// world is one history. It is made of arrays, so that a hundred thousand of them cost little.
type world struct {
	stored
	rules  rules
	kind   kind
	silent bool // nothing keeps the EndpointSlices
	kept   bool // the next process on a host takes over the Lease, as with releases before 1.35
	blind  bool // the trigger may not list objects
	now    int
	procs  [mostProcs]proc
	n      int
	run    run
	hand   run

	// The trigger.
	up           bool
	watchSince   int
	passed       [32]sighted
	npassed      int
	flips        [16]sighted
	nflips       int
	sawRestore   bool
	sawRecordRV  int    // the greatest resourceVersion of the record that this process has seen
	compared     uint64 // the servers when the collection was read last
	positions    [8]position
	npositions   int
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
func (w *world) begin(r rules, t tale) {
	*w = world{rules: r, kind: t.kind, silent: t.silent && t.kind != aggregated, blind: t.blind,
		kept: t.kept && t.kind != aggregated, now: 10, trace: w.trace}
	w.gens[1], w.gen, w.crd = 1, 1, 1
	w.versions[1] = true
	for i := range w.lastWriter {
		w.lastWriter[i] = -1
	}
	for h := range t.servers {
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
	w.mainRV = 2
	w.record = State{Persisted: []string{hashes[1]}, After: 1}
	w.takeLook()
	l := w.look
	l.Collection = w.collection()
	w.record.Servers, w.record.Traces, w.record.CRD, w.record.Epoch = l.Servers, l.Traces, l.CRD, l.Epoch
	if w.shared() {
		w.record.Proven = Proven{Hash: hashes[1], UpTo: uint64(w.rv)}
	}
	w.record.Current, w.record.Heartbeat, w.record.Collection = hashes[1], l.Started, l.Collection
	w.begun, w.lookTaken, w.lookedInLife = w.now, false, true
}

// Servers.

func (w *world) written(p *proc) int {
	if w.kind == custom {
		return w.gens[p.writes]
	}
	return p.hash
}

func (w *world) showing(p *proc) int {
	if w.kind == custom {
		return w.gens[p.shows]
	}
	return p.hash
}

func (w *world) put(i, by int) {
	p := &w.procs[by]
	if w.kind == aggregated {
		w.appear(by) // no one asks it before it is an endpoint
	}
	hash, uid := w.written(p), w.objects[i].uid
	w.rv++
	if !w.objects[i].exists {
		w.uid++
		uid = w.uid
	}
	w.objects[i] = object{hash: hash, rv: w.rv, at: w.now, by: by, uid: uid, exists: true}
	p.wrote, p.wroteBack = true, p.back
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
		if (!p.alive || p.suspended) && p.listed && w.now >= p.expires {
			w.unlist(i)
		}
		if p.alive && p.draining && w.now >= p.ends {
			p.alive, p.answers, p.died, p.expires = false, false, w.now, w.now+leaseExpiry
		}
		if p.suspended {
			continue // it reads nothing
		}
		if p.alive && p.back && w.now-p.resumed >= leaseDelay {
			w.relist(i)
		}
		for g := p.writes + 1; g <= w.gen; g++ {
			if w.now-max(w.flipped[g], p.resumed) >= mostLag {
				p.writes = g
			}
		}
		p.shows = max(p.shows, min(p.writes, p.shows+1))
		for g := p.shows + 1; g <= w.gen; g++ {
			if w.now-max(w.flipped[g], p.resumed) >= mostLag {
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
		if p.draining && p.alive && p.asked && p.answers {
			heard = false // an epoch begins when it is silent
		}
		if !p.listed {
			continue
		}
		e.procs |= 1 << i
		if !p.answers || p.isolated || p.suspended {
			heard = false
			continue
		}
		hash := w.showing(p)
		if e.hash >= 0 && e.hash != hash {
			disagree = true
		}
		e.hash = hash
	}
	if w.kind == custom {
		e.gen, e.uid = w.gen, w.crd
		disagree = disagree || e.hash >= 0 && e.hash != w.gens[w.gen]
	}
	return e, heard && !disagree && e.procs != 0, disagree
}

var (
	procNames     = numbered("p", mostProcs)
	hostNames     = numbered("host", hosts)
	leaseTraces   = numbered("lease/", 16*mostProcs)
	objectUIDs    = numbered("object", 512)
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

func (e epochKey) epoch() EpochID {
	epoch := EpochID{Hash: hashes[e.hash], Generation: int64(e.gen)}
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
