// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// etcd is a model of what is stored: by key, in which version and since which revision.
type etcd struct {
	revision uint64
	writes   int // in all histories
	objects  map[string]value
	backup   *etcd
}

type value struct {
	revision uint64
	version  string
	uid      types.UID
	owners   digest
}

func (e *etcd) write(key, version string) {
	e.revision++
	e.writes++
	uid := e.objects[key].uid
	if uid == "" {
		uid = types.UID(fmt.Sprint(e.writes))
	}
	e.objects[key] = value{e.revision, version, uid, digest(e.writes)}
}

// backUp makes a backup, and restore goes back to it: its revision catches up at once, as with etcdutl's
// --bump-revision, by little or by much.
func (e *etcd) backUp() {
	e.backup = &etcd{revision: e.revision, objects: maps.Clone(e.objects)}
}

func (e *etcd) restore(bump uint64) {
	e.revision, e.objects = e.backup.revision+bump, maps.Clone(e.backup.objects)
}

// read is what a GET answers: the zero object for one that is gone.
func (e *etcd) read(w witness) object {
	v, ok := e.objects[w.object().key()]
	if !ok {
		return object{}
	}
	return object{uid: v.uid, resourceVersion: fmt.Sprint(v.revision), owners: v.owners}
}

// others create, changes or deletes objects; each write is in the version that the given function says.
func (e *etcd) others(draw *rand.Rand, version func() string) {
	for range draw.IntN(4) {
		key := fmt.Sprintf("ns/%d", draw.IntN(10))
		if e.revision++; draw.IntN(4) == 0 {
			delete(e.objects, key)
		} else {
			e.write(key, version())
		}
	}
}

func (e *etcd) list() []object {
	var list []object
	for _, key := range slices.Sorted(maps.Keys(e.objects)) {
		v := e.objects[key]
		list = append(list, object{namespace: "ns", name: key[3:], uid: v.uid, resourceVersion: fmt.Sprint(v.revision)})
	}
	return list
}

