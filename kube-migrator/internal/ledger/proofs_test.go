// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhichMigrationProvesSomething(t *testing.T) {
	s := Looked(recorded(look("a", "h1")), look("b", "h2")).State // asks for generation 5
	epoch := *s.Epoch
	other := func(change func(*EpochID)) EpochID {
		e := epoch
		change(&e)
		return e
	}
	now := Collection{ResourceVersion: 300, Witness: Witness{UID: "w", ResourceVersion: 250}}
	disagreeing := Looked(s, look("b", "h2", "c", "h1")).State
	for name, test := range map[string]struct {
		state   State
		proof   *Proof
		want    []string
		refused string
	}{
		"no migration":           {state: s, want: []string{"h1", "h2"}},
		"the requested run":      {state: s, proof: &Proof{Start: 2001, Epoch: epoch}, want: []string{"h2"}},
		"one that started later": {state: s, proof: &Proof{Start: 9000, Epoch: epoch}, want: []string{"h2"}},
		"one that may have started before": {state: s, proof: &Proof{Start: 2000, Epoch: epoch},
			want: []string{"h1", "h2"}, refused: "the run may have started before another version was written"},
		"one to another version": {state: s,
			proof: &Proof{Start: 2001, Epoch: other(func(e *EpochID) { e.Hash = "h1" })}, want: []string{"h1", "h2"},
			refused: "the run was about another version"},
		"one with other servers": {state: s,
			proof: &Proof{Start: 2001, Epoch: other(func(e *EpochID) { e.Processes = []string{"c"} })},
			want:  []string{"h1", "h2"}, refused: "the epoch of the run is over"},
		"one with another CRD": {state: s,
			proof: &Proof{Start: 2001, Epoch: other(func(e *EpochID) { e.UID = "uid" })}, want: []string{"h1", "h2"},
			refused: "the epoch of the run is over"},
		"one with another generation": {state: s,
			proof: &Proof{Start: 2001, Epoch: other(func(e *EpochID) { e.Generation = 2 })}, want: []string{"h1", "h2"},
			refused: "the epoch of the run is over"},
		"any, while API servers disagree": {state: disagreeing, proof: &Proof{Start: 2001, Epoch: epoch},
			want: []string{"h1", "h2"}, refused: "the API servers do not agree now"},
		"any, if the moment after which runs count is lost": {state: func() State { l := s; l.After = 0; return l }(),
			proof: &Proof{Start: 2001, Epoch: epoch}, want: []string{"h1", "h2"},
			refused: "the run may have started before another version was written"},
	} {
		t.Run(name, func(t *testing.T) {
			var proofs []Proof
			if test.proof != nil {
				proofs = append(proofs, *test.proof)
			}
			d := Finished(test.state, proofs, now)
			if diff := cmp.Diff(test.want, d.State.Persisted); diff != "" || d.Refused != test.refused {
				t.Errorf("refused %q, want %q; persisted (-want +got):\n%s", d.Refused, test.refused, diff)
			}
			if proven := test.refused == "" && test.proof != nil; d.State.Migrated() != proven {
				t.Errorf("Migrated() = %v, want %v", d.State.Migrated(), proven)
			}
		})
	}
}

