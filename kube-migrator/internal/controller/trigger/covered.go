// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Covered knows which state of each StorageVersion of migration.k8s.io is covered by the recorded looks of this
// process. The entry of a crashed API server may be the only trace of what it wrote, so no one may remove an entry
// before its version is recorded (I1). Safe for concurrent use; in the zero value nothing is covered.
type Covered struct {
	mu     sync.Mutex
	states map[schema.GroupResource]string
}

// Has reports whether everything that the StorageVersion of a resource says in this state is recorded as possibly
// stored. state is its UID, "/" and its resourceVersion.
func (s *Covered) Has(resource schema.GroupResource, state string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return state != "" && s.states[resource] == state
}

// add takes over what a look saw, after its plan was written. A resource whose record could not be written keeps
// the state of an earlier look.
func (s *Covered) add(look *observation, plan []entryPlan) {
	written := map[string]bool{} // by any name
	for _, e := range plan {
		if e.resource != nil && !e.failed {
			for _, name := range e.resource.names {
				written[name] = true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.states
	s.states = map[schema.GroupResource]string{}
	for _, v := range look.round.Verdicts {
		switch {
		case v.Published == "":
		case written[stateName(v.Resource.Group, v.Resource.Resource)]:
			s.states[v.Resource] = v.Published
		case before[v.Resource] != "":
			s.states[v.Resource] = before[v.Resource]
		}
	}
}
