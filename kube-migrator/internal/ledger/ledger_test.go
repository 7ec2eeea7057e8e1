// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var names = map[string]string{"h0": "v0", "h1": "v1", "h2": "v2"}

// server returns one process: "a" that shows "h1". With the hash "?" it does not answer.
func server(process, hash string) Server {
	if hash == "?" {
		return Server{ID: process, Process: process}
	}
	return Server{ID: process, Process: process, Hash: hash, Answered: true}
}

// look returns a continuous look at servers, given as process and hash in turns. They agree if they show one hash.
func look(servers ...string) Look {
	l := Look{Started: noon, Traces: []string{"endpoints/1"}, Continuous: true, Names: names, Revisions: true}
	l.Collection = Collection{ResourceVersion: 100, Witness: Witness{UID: "w", ResourceVersion: 40}}
	l.Own, l.Moment = Migration{Generation: 4, Completed: 4, Started: true, Start: 1000}, 2000
	e := &EpochID{Hash: servers[1]}
	for i := 0; i < len(servers); i += 2 {
		l.Servers = append(l.Servers, server(servers[i], servers[i+1]))
		if e != nil {
			e.Processes = append(e.Processes, servers[i])
			if servers[i+1] != e.Hash || e.Hash == "?" {
				e = nil
			}
		}
	}
	l.Epoch = e
	return l
}

func (l Look) with(change func(*Look)) Look {
	change(&l)
	return l
}

// custom makes it a look at a custom resource whose CRD has hash as storage version at a generation.
func (l Look) custom(generation int64, hash string, stored ...string) Look {
	l.CRD = &CRD{UID: "uid", Generation: generation, Hash: hash, Stored: stored}
	if l.Epoch != nil {
		e := *l.Epoch
		e.UID, e.Generation = "uid", generation
		l.Epoch = &e
	}
	return l
}

// recorded returns the State after everything was proven at the look.
func recorded(l Look) State {
	s := First(l).State
	s.Persisted, s.After = []string{s.Current}, 900
	return s
}

