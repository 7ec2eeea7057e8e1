// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// hiddenServer has ConfigMaps that a server which no look shows stores in another version.
type hiddenServer struct {
	scripted
	mu      sync.Mutex
	next    int            // resourceVersion
	version map[string]int // by name
	owners  map[string]int
	old     map[string]bool // stored in the other version
	rests   map[string]bool // its last patch changed nothing, or was the first one
	// writes is how often the server writes an object that rests, and races how often a client does, in the current
	// version, between its reading and the patch.
	writes, races int
}

func newHiddenServer(n int) *hiddenServer {
	h := &hiddenServer{scripted: scripted{n: n, resourceVersion: "1000"}, next: 2000, version: map[string]int{},
		owners: map[string]int{}, old: map[string]bool{}, rests: map[string]bool{}}
	for i := range n {
		h.old[fmt.Sprintf("o%d", i)] = true
	}
	h.patch = func(name string, w http.ResponseWriter) bool { return h.answer(name, w, true) }
	h.get = func(name string, w http.ResponseWriter) bool { return h.answer(name, w, false) }
	return h
}

func (h *hiddenServer) answer(name string, w http.ResponseWriter, patched bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case patched && h.rests[name] && h.races > 0:
		h.races--
		h.write(name, true)
	case !patched && h.rests[name] && h.writes > 0:
		h.writes--
		h.write(name, true)
		h.old[name] = true
	}
	if patched {
		_, again := h.rests[name]
		if h.rests[name] = !h.old[name] || !again; h.old[name] {
			h.write(name, false)
			h.old[name] = false
		}
	}
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"d","uid":"u-%s",`+
		`"resourceVersion":"%d","managedFields":[{"manager":"m-%d"}]}}`, name, name, h.version[name], h.owners[name])
	return true
}

// write gives an object another resourceVersion. The lock is held.
func (h *hiddenServer) write(name string, byClient bool) {
	h.next++
	h.version[name] = h.next
	h.stored.Store(name, strconv.Itoa(h.next))
	if byClient {
		h.owners[name]++
	}
}

func TestASecondPassMakesUpForServersThatCannotBeAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		objects, writes, races int
		seen, least            Evidence
		// later is what looks show once the first pass has ended; 0: the same.
		later  Evidence
		settle time.Duration
		// passes is how many second passes there are, each after the settle time.
		passes   int
		evidence Evidence
		proven   bool
	}{
		"nothing is written meanwhile":            {objects: 3, seen: Sampled, passes: 1, evidence: Verified, proven: true},
		"there are no objects":                    {seen: Sampled, evidence: Verified, proven: true},
		"each server was asked":                   {objects: 3, seen: Observed, evidence: Observed, proven: true},
		"a sample is enough for the user":         {objects: 3, seen: Sampled, least: Sampled, evidence: Sampled, proven: true},
		"the user asks for more":                  {objects: 3, seen: Sampled, least: Observed, evidence: Sampled},
		"another version was written once":        {objects: 3, writes: 1, seen: Sampled, passes: 2, evidence: Verified, proven: true},
		"another version is written all the time": {objects: 3, writes: 100, seen: Sampled, passes: 3, evidence: Sampled},
		"a server is not asked any more": {objects: 3, seen: Observed, later: Sampled, passes: 1, evidence: Verified,
			proven: true},
		"a client writes between read and patch": {objects: 3, races: 2, seen: Sampled, passes: 1, evidence: Verified, proven: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHiddenServer(tt.objects)
			h.writes, h.races = tt.writes, tt.races
			epoch := lasting
			epoch.Evidence = tt.seen
			waits := 0
			s := sweepOf(t, &h.scripted, func() (Epoch, error) {
				now := epoch
				if tt.later != 0 && h.patches.Load() >= int64(tt.objects) {
					now.Evidence = tt.later
				}
				return now, nil
			},
				Options{MinEvidence: tt.least, SettleTime: 20 * time.Millisecond, MaxInFlight: 1})
			s.reconnect = func() (rest.Interface, error) { waits++; return s.wire.client, nil }
			result, err := s.Run(t.Context())
			if result.Proven != tt.proven || result.Epoch.Evidence != tt.evidence || waits != tt.passes ||
				tt.proven == errors.Is(err, ErrNotProven) {
				t.Errorf("proven %t with %v after %d second passes: %v", result.Proven, result.Epoch.Evidence, waits, err)
			}
			for name, old := range h.old {
				if tt.proven && old {
					t.Errorf("%s is stored in the other version", name)
				}
			}
		})
	}
}
