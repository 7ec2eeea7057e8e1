// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import "fmt"

// Turns judges from the requests of workers whether two of them ever sweep one resource at the same time (I8). A
// worker's part is what it sends between two writes of its roster: at most one run. As soon as another part rewrites
// objects of a resource, the previous one must be over. The requests have to be added in the order in which they were
// sent, and without those of processes that have exited. It is not safe for concurrent use.
type Turns struct {
	// Patches counts the requests that were judged, Parts the changes from one part to another.
	Patches, Parts int

	part map[string]int     // of each worker
	now  map[string]turn    // who sweeps a resource
	over map[spell]struct{} // which parts have been followed by another one
}

type turn struct {
	worker string
	part   int
}

type spell struct {
	resource string
	turn
}

// Roster adds a worker's write of its roster: it has taken over the roster, has ended a run, or accepts no more runs.
func (t *Turns) Roster(worker string) {
	t.init()
	t.part[worker]++
}

// Patch adds a worker's rewrite of an object of a resource. It returns what is wrong, or "".
func (t *Turns) Patch(worker, resource string) string {
	t.init()
	t.Patches++
	next := turn{worker, t.part[worker]}
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
	if t.part == nil {
		t.part, t.now, t.over = map[string]int{}, map[string]turn{}, map[spell]struct{}{}
	}
}
