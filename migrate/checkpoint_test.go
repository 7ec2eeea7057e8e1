// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// etcd is a model of what is stored: by key, in which version and since which revision.
type etcd struct {
	revision uint64
	objects  map[string]value
}

type value struct {
	revision uint64
	version  string
}

func (e *etcd) write(key, version string) {
	e.revision++
	e.objects[key] = value{e.revision, version}
}

// somebody creates, changes or deletes objects; each write is in the version that the given function says.
func (e *etcd) somebody(t *rapid.T, who string, version func() string) {
	for range rapid.IntRange(0, 3).Draw(t, who) {
		key := fmt.Sprintf("ns/%d", rapid.IntRange(0, 9).Draw(t, "key"))
		if e.revision++; rapid.IntRange(0, 3).Draw(t, "deletes") == 0 {
			delete(e.objects, key)
		} else {
			e.write(key, version())
		}
	}
}

func (e *etcd) list() []object {
	var list []object
	for _, key := range slices.Sorted(maps.Keys(e.objects)) {
		list = append(list, object{namespace: "ns", name: key[3:], resourceVersion: fmt.Sprint(e.objects[key].revision)})
	}
	return list
}

// The model: passes that are cut short, servers that write another version between epochs, and one that does so at the end of an epoch,
// unseen until then, while the sweep's own patches may reach it. What a checkpoint calls current is stored in the version of the present
// hash, and so is everything when a pass ends (I1, I2, I5).
func TestNothingIsCalledCurrentThatWasWrittenInAnotherVersion(t *testing.T) {
	skipped, prefixed, proven := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		e := etcd{revision: 1, objects: map[string]value{}}
		anyVersion := func() string { return rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version") }
		for i := range 10 {
			e.write(fmt.Sprintf("ns/%d", i), "v1")
		}
		var c Checkpoint
		for range rapid.IntRange(1, 6).Draw(t, "epochs") {
			hash := rapid.SampledFrom([]string{"v1", "v2", "v2"}).Draw(t, "hash")
			e.somebody(t, "before the epoch settled", anyVersion)
			c.begin(Epoch{Hash: hash, Servers: []string{fmt.Sprint(e.revision)}, Evidence: Observed})
			c.Baseline, c.Confirmed = e.revision, e.revision

			intruder := false // a server that writes what it likes
			version := func() string {
				if intruder {
					return anyVersion()
				}
				return hash
			}
			var trail []sighting
			newest, last, whole := e.revision, "", true
			for rest := e.list(); len(rest) > 0 && whole; {
				objects := rest[:min(len(rest), rapid.IntRange(1, 4).Draw(t, "page"))]
				rest = rest[len(objects):]
				for _, o := range objects {
					e.somebody(t, "meanwhile", version)
					if c.current(o) {
						skipped++
						if c.Prefix.covers(hash, o.key(), number(o.resourceVersion)) {
							prefixed++
						}
						continue
					}
					stored, ok := e.objects[o.key()]
					switch v := version(); {
					case rapid.IntRange(0, 20).Draw(t, "fails") == 0:
						c.Counts.Failed++
					case ok && stored.version != v:
						e.write(o.key(), v)
						newest = e.revision
					case ok:
						newest = max(newest, stored.revision)
					}
					if whole = rapid.IntRange(0, 30).Draw(t, "dies") > 0; !whole {
						break
					}
				}
				if !whole {
					break
				}
				last = c.done(last, objects)
				if s := (sighting{newest: newest, done: c.Done}); !intruder {
					trail = append(trail, s)
				}
				if rapid.Bool().Draw(t, "looked") {
					for _, s := range trail {
						c.confirm(s)
					}
					trail = nil
				}
				intruder = intruder || rapid.IntRange(0, 8).Draw(t, "intruder") == 0
				if intruder {
					continue
				}
				for _, o := range e.list() {
					if c.current(o) && e.objects[o.key()].version != hash {
						t.Fatalf("%s at %s is stored as %s and is called current for %s: %+v", o.key(), o.resourceVersion, e.objects[o.key()].version, hash, c)
					}
				}
			}
			if whole && !intruder && c.Counts.Failed == 0 {
				proven++
				for key, v := range e.objects {
					if v.version != hash {
						t.Fatalf("%s is stored as %s at the end of a pass for %s: %+v", key, v.version, hash, c)
					}
				}
			}
		}
	})
	if skipped == 0 || prefixed == 0 || proven == 0 {
		t.Errorf("%d objects were skipped, %d of them because of a prefix, and %d passes ended: the model is of no use", skipped, prefixed, proven)
	}
}

