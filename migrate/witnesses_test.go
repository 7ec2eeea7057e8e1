// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

func TestWhatAWitnessProves(t *testing.T) {
	left := witness{Namespace: "n", Name: "a", UID: "u", ResourceVersion: 100, Owners: 7}
	for name, tt := range map[string]struct {
		found    object
		upTo     uint64
		restored bool
	}{
		"as it was left":                        {object{uid: "u", resourceVersion: "100", owners: 7}, 100, false},
		"older":                                 {object{uid: "u", resourceVersion: "99", owners: 7}, 0, true},
		"an older object that had been deleted": {object{uid: "before", resourceVersion: "50", owners: 7}, 0, true},
		"written since":                         {object{uid: "u", resourceVersion: "101", owners: 8}, 0, false},
		"deleted since":                         {object{}, 0, false},
		"created again":                         {object{uid: "after", resourceVersion: "120", owners: 8}, 0, false},
		"the same number by chance, at another time": {object{uid: "u",
			resourceVersion: "100", owners: 8}, 0, false},
		"the same number by chance, of another object": {object{uid: "after",
			resourceVersion: "100", owners: 7}, 0, false},
		"of an API server that does not answer numbers": {object{uid: "u", resourceVersion: "x", owners: 7}, 0, false},
	} {
		var got testimony
		got.hear(left, tt.found)
		if got.upTo != tt.upTo || (got.restored != nil) != tt.restored {
			t.Errorf("%s: up to %d, restored %t; want %d, %t", name, got.upTo,
				got.restored != nil, tt.upTo, tt.restored)
		}
	}
}

func TestWhatIsBelievedEndsWhereTheWitnessesEnd(t *testing.T) {
	epoch := Epoch{Hash: "v2", Servers: []string{"a"}, Evidence: Observed}
	known := checkpoint{
		Begun: true, Epoch: epoch, Baseline: 500, Confirmed: 600, Continue: "token", Counts: Counts{Rewritten: 7},
		Ranges:    []goodRange{{"v2", 10, 100}, {"v2", 150, 250}, {"v2", 300, 400}},
		Prefix:    goodPrefix{Hash: "v2", Key: "n/k", ResourceVersion: 260, Reached: 180},
		Witnesses: []witness{{Name: "w", UID: "u", ResourceVersion: 400}},
	}
	forgotten := checkpoint{Epoch: epoch, Counts: Counts{RewrittenBefore: 7}, Restarts: 1}
	for name, tt := range map[string]struct {
		upTo uint64
		want func(c *checkpoint)
	}{
		"all of it": {400, func(*checkpoint) {}},
		"a range and the prefix up to where history is common": {200, func(c *checkpoint) {
			c.Ranges = []goodRange{{"v2", 10, 100}, {"v2", 150, 200}}
			c.Prefix.ResourceVersion = 200
		}},
		"no prefix that rests on what came later": {179, func(c *checkpoint) {
			c.Ranges = []goodRange{{"v2", 10, 100}, {"v2", 150, 179}}
			c.Prefix = goodPrefix{}
		}},
		"nothing without a witness": {0, func(c *checkpoint) { *c = forgotten }},
	} {
		got, want := known, known
		got.believe(tt.upTo)
		tt.want(&want)
		if diff := compare.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWitnessesAreFewAndSpread(t *testing.T) {
	var kept []witness
	for i := uint64(1); i <= 1000; i++ {
		kept = addWitness(kept, witness{UID: "u", ResourceVersion: i * 10})
	}
	if len(kept) != maxWitnesses || kept[0].ResourceVersion != 10 {
		t.Fatalf("%d witnesses from %d on, want %d from the first on (I6)", len(kept),
			kept[0].ResourceVersion, maxWitnesses)
	}
	for i := range latestWitnesses {
		if got, want := kept[len(kept)-1-i].ResourceVersion, uint64(10000-10*i); got != want {
			t.Errorf("witness %d from the end is at %d, want %d: the latest pages each have one", i, got, want)
		}
	}
	for i := 1; i < len(kept); i++ {
		if gap := kept[i].ResourceVersion - kept[i-1].ResourceVersion; gap > 10000/maxWitnesses*3 {
			t.Errorf("no witness between %d and %d", kept[i-1].ResourceVersion, kept[i].ResourceVersion)
		}
	}
	for name, w := range map[string]witness{"without a UID": {ResourceVersion: 20000},
		"that is not newer": {UID: "u", ResourceVersion: 10000}} {
		if got := addWitness(kept, w); len(got) != len(kept) || got[len(got)-1] != kept[len(kept)-1] {
			t.Errorf("a witness %s was added", name)
		}
	}
}

// restoreFromBackup brings back etcd as it was before the sweep: each object is older than the sweep left it. The
// resourceVersion of the collection has caught up, or was bumped.
func (f *scripted) restoreFromBackup() {
	f.stored.Clear()
	f.resourceVersion = "900000"
}

// A restore that the epoch does not show: the API servers were not restarted, or look the same.
func TestARestoreUnderThePassIsNoticedBeforeTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5
		f := &scripted{n: n, resourceVersion: "1000"}
		var restored, settled time.Time
		f.patch = func(string, http.ResponseWriter) bool {
			if !restored.IsZero() && settled.IsZero() {
				settled = time.Now()
			}
			return false
		}
		agreement := func() (Epoch, error) {
			if f.patches.Load() == n && restored.IsZero() {
				restored = time.Now()
				f.restoreFromBackup()
			}
			return lastingFrom(time.Now().Add(-time.Hour)), nil
		}
		result, err := virtualSweep(t, f, agreement, Options{}).Run(t.Context())
		if err != nil || !result.Proven || f.patches.Load() != 2*n || result.Restarts != 1 {
			t.Errorf("%d patches, %d restarts, proven %t (%v), want all %d objects rewritten again", f.patches.Load(),
				result.Restarts, result.Proven, err, n)
		}
		if waited := settled.Sub(restored); waited < DefaultSettleTime {
			t.Errorf("the new pass began %v after the restore, want it to wait for the settle time (I2)", waited)
		}
	})
}