// A StorageState that shrinks has to record a position that the collection had after the run. Otherwise a backup made
// in the middle of the run would not be older than the record.
func TestAProofTrimsOnlyUnderAFreshPosition(t *testing.T) {
	s := Looked(recorded(look("a", "h1")), look("b", "h2")).State // asks for generation 5
	m := Migration{Generation: 5, Completed: 5, Proof: &Proof{Start: 2001, Epoch: *s.Epoch, Baseline: 150}}
	fresh := Collection{ResourceVersion: 300, Witness: Witness{UID: "w", ResourceVersion: 250}}
	for name, test := range map[string]struct {
		collection Collection
		refused    string
	}{
		"read after the run":                 {fresh, ""},
		"without objects":                    {Collection{ResourceVersion: 300}, ""},
		"not read":                           {Collection{}, NotCompared},
		"older than what is recorded":        {Collection{ResourceVersion: 99}, wentBack},
		"older than what the run began with": {Collection{ResourceVersion: 149}, wentBack},
		"with an object that is older than it": {Collection{ResourceVersion: 300,
			Witness: Witness{UID: "w", ResourceVersion: 39}}, wentBack},
	} {
		t.Run(name, func(t *testing.T) {
			d := Finished(s, []Proof{*m.Proof}, test.collection)
			want := s
			if test.refused == "" {
				want.Persisted, want.Collection = []string{"h2"}, test.collection
			}
			if diff := cmp.Diff(Decision{State: want, Refused: test.refused}, d); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
	seen := look("b", "h2").with(func(l *Look) { l.Own, l.Collection = m, Collection{} })
	if d := Looked(s, seen); d.Refused != NotCompared || d.Request != 0 || len(d.State.Persisted) != 2 ||
		d.State.Collection != s.Collection {
		t.Errorf("a look that could not read the collection decides %+v; another run would not help", d)
	}
	seen.Collection = fresh
	if d := Looked(s, seen); d.Refused != "" || !d.State.Migrated() || d.State.Collection != fresh {
		t.Errorf("the look that could decides %+v", d)
	}
}

func TestARunByHandCountsWhereNothingElseIsRequiredSince(t *testing.T) {
	before := Looked(recorded(look("a", "h1")), look("b", "h2")).State
	proof := Proof{Epoch: *before.Epoch, Baseline: 150}
	now := Collection{ResourceVersion: 300}
	for name, test := range map[string]struct {
		before, s State
		refused   string
	}{
		"nothing happened": {before: before, s: before},
		"a look saw the same": {
			before: before, s: Looked(before, look("b", "h2").with(func(l *Look) { l.Moment = 3000 })).State,
		},
		"something was recorded meanwhile": {
			before: before, s: Looked(before, look("b", "h2").with(func(l *Look) {
				l.Passed,
					l.Moment = []string{"c"}, 3000
			})).State,
			refused: "another version may have been written since the run started",
		},
		"the record went back with its etcd": {
			before: before, s: func() State { s := before; s.After = 1500; return s }(),
			refused: "another version may have been written since the run started",
		},
		"there was no record": {s: before, refused: "nothing was recorded when the run started"},
		"its epoch is not recorded": {before: before,
			s:       func() State { s := before; s.Epoch = &EpochID{Hash: "h2"}; return s }(),
			refused: "the epoch of the run is over"},
		"nothing is to be proven": {s: recorded(look("b", "h2"))},
		"what was declared is proven": {before: before,
			s: func() State {
				s := recorded(look("b", "h2"))
				s.After,
					s.OnlyDecodable = before.After, true
				return s
			}()},
	} {
		t.Run(name, func(t *testing.T) {
			d := FinishedByHand(test.before, test.s, proof, now)
			if d.Refused != test.refused || (d.Refused == "") != d.State.Migrated() || d.State.OnlyDecodable {
				t.Errorf("refused %q, want %q; recorded %v", d.Refused, test.refused, d.State.Persisted)
			}
		})
	}
}

func TestNoRunThatHasBegunProvesWhatNoOneRecorded(t *testing.T) {
	if after := First(look("a", "h1")).State.After; after != 2000 {
		t.Errorf("without a record proofs count after %d, want 2000", after)
	}
	s := recorded(look("a", "h1"))
	if after := Looked(s, look("a", "h1")).State.After; after != s.After {
		t.Errorf("nothing happened, and proofs count after %d, want %d as before", after, s.After)
	}
	s.After = 0
	if after := Looked(s, look("a", "h1")).State.After; after != 2000 {
		t.Errorf("where it was lost, proofs count after %d, want 2000", after)
	}
	s.After = 5000
	if after := Looked(s, look("a", "h1")).State.After; after != 2000 {
		t.Errorf("where it is of another etcd, proofs count after %d, want 2000", after)
	}
	silent := State{Persisted: []string{Unknown}, Servers: []Server{server("a", "?")}, After: 1}
	if after := Looked(silent, look("b", "?")).State.After; after != 2000 {
		t.Errorf("after a doubt next to an older one, proofs count after %d, want 2000", after)
	}
	blind := look("b", "?").with(func(l *Look) { l.Moment = 0 })
	if after := Looked(silent, blind).State.After; after != 0 {
		t.Errorf("after a doubt at an unknown moment, proofs count after %d, want none at all", after)
	}
}