// The model: passes that are cut short, servers that write another version between epochs, and one that does so at the
// end of an epoch, unseen until then, while the sweep's own patches may reach it. Between two epochs etcd may be
// restored from a backup, with a revision that is greater than before or not. What a checkpoint calls current is stored
// in the version of the present hash, and so is everything when a pass ends (I1, I2, I4, I5). Each seed is a history.
func TestNothingIsCalledCurrentThatWasWrittenInAnotherVersion(t *testing.T) {
	const histories = 1000
	skipped, prefixed, proven, restored, unseen := 0, 0, 0, 0, 0
	for seed := range uint64(histories) {
		draw := rand.New(rand.NewPCG(seed, 0))
		e := etcd{revision: 1, objects: map[string]value{}}
		anyVersion := func() string { return []string{"v1", "v2"}[draw.IntN(2)] }
		for i := range 10 {
			e.write(fmt.Sprintf("ns/%d", i), "v1")
		}
		var c checkpoint
		for range 1 + draw.IntN(6) {
			hash := []string{"v1", "v2", "v2"}[draw.IntN(3)]
			e.others(draw, anyVersion)
			c.end()
			if e.backup != nil && draw.IntN(3) == 0 {
				e.restore([]uint64{0, 3, 50}[draw.IntN(3)])
				e.others(draw, anyVersion)
				restored++
			}
			var said testimony
			for _, w := range c.Witnesses {
				said.hear(w, e.read(w))
			}
			if said.restored != nil {
				c.forget()
			} else if c.believe(said.upTo); said.upTo > 0 && restored > 0 {
				unseen++
			}
			if draw.IntN(3) == 0 {
				e.backUp()
			}
			c.begin(Epoch{Hash: hash, Servers: []string{fmt.Sprint(e.revision)}, Evidence: Observed})
			c.Baseline, c.Confirmed = e.revision, e.revision

			intruder := false // a server that writes what it likes
			version := func() string {
				if intruder {
					return anyVersion()
				}
				return hash
			}
			var trail []position
			var candidate witness
			newest, last, whole := e.revision, "", true
			for rest := e.list(); len(rest) > 0 && whole; {
				objects := rest[:min(len(rest), 1+draw.IntN(4))]
				rest = rest[len(objects):]
				gone := false
				for _, o := range objects {
					e.others(draw, version)
					if c.current(o) {
						skipped++
						if c.Prefix.covers(hash, o.key(), number(o.resourceVersion)) {
							prefixed++
						}
						continue
					}
					stored, ok := e.objects[o.key()]
					gone = gone || !ok
					switch v := version(); {
					case draw.IntN(21) == 0:
						c.Counts.Failed++
					case ok && stored.version != v:
						e.write(o.key(), v)
						newest = e.revision
					case ok:
						newest = max(newest, stored.revision)
					}
					if now, ok := e.objects[o.key()]; ok && now.revision > candidate.ResourceVersion {
						candidate = witness{Namespace: "ns", Name: o.name, UID: now.uid, ResourceVersion: now.revision,
							Owners: uint64(now.owners)}
					}
					if whole = draw.IntN(31) > 0; !whole {
						break
					}
				}
				if !whole {
					break
				}
				if gone {
					newest = e.revision
				}
				c.Witnesses = addWitness(c.Witnesses, candidate)
				last = c.done(last, objects, newest)
				if s := (position{newest: newest, done: c.Done, doneAt: c.DoneAt}); !intruder {
					trail = append(trail, s)
				}
				if draw.IntN(2) == 0 {
					for _, s := range trail {
						c.confirm(s)
					}
					trail = nil
				}
				intruder = intruder || draw.IntN(9) == 0
				if intruder {
					continue
				}
				for _, o := range e.list() {
					if c.current(o) && e.objects[o.key()].version != hash {
						t.Fatalf("seed %d: %s at %s is stored as %s and is called current for %s: %+v", seed, o.key(),
							o.resourceVersion, e.objects[o.key()].version, hash, c)
					}
				}
			}
			if whole && !intruder && c.Counts.Failed == 0 {
				proven++
				for key, v := range e.objects {
					if v.version != hash {
						t.Fatalf("seed %d: %s is stored as %s at the end of a pass for %s: %+v", seed, key, v.version, hash, c)
					}
				}
			}
		}
	}
	t.Logf("%d objects skipped, %d of them because of a prefix, %d passes ended, %d restores, witnesses vouched %d "+
		"times afterwards",
		skipped, prefixed, proven, restored, unseen)
	if skipped == 0 || prefixed == 0 || proven == 0 || restored == 0 || unseen == 0 {
		t.Error("something of this did not happen: the model is of no use")
	}
}

func TestAPrefixKnowsWhatLiesBetweenTwoRanges(t *testing.T) {
	at := func(name string, rv int) object {
		return object{namespace: "n", name: name, resourceVersion: fmt.Sprint(rv)}
	}
	epoch := func(server string) Epoch { return Epoch{Hash: "v2", Servers: []string{server}, Evidence: Observed} }
	var c checkpoint
	c.begin(epoch("a"))
	c.Baseline, c.Confirmed = 100, 100
	// b was written by the first pass after its last confirmation, at 150, and is current: the second pass leaves it
	// where it is.
	c.begin(epoch("b"))
	c.Baseline, c.Confirmed = 200, 200
	if c.current(at("b", 150)) {
		t.Error("what was not confirmed is current")
	}
	last := c.done("", []object{at("a", 50), at("b", 150)}, 205)
	c.confirm(position{newest: 210, done: c.Done, doneAt: c.DoneAt})
	c.done(last, []object{at("c", 160)}, 215) // never confirmed
	c.begin(epoch("c"))
	c.Baseline = 300
	for name, tt := range map[string]struct {
		o    object
		want bool
	}{
		"within the prefix": {at("b", 150), true},
		"written since":     {at("b", 250), false},
		"behind the prefix": {at("c", 160), false},
		"created since":     {at("aa", 220), false},
		// n-1/a sorts before n/a
		"the first of the other prefix": {object{namespace: "n-1", name: "a", resourceVersion: "150"}, true},
		"in this epoch":                 {at("z", 301), true},
	} {
		if got := c.current(tt.o); got != tt.want {
			t.Errorf("%s: current = %t, want %t", name, got, tt.want)
		}
	}
	c.done("", []object{at("a", 50)}, 305)
	c.confirm(position{newest: 310, done: c.Done})
	c.begin(epoch("d"))
	if want := (goodPrefix{Hash: "v2", Key: "n/b", ResourceVersion: 210, Reached: 205}); c.Prefix != want {
		t.Errorf("after a pass that came less far the prefix is %+v, want %+v", c.Prefix, want)
	}
}