func lastingFrom(since time.Time) Epoch {
	e := lasting
	e.Since = since
	return e
}

// The histories that a run which resumes meets: what it takes over was true before a restore.
func TestNothingIsTakenOverFromBeforeARestore(t *testing.T) {
	const n = 5
	for name, tt := range map[string]struct {
		meanwhile func(f *scripted)
		after     []string // the API servers
		patches   int64
	}{
		"nothing happened": {func(*scripted) {}, lasting.Servers, 0},
		"restored, the epoch looks the same": {
			func(f *scripted) { f.restoreFromBackup() }, lasting.Servers, n,
		},
		"restored, the API servers were restarted": {
			func(f *scripted) { f.restoreFromBackup() }, []string{"b"}, n,
		},
		"no object is as it was left": {
			func(f *scripted) {
				for i := range n {
					f.stored.Store(fmt.Sprintf("o%d", i), "3000")
				}
			}, lasting.Servers, n,
		},
		"the collection is older than what was read": { // and the witness was written before the backup
			func(f *scripted) {
				f.stored.Clear()
				f.stored.Store("o0", "2000")
				f.resourceVersion = "0"
			}, lasting.Servers, n,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &scripted{n: n, resourceVersion: "1000"}
				store := &memoryCheckpoints{}
				since := time.Now().Add(-time.Hour)
				now := lastingFrom(since)
				agreement := func() (Epoch, error) { return now, nil }
				if _, err := virtualSweep(t, f, agreement, Options{Checkpoints: store}).Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if name == "the collection is older than what was read" {
					c, _ := store.read()
					c.Confirmed = 2500
					if err := store.write(c); err != nil {
						t.Fatal(err)
					}
				}
				f.patches.Store(0)
				tt.meanwhile(f)
				now.Servers = tt.after
				result, err := virtualSweep(t, f, agreement, Options{Checkpoints: store, Resume: true}).Run(t.Context())
				if err != nil || !result.Proven || f.patches.Load() != tt.patches {
					t.Errorf("%d patches, proven %t (%v), want %d patches", f.patches.Load(),
						result.Proven, err, tt.patches)
				}
			})
		})
	}
}

// restarting is the agreement of API servers that are restarted once, when it is time; do happens meanwhile.
func restarting(isTime func() bool, do func()) agreementFunc {
	since, restarted := time.Now().Add(-time.Hour), false
	return func() (Epoch, error) {
		if !restarted && isTime() {
			since, restarted = time.Now(), true
			do()
		}
		e := lastingFrom(since)
		e.Servers = []string{fmt.Sprint("restarted ", restarted)}
		return e, nil
	}
}

// Within one run: the API servers are restarted with etcd, which ends the epoch. What the pass before has rewritten,
// and what was confirmed since, is not skipped unless a witness vouches for it.
func TestARunThatLivesThroughARestoreRewritesEverythingAgain(t *testing.T) {
	const n, slow = 5, 20 * time.Second
	for name, tt := range map[string]struct {
		restore func(f *scripted)
		patches int64
	}{
		"not restored":               {func(*scripted) {}, n},
		"the revision was bumped":    {(*scripted).restoreFromBackup, 2 * n},
		"the revision went backward": {func(f *scripted) { f.stored.Clear(); f.resourceVersion = "500" }, 2 * n},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &scripted{n: n, resourceVersion: "1000"}
				var held time.Time
				f.patch = func(string, http.ResponseWriter) bool {
					if f.patches.Load() == n {
						held = time.Now()
						time.Sleep(slow)
					}
					return false
				}
				agreement := restarting(func() bool { return !held.IsZero() && time.Since(held) > slow/2 },
					func() { tt.restore(f) })
				result, err := virtualSweep(t, f, agreement, Options{MaxInFlight: 1}).Run(t.Context())
				if err != nil || !result.Proven || f.patches.Load() != tt.patches {
					t.Errorf("%d patches, %d restarts, proven %t (%v), want %d patches", f.patches.Load(),
						result.Restarts, result.Proven, err, tt.patches)
				}
			})
		})
	}
}

