// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import "fmt"

// Turns judges from the requests of workers whether two of them ever sweep one resource at the same time (I8). A
// worker's part is what it sends for a resource between two writes of its roster that end a task of the resource: at
// most one run. As soon as another part rewrites objects of the resource, the previous one must be over. The requests
// have to be added in the order in which they were sent, and without those of processes that have exited. It is not safe
// for concurrent use.
type Turns struct {
	// Patches counts the requests that were judged, Parts the changes from one part to another.
	Patches, Parts int

	rosters map[string]roster  // of each worker, as it wrote it last
	now     map[string]turn    // who sweeps a resource
	over    map[spell]struct{} // which parts have been followed by another one
}

type roster struct {
	process string
	ended   map[string]int64
}

type turn struct {
	worker  string
	process string
	ended   int64
}

type spell struct {
	resource string
	turn
}

// Roster adds a worker's write of its roster: which process writes it, and for each resource the newest task that has
// ended.
func (t *Turns) Roster(worker, process string, ended map[string]int64) {
	t.init()
	r := t.rosters[worker]
	if r.ended == nil {
		r.ended = map[string]int64{}
	}
	r.process = process
	for resource, number := range ended { // the roster forgets tasks
		r.ended[resource] = max(r.ended[resource], number)
	}
	t.rosters[worker] = r
}

// Patch adds a worker's rewrite of an object of a resource. It returns what is wrong, or "".
func (t *Turns) Patch(worker, resource string) string {
	t.init()
	t.Patches++
	r := t.rosters[worker]
	next := turn{worker, r.process, r.ended[resource]}
	before, some := t.now[resource]
	if some && before == next {
		return ""
	}
	t.Parts++
	t.now[resource] = next
	if some {
		t.over[spell{resource, before}] = struct{}{}
	}
	if _, over := t.over[spell{resource, next}]; over {
		delete(t.over, spell{resource, next}) // one violation is enough to tell
		return fmt.Sprintf("I8 violated: %s rewrites %s after %s had begun to, in one run", worker,
			resource, before.worker)
	}
	return ""
}

func (t *Turns) init() {
	if t.rosters == nil {
		t.rosters, t.now, t.over = map[string]roster{}, map[string]turn{}, map[spell]struct{}{}
	}
}