func TestAFailureOrAListOutOfOrderEndsThePrefix(t *testing.T) {
	at := func(name string) object { return object{name: name, resourceVersion: "50"} }
	c := checkpoint{Counts: Counts{Failed: 1}}
	if c.done("", []object{at("a")}, 60); c.Done != "" {
		t.Errorf("done = %q although an object failed", c.Done)
	}
	c = checkpoint{Prefix: goodPrefix{Hash: "v2", Key: "z", ResourceVersion: 9}}
	c.begin(Epoch{Hash: "v2", Evidence: Observed})
	c.Baseline = 100
	last := c.done("", []object{at("a"), at("c")}, 105)
	before := position{newest: 110, done: c.Done}
	c.done(last, []object{at("b")}, 106)
	c.confirm(before)
	c.begin(Epoch{Hash: "v2", Servers: []string{"a"}, Evidence: Observed})
	if c.Prefix != (goodPrefix{}) {
		t.Errorf("the prefix is %+v although lists are not in order", c.Prefix)
	}
}

func TestAnEpochThatNoOneFollowedIsOver(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		epoch Epoch
		seen  time.Time
		want  bool
	}{
		"a moment ago":                      {Epoch{}, now.Add(-time.Second), true},
		"by a clock that is a bit ahead":    {Epoch{}, now.Add(time.Second), true},
		"too long ago":                      {Epoch{}, now.Add(-maxBlind), false},
		"by a clock that cannot be trusted": {Epoch{}, now.Add(maxBlind), false},
		"never":                             {Epoch{}, time.Time{}, false},
		"the generation of a CRD shows it":  {Epoch{CRDUID: "u"}, now.Add(-time.Hour), true},
	} {
		c := checkpoint{Begun: true, Epoch: tt.epoch, LookedAt: tt.seen}
		if got := c.inEpoch(tt.epoch, now); got != tt.want {
			t.Errorf("%s: in the epoch %t, want %t", name, got, tt.want)
		}
	}
}

// Failures beyond those that are kept by name cannot be tried again one by one: only a new pass finds the objects.
func TestFailuresThatWereNotKeptByNameForceANewPass(t *testing.T) {
	f := &scripted{n: 3, resourceVersion: "1000"}
	store := &memoryCheckpoints{}
	if _, err := sweepOf(t, f, nil, Options{Checkpoints: store}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := store.read()
	if err != nil {
		t.Fatal(err)
	}
	c.Complete, c.FailuresOmitted, c.Counts = false, 1, Counts{Rewritten: 2, Failed: 1}
	c.Prefix, c.Ranges = goodPrefix{}, nil
	if err := store.write(c); err != nil {
		t.Fatal(err)
	}
	result, err := sweepOf(t, f, nil, Options{Checkpoints: store, Resume: true}).Run(t.Context())
	if err != nil || !result.Proven || result.Restarts != 1 || result.Counts.Done() != 3 || result.Counts.Failed != 0 {
		t.Errorf("%d restarts, counts %+v, proven %t (%v), want a new pass over all 3 objects (I4)", result.Restarts,
			result.Counts, result.Proven, err)
	}
}

func TestALookThatEndsAfterThePassAddsNothingToTheNextOne(t *testing.T) {
	var c checkpoint
	c.begin(Epoch{Hash: "v2", Evidence: Observed})
	c.forget()
	c.confirm(position{newest: 900, done: "n/z", doneAt: 800}) // of before
	c.begin(Epoch{Hash: "v2", Servers: []string{"b"}, Evidence: Observed})
	if c.ConfirmedDone != "" || c.Confirmed != 0 {
		t.Errorf("the new pass is confirmed up to %q and %d although it has not begun to list",
			c.ConfirmedDone, c.Confirmed)
	}
}