// The backup was made after the last write of the sweep, so that each witness is as it was left; but the sweep has read
// newer resourceVersions.
func TestACollectionThatWentBackwardsIsNotBelieved(t *testing.T) {
	const n, slow = 5, 20 * time.Second
	for name, tt := range map[string]struct {
		collection string
		patches    int64
		restarts   int
	}{
		"it has gone on":    {"2600", n + 1, 1}, // the object that is gone is asked for again
		"it went backwards": {"2100", 2 * n, 2}, // API servers that were restarted, and what etcd has lost since
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &scripted{n: n, resourceVersion: "1000"}
				gone := func(w http.ResponseWriter) bool {
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"o3"},"code":404}`)
					return true
				}
				var held time.Time
				f.patch = func(name string, w http.ResponseWriter) bool {
					switch {
					case name == "o3":
						return gone(w)
					case held.IsZero() && name == "o4": // so that the others are confirmed
						held = time.Now()
						time.Sleep(slow)
						f.stored.Store(name, "2000")
						f.resourceVersion = "2500" // of the list that follows, because an object was gone
						fmt.Fprint(w, object1(name, "2000"))
						return true
					}
					return false
				}
				f.get = func(name string, w http.ResponseWriter) bool { return name == "o3" && gone(w) }
				agreement := restarting(
					func() bool { return !held.IsZero() && time.Since(held) > slow+2*time.Second },
					func() { f.resourceVersion = tt.collection },
				)
				result, err := virtualSweep(t, f, agreement, Options{MaxInFlight: 1}).Run(t.Context())
				if err != nil || !result.Proven || f.patches.Load() != tt.patches || result.Restarts != tt.restarts {
					t.Errorf("%d patches, %d restarts, proven %t (%v), want %d patches, %d restarts",
						f.patches.Load(), result.Restarts, result.Proven, err, tt.patches, tt.restarts)
				}
			})
		})
	}
}

func TestObjectsThatGoBackwardsAgainAndAgainEndTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &scripted{n: 3, resourceVersion: "1000"}
		f.get = func(name string, w http.ResponseWriter) bool { fmt.Fprint(w, object1(name, "5")); return true }
		agreement := func() (Epoch, error) { return lastingFrom(time.Now().Add(-time.Hour)), nil }
		result, err := virtualSweep(t, f, agreement, Options{}).Run(t.Context())
		if !errors.Is(err, ErrWentBackwards) || result.Proven {
			t.Errorf("proven %t (%v), want ErrWentBackwards", result.Proven, err)
		}
	})
}

// An aggregated API server may answer every list with the same resourceVersion. Each object then seems to be newer than
// the baseline.
func TestNumbersThatCannotBeComparedSkipNothing(t *testing.T) {
	for name, constant := range map[string]string{"less than those of objects": "1", "among those of objects": "11"} {
		t.Run(name, func(t *testing.T) {
			f := &scripted{n: 3, resourceVersion: constant}
			var items []string
			for i := range 3 {
				items = append(items, object1(fmt.Sprintf("o%d", i), fmt.Sprint(10+i)))
			}
			f.list = func(w http.ResponseWriter) bool {
				fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":%q},"items":[%s]}`, constant, strings.Join(items, ","))
				return true
			}
			result, err := sweepOf(t, f, nil, Options{}).Run(t.Context())
			if err != nil || f.patches.Load() != 3 || result.Counts.Rewritten != 3 {
				t.Errorf("%d patches, counts %+v (%v), want every object rewritten (I4)",
					f.patches.Load(), result.Counts, err)
			}
		})
	}
}

// A process may die right after it has seen that etcd was restored: the one that resumes waits for the settle time as
// well.
func TestARestoreThatADeadProcessSawIsSettledByTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &scripted{n: 3, resourceVersion: "1000"}
		store := &memoryCheckpoints{}
		seen := time.Now()
		if err := store.write(&checkpoint{Version: checkpointVersion, Resource: "configmaps",
			Restored: seen}); err != nil {
			t.Fatal(err)
		}
		var began time.Time
		f.patch = func(string, http.ResponseWriter) bool {
			if began.IsZero() {
				began = time.Now()
			}
			return false
		}
		agreement := func() (Epoch, error) { return lastingFrom(seen.Add(-time.Hour)), nil }
		result, err := virtualSweep(t, f, agreement, Options{Checkpoints: store, Resume: true}).Run(t.Context())
		if err != nil || !result.Proven || began.Sub(seen) < DefaultSettleTime {
			t.Errorf("the pass began %v after the restore, proven %t (%v), want it to wait for the settle time (I2)",
				began.Sub(seen), result.Proven, err)
		}
	})
}
