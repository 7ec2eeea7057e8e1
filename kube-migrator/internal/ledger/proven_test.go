// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "testing"

// TestWhatLooksLeaveOfAProof: everything is proven up to 100 in h1, and the looks have reached 150.
func TestWhatLooksLeaveOfAProof(t *testing.T) {
	proven := func(hash string, upTo uint64) Proven { return Proven{Hash: hash, UpTo: upTo} }
	for name, test := range map[string]struct {
		state func(s *State)
		look  func(l *Look)
		want  Proven
	}{
		"nothing has happened":   {want: proven("h1", 150)},
		"no position is reached": {look: func(l *Look) { l.Reached = 0 }, want: proven("h1", 100)},
		"a lower one":            {look: func(l *Look) { l.Reached = 50 }, want: proven("h1", 100)},
		"a doubt":                {look: func(l *Look) { l.Continuous, l.Servers = false, nil }, want: proven("h1", 100)},
		"another version is stored": {state: func(s *State) { s.Persisted = []string{"h1", "h2"} },
			want: proven("h1", 100)},
		"the API servers do not agree":     {look: func(l *Look) { l.Epoch = nil }, want: proven("h1", 100)},
		"no migration has proven it":       {state: func(s *State) { s.OnlyDecodable = true }, want: proven("h1", 100)},
		"only weaker evidence has":         {state: func(s *State) { s.Proven = Proven{} }},
		"it was proven of another version": {state: func(s *State) { s.Proven.Hash = "h0" }, want: proven("h0", 100)},
		"an etcd of its own":               {look: func(l *Look) { l.Shared, l.Elsewhere = false, true }},
		"its etcd was not looked at":       {look: func(l *Look) { l.Shared = false }, want: proven("h1", 100)},
		"its collection is older":          {look: func(l *Look) { l.Collection.ResourceVersion = 199 }},
		"its witness is older":             {look: func(l *Look) { l.Collection.Witness.ResourceVersion = 89 }},
		"its collection is older than what is proven": {look: func(l *Look) { l.Collection.ResourceVersion = 99 },
			state: func(s *State) { s.Collection = Collection{} }},
	} {
		epoch := EpochID{Hash: "h1", Processes: []string{"p1"}}
		servers := []Server{{ID: "api-1", Process: "p1", Hash: "h1", Answered: true}}
		at200 := Collection{ResourceVersion: 200, Witness: Witness{UID: "w", ResourceVersion: 90}}
		s := State{Persisted: []string{"h1"}, Current: "h1", Epoch: &epoch, Servers: servers, Traces: []string{"t"},
			Collection: at200, After: 1, Proven: proven("h1", 100)}
		l := Look{Servers: servers, Epoch: &epoch, Traces: []string{"t"}, Continuous: true, Collection: at200,
			Shared: true, Reached: 150, Revisions: true, Moment: 9}
		if test.state != nil {
			test.state(&s)
		}
		if test.look != nil {
			test.look(&l)
		}
		if got := Looked(s, l).State.Proven; got != test.want {
			t.Errorf("%s: proven is %+v, want %+v", name, got, test.want)
		}
	}
}

// A proof with weaker evidence trims, and leaves nothing from which later looks could rise over what it has missed.
func TestWhatAProofWithWeakerEvidenceLeaves(t *testing.T) {
	epoch := EpochID{Hash: "h1", Processes: []string{"p1"}}
	s := State{Persisted: []string{"h1", Unknown}, Current: "h1", Epoch: &epoch, After: 1, Proven: Proven{Hash: "h1", UpTo: 100}}
	at200 := Collection{ResourceVersion: 200, Shared: true}
	for name, test := range map[string]struct {
		observed, shared bool
		want             Proven
	}{
		"every API server was asked": {true, true, Proven{Hash: "h1", UpTo: 150}},
		"only an address was asked":  {false, true, Proven{}},
		"an etcd of its own":         {true, false, Proven{}},
	} {
		at200.Shared = test.shared
		d := Finished(s, []Proof{{Start: 2, Epoch: epoch, Baseline: 150, Observed: test.observed}}, at200)
		if !d.State.Migrated() || d.State.Proven != test.want {
			t.Errorf("%s: %v, proven %+v, want %+v", name, d.State.Persisted, d.State.Proven, test.want)
		}
	}
}
