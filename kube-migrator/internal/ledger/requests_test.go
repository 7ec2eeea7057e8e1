// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsAskedForAgain(t *testing.T) {
	s := Looked(recorded(look("a", "h1")), look("b", "h2")).State // asks for generation 5
	elsewhere := &Proof{Start: 2001, Epoch: EpochID{Hash: "h2", Processes: []string{"c"}}}
	late, early := uint64(2001), uint64(2000)
	ours, theirs := Migration{Generation: 4, Completed: 4}, Migration{Generation: 1}
	for name, test := range map[string]struct {
		own    Migration
		others []Migration
		crd    *CRD
		want   int64
	}{
		"the request was lost":  {own: ours, want: 5},
		"there is no migration": {want: 1},
		"it waits for its turn": {own: Migration{Generation: 5, Completed: 4}},
		"it runs, or failed and will be repeated": {own: Migration{Generation: 5, Completed: 4, Started: true,
			Start: late, Failed: true}},
		"it left objects alone, and will be repeated": {own: Migration{Generation: 5, Completed: 4, Started: true,
			Start: late, Failed: true, LeftAlone: &CRD{UID: "u", Generation: 3}}, crd: &CRD{UID: "u", Generation: 3}},
		"it left objects alone, and the CRD has changed": {own: Migration{Generation: 5, Completed: 4, Started: true,
			Start: late, Failed: true, LeftAlone: &CRD{UID: "u", Generation: 3}}, crd: &CRD{UID: "u", Generation: 4}, want: 6},
		"it runs since before something else was written": {own: Migration{Generation: 5, Completed: 4, Started: true,
			Start: early}, want: 6},
		"it runs, and when it started is not known": {own: Migration{Generation: 5, Completed: 4,
			Started: true}, want: 6},
		"someone asked for more": {own: Migration{Generation: 7, Completed: 4}},
		"it succeeded and its proof does not count": {own: Migration{Generation: 5, Completed: 5,
			Proof: elsewhere}, want: 6},
		"it succeeded and its proof counts": {own: Migration{Generation: 5, Completed: 5,
			Proof: &Proof{Start: late, Epoch: *s.Epoch}}},
		"a run of more succeeded before it was lowered": {own: Migration{Generation: 3, Completed: 8,
			Proof: elsewhere}, want: 9},
		"it is cancelled":                         {own: Migration{Generation: 5, Completed: 4, Held: true}},
		"it was cancelled after it had succeeded": {own: Migration{Generation: 4, Completed: 4, Held: true}},

		"another one will prove it": {own: ours, others: []Migration{theirs}},
		"another one is at work that will": {others: []Migration{{Generation: 1,
			Started: true, Start: late}}},
		"another one is at work that proves nothing": {own: ours,
			others: []Migration{{Generation: 1, Started: true, Start: early}}, want: 5},
		"another one failed": {own: ours,
			others: []Migration{{Generation: 1, Started: true, Start: late, Failed: true}}, want: 5},
		"another one succeeded, and its proof counts": {own: ours,
			others: []Migration{{Generation: 1, Completed: 1, Proof: &Proof{Start: late, Epoch: *s.Epoch}}}},
		"another one succeeded, and its proof does not count": {own: ours,
			others: []Migration{{Generation: 1, Completed: 1, Proof: elsewhere}}, want: 5},
		"another one succeeded without a proof": {others: []Migration{{Generation: 1,
			Completed: 1}}, want: 1},
		"one of two others will prove it": {others: []Migration{{Generation: 1,
			Completed: 1}, theirs}},
		"another one is paused, and there is none of ours": {others: []Migration{{Generation: 1, Held: true}}},
		"another one is paused, and ours is not": {own: ours,
			others: []Migration{{Generation: 1, Held: true}}, want: 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := Looked(s, look("b", "h2").with(func(l *Look) { l.Own, l.Others, l.CRD = test.own, test.others, test.crd }))
			if d.Request != test.want || (d.Request == 0) != (d.Reason == "") {
				t.Errorf("request %d because %q, want %d", d.Request, d.Reason, test.want)
			}
		})
	}
}

func TestNothingIsRewrittenWhereServersCanDecodeOneVersionOnly(t *testing.T) {
	only := func(l *Look) { l.OnlyDecodable, l.Settled = true, true }
	fresh := look("a", "h1", "b", "h1")
	assumed := First(fresh.with(only)).State
	proof := func(l *Look) {
		l.Own = Migration{Generation: 5, Completed: 5, Proof: &Proof{Start: 2001, Epoch: *l.Epoch}}
	}
	for name, test := range map[string]struct {
		state     State // nothing recorded: a first look
		look      Look
		persisted []string
		assumed   bool
		request   int64
		doubt     bool
	}{
		"at the first look": {look: fresh.with(only), persisted: []string{"h1"}, assumed: true, doubt: true},
		"it is not assumed before the epoch has settled, and nothing is requested": {
			look: fresh.with(func(l *Look) { l.OnlyDecodable = true }), persisted: []string{Unknown, "h1"}, doubt: true,
		},
		"where one server can decode more, a migration is needed": {
			look: fresh.with(func(l *Look) { l.Settled = true }), persisted: []string{Unknown, "h1"},
			request: 5, doubt: true,
		},
		"a version that someone wrote stays, and a migration is asked for": {
			state: recorded(look("c", "h2", "d", "h2")), look: fresh.with(only),
			persisted: []string{"h2", "h1"}, request: 5,
		},
		"while servers disagree nothing is assumed": {
			look: look("a", "h1", "b", "h2").with(only), persisted: []string{Unknown, "h1", "h2"}, doubt: true,
		},
		"it lasts": {state: assumed, look: fresh.with(only), persisted: []string{"h1"}, assumed: true},
		"a server that has just come declares nothing yet": {
			state: assumed, look: look("a", "h1", "c", "h1"), persisted: []string{"h1"}, assumed: true,
		},
		"after a downgrade more can be decoded: the stored versions are unknown": {
			state: assumed, look: look("a", "h1", "c", "h1").with(func(l *Look) { l.Settled = true }),
			persisted: []string{"h1", Unknown}, request: 5, doubt: true,
		},
		"after a downgrade to another version that is known, too": {
			state: assumed, look: look("c", "h0").with(func(l *Look) { l.Settled = true }),
			persisted: []string{"h1", "h0", Unknown}, request: 5, doubt: true,
		},
		"a migration that succeeds nevertheless is a proof": {state: assumed, look: fresh.with(only).with(proof),
			persisted: []string{"h1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Looked(test.state, test.look)
			if diff := cmp.Diff(test.persisted, d.State.Persisted); diff != "" {
				t.Errorf("persisted (-want +got):\n%s", diff)
			}
			if d.State.OnlyDecodable != test.assumed || d.Request != test.request || (d.Doubt != "") != test.doubt {
				t.Errorf("assumed %t, request %d, doubt %q; want %t, %d, doubt %t", d.State.OnlyDecodable, d.Request,
					d.Doubt, test.assumed, test.request, test.doubt)
			}
		})
	}
}