func TestWhatIsRecordedAfterALook(t *testing.T) {
	settled := recorded(look("a", "h1", "b", "h1"))
	custom := recorded(look("a", "h1").custom(1, "h1"))
	running := func(l *Look) { l.Own = Migration{Generation: 5, Completed: 4, Started: true, Start: 1500} }
	for name, test := range map[string]struct {
		state     State
		look      Look
		persisted []string
		current   string
		request   int64
		reason    string
		doubt     bool
	}{
		"without a record anything may be stored": {
			look: look("a", "h1"), persisted: []string{Unknown, "h1"}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"without a record and without agreement nothing is requested yet": {
			look: look("a", "h1", "b", "h2"), persisted: []string{Unknown, "h1", "h2"}, current: Unknown, doubt: true,
		},
		"nothing happened": {
			state: settled, look: look("a", "h1", "b", "h1"), persisted: []string{"h1"}, current: "h1",
		},
		"a restarted server that shows the same hash requests nothing": {
			state: settled, look: look("a", "h1", "c", "h1"), persisted: []string{"h1"}, current: "h1",
		},
		"a server with another version is recorded": {
			state: settled, look: look("a", "h1", "b", "h1", "c", "h2"),
			persisted: []string{"h1", "h2"}, current: Unknown,
		},
		"a new storage version is recorded and requested": {
			state: settled, look: look("c", "h2"), persisted: []string{"h1", "h2"}, current: "h2", request: 5,
			reason: "storage version changed v1 → v2",
		},
		"a run that was already under way does not count for a later change": {
			state: settled, look: look("c", "h2").with(running), persisted: []string{"h1", "h2"}, current: "h2",
			request: 6, reason: "storage version changed v1 → v2",
		},
		"a return to a version that was recorded before": {
			state: Looked(settled, look("c", "h2")).State, look: look("d", "h1"), persisted: []string{"h1", "h2"},
			current: "h1", request: 5,
			reason: "objects may be stored in v2, the storage version is v1",
		},
		"a server that does not answer is what it was": {
			state: settled, look: look("a", "h1", "b", "?"), persisted: []string{"h1"}, current: "h1",
		},
		"a new server that does not answer may write anything": {
			state: settled, look: look("a", "h1", "b", "h1", "c", "?"), persisted: []string{"h1", Unknown},
			current: Unknown, doubt: true,
		},
		"a new server that still does not answer is not a new doubt": {
			state:     Looked(settled, look("a", "h1", "b", "h1", "c", "?")).State,
			look:      look("a", "h1", "b", "h1", "c", "?"),
			persisted: []string{"h1", Unknown}, current: Unknown,
		},
		"a new server that finally answers with the hash of the others": {
			state:     Looked(settled, look("a", "h1", "b", "h1", "c", "?")).State,
			look:      look("a", "h1", "b", "h1", "c", "h1"),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5, reason: "the stored versions are unknown",
		},
		"a server that leaves without ever having answered": {
			state: Looked(settled, look("a", "h1", "b", "h1", "c", "?")).State, look: look("a", "h1", "b", "h1"),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a server that came and went between two looks": {
			state: settled, look: look("a", "h1", "b", "h1").with(func(l *Look) { l.Passed = []string{"c"} }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a server that had answered and went": {
			state: settled, look: look("a", "h1").with(func(l *Look) { l.Passed = []string{"b"} }),
			persisted: []string{"h1"}, current: "h1",
		},
		"a process that shows another version of a built-in resource is another process": {
			state: settled, look: look("a", "h1", "b", "h2"), persisted: []string{"h1", "h2", Unknown},
			current: Unknown, doubt: true,
		},
		"no one watched, and the same servers live and left no trace": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Continuous = false; l.Started = noon.Add(30 * time.Minute) }),
			persisted: []string{"h1"}, current: "h1",
		},
		"no one watched, and the same servers live, but another left a trace": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Continuous = false; l.Traces = []string{"endpoints/3"} }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"no one watched, and traces cannot be read": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Continuous, l.Traces = false, nil }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"no one watched for a moment, and a server was restarted": {
			state: settled, look: look("a", "h1", "c", "h1").with(func(l *Look) { l.Continuous = false }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a CRD that was changed once": {
			state: custom, look: look("a", "h2").custom(2, "h2"), persisted: []string{"h1", "h2"}, current: "h2",
			request: 5, reason: "storage version changed v1 → v2",
		},
		"a CRD that was changed without changing the storage version": {
			state: custom, look: look("a", "h1").custom(2, "h1"), persisted: []string{"h1"}, current: "h1",
		},
		"there and back, seen": {
			state: custom, look: look("a", "h1").custom(3,
				"h1").with(func(l *Look) { l.CRDs = []CRD{{UID: "uid", Generation: 2, Hash: "h2"}} }),
			persisted: []string{"h1", "h2"}, current: "h1", request: 5,
			reason: "objects may be stored in v2, the storage version is v1",
		},
		"there and back, unseen": {
			state: custom, look: look("a", "h1").custom(3, "h1", "h1", "h2"),
			persisted: []string{"h1", "h2", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a CRD that was deleted and created again": {
			state: custom, look: look("a", "h1").custom(1, "h1").with(func(l *Look) { l.CRD.UID = "another" }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a CRD whose generation went backwards": {
			state: recorded(look("a", "h1").custom(7, "h1")), look: look("a", "h1").custom(6, "h1"),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a built-in resource that became a custom one": {
			state: settled, look: look("a", "h1", "b", "h1").custom(1, "h1"),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"no one watched, and processes may have left no trace": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Continuous = false; l.Traces = append(l.Traces, Untraced) }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"no one watched, and before that processes may have left no trace": {
			state: recorded(look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Traces = append(l.Traces, Untraced) })),
			look:      look("a", "h1", "b", "h1").with(func(l *Look) { l.Continuous = false }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a suspended process that came back may have been behind with the CRD": {
			state: custom, look: look("a", "h1", "b",
				"h1").custom(1, "h1").with(func(l *Look) { l.Servers[1].CameBack = true }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a suspended process that came back writes a built-in resource as it shows": {
			state: recorded(look("a", "h1")), look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Servers[1].CameBack = true }),
			persisted: []string{"h1"}, current: "h1",
		},
		"a collection that was not read is no older": {
			state: settled, look: look("a", "h1", "b", "h1").with(func(l *Look) { l.Collection = Collection{} }),
			persisted: []string{"h1"}, current: "h1",
		},
		"an object that went backwards while the collection did not": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) {
				l.Collection.ResourceVersion,
					l.Collection.Witness.ResourceVersion = 200, 39
			}),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"another object that is older": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Collection.Witness = Witness{UID: "another", ResourceVersion: 7} }),
			persisted: []string{"h1"}, current: "h1",
		},
		"a revision that rose by more than can be written": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Started = noon.Add(10 * time.Minute); l.Collection.ResourceVersion = 1e9 }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
		"a revision that rose by as much as a busy etcd writes": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Started = noon.Add(10 * time.Minute); l.Collection.ResourceVersion = 3e7 }),
			persisted: []string{"h1"}, current: "h1",
		},
		"a revision that rose much while this machine's clock went back": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Started = noon.Add(-time.Hour); l.Collection.ResourceVersion = 5e6 }),
			persisted: []string{"h1"}, current: "h1",
		},
		"resourceVersions that are not revisions may leap": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Revisions = false; l.Collection.ResourceVersion = 1e18 }),
			persisted: []string{"h1"}, current: "h1",
		},
		"an epoch whose hash a server does not show is not an agreement": {
			state: settled, look: look("a", "h1", "b",
				"h1").with(func(l *Look) { l.Servers[1].Process, l.Servers[1].Hash = "c", "h2" }),
			persisted: []string{"h1", "h2"}, current: Unknown,
		},
		"a collection that went backwards": {
			state: settled, look: look("a", "h1", "b", "h1").with(func(l *Look) { l.Collection.ResourceVersion = 99 }),
			persisted: []string{"h1", Unknown}, current: "h1", request: 5,
			reason: "the stored versions are unknown", doubt: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", test.state)
			d := Looked(test.state, test.look)
			if diff := cmp.Diff(test.persisted, d.State.Persisted); diff != "" {
				t.Errorf("persisted (-want +got):\n%s", diff)
			}
			if d.State.Current != test.current || d.Request != test.request || d.Reason != test.reason ||
				(d.Doubt != "") != test.doubt {
				t.Errorf("current %q, request %d because %q, doubt %q; want %q, %d, %q, %v",
					d.State.Current, d.Request, d.Reason, d.Doubt, test.current, test.request, test.reason, test.doubt)
			}
			if !d.State.Heartbeat.Equal(test.look.Started) {
				t.Errorf("heartbeat %v, want the beginning of the look, %v", d.State.Heartbeat, test.look.Started)
			}
			if after := fmt.Sprintf("%+v", test.state); after != before {
				t.Errorf("the record that was given was changed:\n%s\n%s", before, after)
			}
			again := Looked(test.state, test.look)
			if diff := cmp.Diff(d, again); diff != "" {
				t.Errorf("a decision that was lost is not made again (-first +second):\n%s", diff)
			}
		})
	}
}

