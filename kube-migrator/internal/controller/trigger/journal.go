// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/identity"
)

// specState identifies one state of a CustomResourceDefinition's spec. The zero value means that the CRD is gone.
type specState struct {
	uid        types.UID
	generation int64
}

// position is a place in the journal. Later places have greater positions.
type position uint64

// passage is what happened after a position, as far as it was watched.
type passage struct {
	// serversWatched means that no process can have been missed. CRDs need no such field, because their generations
	// show whether some were missed.
	serversWatched bool
	// processes are the API servers' processes that were seen, by the holders of their identity Leases, each once.
	processes []string
	// These are the states of one CRD that were seen, in order.
	crds []specState
}

// entry is one event.
type entry struct {
	at position
	// serverGap means that a watch of the Leases started here, so that earlier events may be missing.
	serverGap bool
	process   string // came
	name      string // of a CRD
	state     specState
}

// journal notes what comes and goes between two looks: a process that starts, writes and dies, or a CRD that is changed
// and changed back (I1). It is safe for concurrent use.
type journal struct {
	// wake is called when something has happened that a look would show.
	wake func()

	mu          sync.Mutex
	last        position
	entries     []entry
	serversAway bool                 // the identity Leases are not watched now
	holders     map[string]tenure    // of Leases, by name, as of now
	present     map[string]specState // by name, as of now
	newest      uint64               // resourceVersion of a Lease that was seen
	// pressing means that something other than a CRD has happened since calm was called.
	pressing bool
}

// tenure is the holder of a Lease and the last renewal, by the holder's clock. The zero value means that no one holds
// it.
type tenure struct {
	holder  string
	renewed time.Time
}

// newJournal returns a journal for which no watch has started.
func newJournal(wake func()) *journal {
	return &journal{wake: wake, serversAway: true, holders: map[string]tenure{}, present: map[string]specState{}}
}

// here returns the present position. A look that begins afterwards sees everything that happened before the position
// and still exists.
func (j *journal) here() position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// hint notes that something may have happened to the servers.
func (j *journal) hint() {
	j.mu.Lock()
	j.pressing = true
	j.mu.Unlock()
	j.wake()
}

// presses reports whether a look cannot be put off: what a CRD tells servers to write is recorded without one, but what
// servers come and go is not.
func (j *journal) presses() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pressing
}

// calm says that a look begins, which sees everything that has happened.
func (j *journal) calm() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pressing = false
}

// since returns what happened after a position, to the servers and to the CRD of the given name.
func (j *journal) since(p position, name string) passage {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := passage{serversWatched: !j.serversAway}
	for _, e := range j.entries {
		if e.at <= p {
			continue
		}
		all.serversWatched = all.serversWatched && !e.serverGap
		if e.process != "" && !slices.Contains(all.processes, e.process) {
			all.processes = append(all.processes, e.process)
		}
		if e.name != "" && e.name == name {
			all.crds = append(all.crds, e.state)
		}
	}
	return all
}

// changed returns the names of the CRDs that changed after a position, each once.
func (j *journal) changed(p position) (names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if e.at > p && e.name != "" && e.state != (specState{}) && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

// forget drops what happened up to a position.
func (j *journal) forget(p position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = slices.DeleteFunc(j.entries, func(e entry) bool { return e.at <= p })
}

// note adds an entry. The caller holds the lock.
func (j *journal) note(e entry) {
	j.last++
	e.at = j.last
	j.pressing = j.pressing || e.name == ""
	j.entries = append(j.entries, e)
	j.wake()
}

// serversListed starts a watch of the identity Leases, with their holders by name as of a resourceVersion. Earlier
// events were not seen.
func (j *journal) serversListed(holders map[string]tenure, resourceVersion uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.serversAway, j.holders = false, maps.Clone(holders)
	j.note(entry{serverGap: true})
	j.newest = max(j.newest, resourceVersion)
	for _, t := range holders {
		j.note(entry{process: t.holder})
	}
}

// reached returns the greatest resourceVersion that was seen. A later read never returns a lower one, unless etcd was
// restored.
func (j *journal) reached() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.newest
}

// serversLost ends the watch of the identity Leases.
func (j *journal) serversLost() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.serversAway = true
}

// holds notes the holder of an identity Lease, or the zero value if the Lease is gone. A process that renews its Lease
// after that had expired was suspended and came back: a look may have counted it as gone.
func (j *journal) holds(lease string, now tenure, resourceVersion uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.newest = max(j.newest, resourceVersion)
	before := j.holders[lease]
	j.holders[lease] = now
	if before.holder == now.holder && now.renewed.Sub(before.renewed) <= identity.FreshFor {
		return // renewed
	}
	j.note(entry{process: now.holder})
}

// crdsListed notes the state of all CRDs, by name. A CRD with the same generation as before has not changed in
// between.
func (j *journal) crdsListed(present map[string]specState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.present
	j.present = maps.Clone(present)
	for name, d := range present {
		if known, ok := before[name]; ok && known != d {
			j.note(entry{name: name, state: d})
		}
	}
	j.wake()
}

// defines notes the state of a CRD, or the zero value if it is gone.
func (j *journal) defines(name string, d specState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.present[name] == d {
		return // its status changed
	}
	j.present[name] = d
	j.note(entry{name: name, state: d})
}