func TestAPrefixKnowsWhatLiesBetweenTwoRanges(t *testing.T) {
	at := func(name string, rv int) object {
		return object{namespace: "n", name: name, resourceVersion: fmt.Sprint(rv)}
	}
	epoch := func(server string) Epoch { return Epoch{Hash: "v2", Servers: []string{server}, Evidence: Observed} }
	var c Checkpoint
	c.begin(epoch("a"))
	c.Baseline, c.Confirmed = 100, 100
	// b was written by the first pass after its last confirmation, at 150, and is current: the second pass leaves it where it is.
	c.begin(epoch("b"))
	c.Baseline, c.Confirmed = 200, 200
	if c.current(at("b", 150)) {
		t.Error("what was not confirmed is current")
	}
	last := c.done("", []object{at("a", 50), at("b", 150)})
	c.confirm(sighting{newest: 210, done: c.Done})
	c.done(last, []object{at("c", 160)}) // never confirmed
	c.begin(epoch("c"))
	c.Baseline = 300
	for name, tt := range map[string]struct {
		o    object
		want bool
	}{
		"within the prefix":             {at("b", 150), true},
		"written since":                 {at("b", 250), false},
		"behind the prefix":             {at("c", 160), false},
		"created since":                 {at("aa", 220), false},
		"the first of the other prefix": {object{namespace: "n-1", name: "a", resourceVersion: "150"}, true}, // n-1/a sorts before n/a
		"in this epoch":                 {at("z", 301), true},
	} {
		if got := c.current(tt.o); got != tt.want {
			t.Errorf("%s: current = %t, want %t", name, got, tt.want)
		}
	}
	c.done("", []object{at("a", 50)})
	c.confirm(sighting{newest: 310, done: c.Done})
	c.begin(epoch("d"))
	if want := (Prefix{Hash: "v2", Key: "n/b", ResourceVersion: 210}); c.Prefix != want {
		t.Errorf("after a pass that came less far the prefix is %+v, want %+v", c.Prefix, want)
	}
}

func TestAFailureOrAListOutOfOrderEndsThePrefix(t *testing.T) {
	at := func(name string) object { return object{name: name, resourceVersion: "50"} }
	c := Checkpoint{Counts: Counts{Failed: 1}}
	if c.done("", []object{at("a")}); c.Done != "" {
		t.Errorf("done = %q although an object failed", c.Done)
	}
	c = Checkpoint{Prefix: Prefix{Hash: "v2", Key: "z", ResourceVersion: 9}}
	c.begin(Epoch{Hash: "v2", Evidence: Observed})
	c.Baseline = 100
	last := c.done("", []object{at("a"), at("c")})
	before := sighting{newest: 110, done: c.Done}
	c.done(last, []object{at("b")})
	c.confirm(before)
	c.begin(Epoch{Hash: "v2", Servers: []string{"a"}, Evidence: Observed})
	if c.Prefix != (Prefix{}) {
		t.Errorf("the prefix is %+v although lists are not in order", c.Prefix)
	}
}

func TestAnEpochThatNobodyFollowedIsOver(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		epoch Epoch
		seen  time.Time
		want  bool
	}{
		"a moment ago":                     {Epoch{}, now.Add(-time.Second), true},
		"by a clock that is a bit ahead":   {Epoch{}, now.Add(time.Second), true},
		"too long ago":                     {Epoch{}, now.Add(-maxBlind), false},
		"by a clock that nobody can trust": {Epoch{}, now.Add(maxBlind), false},
		"never":                            {Epoch{}, time.Time{}, false},
		"a definition tells":               {Epoch{CRDUID: "u"}, now.Add(-time.Hour), true},
	} {
		c := Checkpoint{Begun: true, Epoch: tt.epoch, Seen: tt.seen}
		if got := c.inEpoch(tt.epoch, now); got != tt.want {
			t.Errorf("%s: in the epoch %t, want %t", name, got, tt.want)
		}
	}
}