func TestAResourceIsForgottenOnlyWhenItIsGone(t *testing.T) {
	builtIn, custom := recorded(look("a", "h1", "b", "h1")), recorded(look("a", "h1").custom(1, "h1"))
	for name, test := range map[string]struct {
		state State
		look  Look
		want  bool
	}{
		"every server answers and none serves it":      {builtIn, look("a", "", "b", ""), true},
		"one still serves it":                          {builtIn, look("a", "", "b", "h1"), false},
		"one does not answer":                          {builtIn, look("a", "", "b", "?"), false},
		"no one could be asked":                        {builtIn, Look{Started: noon}, false},
		"its CRD is gone":                              {custom, look("a", "h1"), true},
		"its CRD is there and no server serves it yet": {custom, look("a", "").custom(1, "h1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Looked(test.state, test.look); d.Forget != test.want {
				t.Errorf("forget %v, want %v", d.Forget, test.want)
			}
		})
	}
}

func TestAControllerThatIsBackTrustsOnlyWhatStayed(t *testing.T) {
	s := recorded(look("a", "h1"))
	if d := Returned(s, look("a", "h1")); !d.State.Migrated() {
		t.Errorf("the same servers without a new trace: persisted %v", d.State.Persisted)
	}
	if d := Returned(s, look("b", "h1")); d.Doubt == "" || d.Request != 5 {
		t.Errorf("a server was restarted meanwhile: doubt %q, request %d", d.Doubt, d.Request)
	}
}

func TestEtcdThatWasRestoredIsADoubtOnce(t *testing.T) {
	s := recorded(look("a", "h1"))
	older := look("a", "h1").with(func(l *Look) { l.Collection.ResourceVersion = 50 })
	d := Looked(s, older)
	if again := Looked(d.State, older); d.Doubt == "" || again.Doubt != "" {
		t.Errorf("first doubt %q, second %q", d.Doubt, again.Doubt)
	}
	if d := Looked(s, look("a", "h1").with(func(l *Look) { l.Restored = true })); d.Doubt == "" {
		t.Error("someone saw etcd go backwards, and it is no doubt")
	}
}

func TestWhatDoesNotFitIsUnknown(t *testing.T) {
	s := recorded(look("a", "h1"))
	for i := range 100 {
		s = Looked(s, look(fmt.Sprint("p", i), fmt.Sprint("x", i))).State
	}
	if n := len(s.Persisted); n != mostPersisted || s.Persisted[0] != Unknown || s.Persisted[n-1] != "x99" {
		t.Errorf("%d hashes: %v", n, s.Persisted)
	}
}

func TestWhatServersAreToldToWriteIsRecordedAtOnce(t *testing.T) {
	s := recorded(look("a", "h1").custom(1, "h1"))
	if !s.Migrated() {
		t.Fatalf("begins as %+v", s)
	}
	d := Told(s, "h2")
	if want := []string{"h1", "h2"}; !slices.Equal(d.State.Persisted, want) || d.State.Migrated() {
		t.Errorf("persisted %v, want %v", d.State.Persisted, want)
	}
	proof := []Proof{{Start: 2001, Epoch: *s.Epoch}}
	if f := Finished(d.State, proof, s.Collection); f.Refused == "" || len(f.State.Persisted) != 2 {
		t.Errorf("a proof about the epoch before trims to %v", f.State.Persisted)
	}
	again := recorded(look("a", "h1").custom(1, "h1"))
	again.Persisted = []string{"h1", "h2"} // being migrated to h1, and now told to write h2 again
	if f := Finished(Told(again, "h2").State, proof, s.Collection); f.Refused == "" {
		t.Errorf("a proof about the epoch before trims what was recorded already: %v", f.State.Persisted)
	}
	if again := Told(d.State, "h2"); len(again.State.Persisted) != 2 {
		t.Errorf("told twice: %v", again.State.Persisted)
	}
	if back := Looked(d.State, look("a", "h1").custom(3, "h1")); !slices.Contains(back.State.Persisted, "h2") {
		t.Errorf("after the flip back: %v", back.State.Persisted)
	}
}
