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

// A hidden server may have written since: a complete checkpoint is no proof without another second pass.
func TestASecondPassIsRepeatedWhereItIsResumed(t *testing.T) {
	store := &memoryCheckpoints{}
	agreement := func() (Epoch, error) {
		return Epoch{Hash: "h", CRDUID: "u", CRDGeneration: 2, Evidence: Sampled, Since: lasting.Since}, nil
	}
	h := newHiddenServer(3)
	run := func(least Evidence) (Result, int, error) {
		passes := 0
		s := sweepOf(t, &h.scripted, agreement,
			Options{Checkpoints: store, Resume: true, MinEvidence: least, MaxInFlight: 1})
		s.reconnect = func() (rest.Interface, error) {
			if passes++; passes == 1 {
				h.writes = 1
			}
			return s.wire.client, nil
		}
		result, err := s.Run(t.Context())
		return result, passes, err
	}
	if result, passes, err := run(Observed); !errors.Is(err, ErrNotProven) || passes != 0 {
		t.Fatalf("%+v, %v after %d second passes", result, err, passes)
	}
	for range 2 {
		if result, passes, err := run(Verified); err != nil || result.Epoch.Evidence != Verified || passes != 2 {
			t.Errorf("resumed: %v, %v after %d second passes, want 2", result.Epoch.Evidence, err, passes)
		}
	}
}

// What was found before the list had to start over counts.
func TestASecondPassWhoseListStartsOverForgetsNothing(t *testing.T) {
	h := newHiddenServer(3)
	epoch, lists := lasting, 0
	epoch.Evidence = Sampled
	h.list = func(w http.ResponseWriter) bool {
		switch lists++; lists {
		case 3: // the first page of the second pass
			h.page(w, "o0", "more")
			return true
		case 4:
			return refuse(w, http.StatusGone, "expired")
		}
		return false
	}
	h.writes = 1
	passes := 0
	s := sweepOf(t, &h.scripted, func() (Epoch, error) { return epoch, nil }, Options{MaxInFlight: 1})
	s.reconnect = func() (rest.Interface, error) { passes++; return s.wire.client, nil }
	if result, err := s.Run(t.Context()); err != nil || result.Epoch.Evidence != Verified || passes != 2 {
		t.Errorf("%v, %v after %d second passes and %d lists, want 2", result.Epoch.Evidence, err, passes, lists)
	}
}

// Objects that only the second pass meets are waited for, too.
func TestASecondPassThatFindsTheFirstObjectsIsRepeatedLater(t *testing.T) {
	h := newHiddenServer(3)
	epoch, lists, passes := lasting, 0, 0
	epoch.Evidence = Sampled
	h.list = func(http.ResponseWriter) bool {
		if lists++; lists < 3 {
			h.n = 0
		} else {
			h.n = 3
		}
		return false
	}
	s := sweepOf(t, &h.scripted, func() (Epoch, error) { return epoch, nil }, Options{MaxInFlight: 1})
	s.reconnect = func() (rest.Interface, error) { passes++; return s.wire.client, nil }
	if result, err := s.Run(t.Context()); err != nil || result.Epoch.Evidence != Verified || result.Moved != 0 || passes != 1 {
		t.Errorf("%v, %v after %d waits and %d lists, want 1", result.Epoch.Evidence, err, passes, lists)
	}
}

// page answers with one object, and a token for the others.
func (h *hiddenServer) page(w http.ResponseWriter, name, token string) {
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1000",`+
		`"continue":%q},"items":[%s]}`, token, object1(name, h.scripted.version(name)))
}

func TestWhatClientsWriteIsToldFromWhatIsRewritten(t *testing.T) {
	before := object{uid: "u", generation: 1, labels: 2, owners: 3}
	for name, tt := range map[string]struct {
		change func(*object)
		want   bool
	}{
		"nothing but the resourceVersion":       {func(*object) {}, false},
		"the API server dropped managedFields":  {func(o *object) { o.owners = 0 }, false},
		"a field":                               {func(o *object) { o.owners = 4 }, true},
		"a label, without managedFields":        {func(o *object) { o.labels = 5 }, true},
		"it is being deleted":                   {func(o *object) { o.generation = 2 }, true},
		"it was deleted and created once again": {func(o *object) { o.uid = "v" }, true},
	} {
		after := before
		if tt.change(&after); written(before, after) != tt.want {
			t.Errorf("%s: written %t", name, !tt.want)
		}
	}
}
