// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

var widgets = testbed.Kind{Group: "demo.example.com", Version: "v1", Kind: "Widget", Plural: "widgets",
	Prefix: "/registry/demo.example.com/widgets/"}

const (
	v1, v2  = "demo.example.com/v1", "demo.example.com/v2"
	state   = StatesPrefix + "widgets.demo.example.com"
	crd     = CRDsPrefix + "widgets.demo.example.com"
	request = MigrationsPrefix + "widgets.demo.example.com"
)

var (
	h1, h2  = widgets.Hash(v1), widgets.Hash(v2)
	morning = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
)

// world is one in which everything that is named was announced.
type world struct {
	creates, deletes string
	unseen           []string
	until            time.Time // nothing recorded before can be judged
	settling         bool
}

func (w *world) Unseen(_ testbed.Kind, look time.Time) ([]string, bool) {
	return w.unseen, look.Before(w.until)
}
func (w *world) Settling(testbed.Kind) bool { return w.settling }
func (w *world) Creates(key string) bool    { return strings.HasSuffix(key, w.creates) && w.creates != "" }
func (w *world) Deletes(key string) bool    { return strings.HasSuffix(key, w.deletes) && w.deletes != "" }

func key(name string) string { return widgets.Prefix + "default/" + name }

// widget is one as etcd holds it.
func widget(name, apiVersion, uid, stamp, color string) Change {
	return Change{Key: key(name), Value: fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":"Widget","metadata":{"name":%q,"uid":%q,"annotations":{%q:%q}},"spec":{"color":%q}}`,
		apiVersion, name, uid, Stamp, stamp, color)}
}

// recorded is a StorageState of a look at a generation of the CustomResourceDefinition; its first hash is the current
// one.
func recorded(at time.Time, uid string, generation int, migrated bool, hashes ...string) Change {
	condition := map[bool]string{true: "True", false: "False"}[migrated]
	return Change{Key: state, Value: fmt.Appendf(nil,
		`{"status":{"persistedStorageVersionHashes":["%s"],"currentStorageVersionHash":%q,"lastHeartbeatTime":%q,"definition":{"uid":%q,"generation":%d},`+
			`"conditions":[{"type":"Migrated","status":%q}]}}`,
		strings.Join(hashes, `","`), hashes[0], at.Format(time.RFC3339), uid, generation, condition)}
}

// defined is a CustomResourceDefinition whose last stored version is the storage version.
func defined(uid string, generation int, stored ...string) Change {
	return Change{Key: crd, Value: fmt.Appendf(nil,
		`{"metadata":{"uid":%q,"generation":%d},"spec":{"group":"demo.example.com","versions":[{"name":%q,"storage":true}]},"status":{"storedVersions":["%s"]}}`,
		uid, generation, stored[len(stored)-1], strings.Join(stored, `","`))}
}

// succeeded is a StorageVersionMigration whose run has succeeded.
func succeeded(generation, baseline, failed int, hash string) Change {
	return Change{Key: request, Value: fmt.Appendf(nil,
		`{"metadata":{"name":"widgets.demo.example.com","uid":"m"},"spec":{"generation":2,"resource":{"group":"demo.example.com","resource":"widgets"}},`+
			`"status":{"completedGeneration":%d,"resourceVersion":"%d","storageVersionHash":%q,"progress":{"failed":%d}}}`, generation, baseline, hash, failed)}
}

// failed is a StorageVersionMigration whose run has failed because of objects, some of which are named.
func failed(baseline, count int, hash string, names ...string) Change {
	var failures []string
	for _, name := range names {
		failures = append(failures, fmt.Sprintf(`{"namespace":"default","name":%q,"reason":"WouldLoseFields"}`, name))
	}
	return Change{Key: request, Value: fmt.Appendf(nil,
		`{"metadata":{"name":"widgets.demo.example.com","uid":"m"},"spec":{"generation":2,"resource":{"group":"demo.example.com","resource":"widgets"}},`+
			`"status":{"resourceVersion":"%d","storageVersionHash":%q,"progress":{"failed":%d},"failures":[%s],`+
			`"conditions":[{"type":"Failed","status":"True","reason":"ObjectsFailed"}]}}`,
		baseline, hash, count, strings.Join(failures, ","))}
}

// colourless is a widget without the field color.
func colourless(name, apiVersion, uid, stamp string) Change {
	c := widget(name, apiVersion, uid, stamp, "red")
	c.Value = []byte(strings.Replace(string(c.Value), `"color":"red"`, "", 1))
	return c
}

func TestTheJudge(t *testing.T) {
	// The beginning of every case, at revision 10: two objects in v1, which is all that is claimed.
	begin := []Change{defined("d", 1, "v1"), widget("a", v1, "ua", "0", "red"), widget("b", v1, "ub", "0", "red"),
		recorded(morning, "d", 1, true, h1)}
	for name, c := range map[string]struct {
		world   world
		changes []Change // of revision 11, 12, …
		want    []string // what each violation contains, in order
	}{
		"a writer's stamped change": {changes: []Change{widget("a", v1, "ua", "1", "blue")}},
		"an announced object": {world: world{creates: "c"},
			changes: []Change{widget("c", v1, "uc", "1", "red")}},
		"an announced deletion": {world: world{deletes: "a"}, changes: []Change{{Key: key("a")}}},
		"a change without a stamp": {changes: []Change{widget("a", v1, "ua", "0", "blue")},
			want: []string{"I3 violated: [content]"}},
		"another object in its place": {changes: []Change{widget("a", v1, "other", "1", "red")},
			want: []string{"I3 violated: [uid"}},
		"an object out of nothing": {changes: []Change{widget("c", v1, "uc", "1", "red")},
			want: []string{"I3 violated: " + key("c") + " was created"}},
		"an object that vanishes": {changes: []Change{{Key: key("a")}},
			want: []string{"I3 violated: " + key("a") + " was deleted"}},
		"an object that comes back": {
			world:   world{deletes: "a", creates: "a"},
			changes: []Change{{Key: key("a")}, widget("a", v1, "ua", "0", "red")},
			want:    []string{"I3 violated: " + key("a") + " was deleted and came back"},
		},
		"a value that is no object": {changes: []Change{{Key: key("a"), Value: []byte("{")}},
			want: []string{"I1 violated", "I2 violated", "I2 violated"}},

		"the storage version moves, and a record follows": {changes: []Change{
			defined("d", 2, "v1", "v2"), widget("a", v2, "ua", "0", "red"), recorded(morning, "d", 2, false, h2, h1),
			widget("b", v2, "ub", "0", "red"),
			defined("d", 2, "v2"), recorded(morning, "d", 2, true, h2),
		}},
		"a version that nothing accounts for": {
			changes: []Change{widget("a", v2, "ua", "0", "red")},
			want: []string{"I1 violated: etcd holds 1 objects as " + v2, "I2 violated: Migrated",
				"I2 violated: etcd holds"},
		},
		"a look at the newest generation has not recorded its version": {
			changes: []Change{defined("d", 2, "v1", "v2"), widget("a", v2, "ua", "0", "red"),
				recorded(morning, "d", 2, false, h1)},
			want: []string{"I1 violated"},
		},
		"a StorageState that is trimmed too early": {
			changes: []Change{defined("d", 2, "v1", "v2"), widget("a", v2, "ua", "0", "red"),
				recorded(morning, "d", 2, true, h2)},
			want: []string{"I1 violated: etcd holds 1 objects as " + v1, "I2 violated: Migrated"},
		},
		"storedVersions that are trimmed too early": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1),
				defined("d", 2, "v2")},
			want: []string{"I2 violated: etcd holds 2 objects as " + v1},
		},
		"Unknown accounts for anything": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, "Unknown"),
				widget("a", v1, "ua", "1", "red")},
		},
		"a process of which the look could not know": {
			world: world{unseen: []string{h2}}, changes: []Change{defined("d", 1, "v1", "v2"),
				widget("a", v2, "ua", "0", "red")},
		},
		"nothing recorded before a restore is judged": {
			world:   world{until: morning.Add(time.Second)},
			changes: []Change{widget("a", v2, "ua", "0", "red"), recorded(morning.Add(time.Second), "d", 1, false, h1)},
			want:    []string{"I1 violated", "I2 violated"},
		},
		"a CustomResourceDefinition that is made again does not speak of what was there before": {changes: []Change{
			{Key: crd}, defined("e", 1, "v2"), recorded(morning, "e", 1, false, h2, "Unknown"),
			widget("a", v2, "ua", "0", "red"),
		}},
		"a CustomResourceDefinition that was made again, and an old record": {changes: []Change{
			{Key: crd}, defined("e", 1, "v2"), widget("a", v2, "ua", "0", "red"),
			recorded(morning, "e", 1, false, h2, h1),
		}},

		"a success with everything rewritten": {
			changes: []Change{
				defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1),
				widget("a", v2, "ua", "0", "red"), widget("b", v2, "ub", "0", "red"), succeeded(1, 12, 0, h2),
			},
		},
		"a success with an object left": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1),
				widget("a", v2, "ua", "0", "red"), succeeded(1, 12, 0, h2)},
			want: []string{"I4 violated: widgets.demo.example.com succeeded"},
		},
		"a success with an object that was written later": {
			changes: []Change{
				defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1),
				widget("a", v2, "ua", "0", "red"), widget("b", v1, "ub", "1", "red"), succeeded(1, 12, 0, h2),
			},
		},
		"a success with failures": {changes: []Change{succeeded(1, 10, 2, h1)},
			want: []string{"I4 violated: widgets.demo.example.com succeeded with 2 failures"}},
		"a success without baseline": {changes: []Change{{Key: request,
			Value: []byte(strings.Replace(string(succeeded(1, 10, 0, h1).Value), `"10"`, `""`, 1))}},
			want: []string{"I4 cannot be judged"}},
		"one success is judged once": {changes: []Change{succeeded(1, 10, 2, h1), succeeded(1, 10, 2, h1)},
			want: []string{"I4 violated"}},
		"every generation is judged": {changes: []Change{succeeded(1, 10, 2, h1), succeeded(2, 10, 2, h1)},
			want: []string{"I4 violated", "I4 violated"}},
		"a rewrite that drops a field": {changes: []Change{colourless("a", v1, "ua", "0")},
			want: []string{"lost are [spec.color]"}},
		"a rewrite that drops a field while a new CustomResourceDefinition settles": {
			world: world{settling: true}, changes: []Change{colourless("a", v1, "ua", "0")}},
		"a rewrite that changes a value while a new CustomResourceDefinition settles": {
			world: world{settling: true}, changes: []Change{widget("a", v1, "ua", "0", "blue")},
			want: []string{"I3 violated: [content]"}},
		"a writer that drops a field": {changes: []Change{colourless("a", v1, "ua", "1")}},
		"a failed run that names the object which it left alone": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1),
				widget("a", v2, "ua", "0", "red"), failed(12, 1, h2, "b")},
		},
		"a failed run that names another object": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1),
				widget("a", v2, "ua", "0", "red"), failed(12, 1, h2, "a")},
			want: []string{`not named is "` + key("b")},
		},
		"a failed run that did not count every object": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1), failed(12, 1, h2)},
			want:    []string{"counts 1 failures and names 0, and etcd holds 2 older objects"},
		},
		"a failed run whose list is full": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1), failed(12, 2, h2, "b")},
		},
		"one failure is judged once": {
			changes: []Change{defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1), failed(12, 0, h2),
				failed(12, 0, h2)},
			want: []string{"I4 violated"},
		},
		"a record that is no record": {changes: []Change{{Key: state, Value: []byte("{")}},
			want: []string{"cannot be decoded"}},
		"a deleted record says nothing": {changes: []Change{{Key: state}, widget("a", v2, "ua", "0", "red")}},
	} {
		t.Run(name, func(t *testing.T) {
			j := New(&c.world, widgets)
			for i := range begin {
				begin[i].Revision = 10
			}
			got := j.Begin(begin)
			for i, change := range c.changes {
				change.Revision = int64(11 + i)
				got = append(got, j.Apply([]Change{change})...)
			}
			for i := range max(len(got), len(c.want)) {
				switch {
				case i >= len(got):
					t.Errorf("no violation %q", c.want[i])
				case i >= len(c.want):
					t.Errorf("violation %q", got[i])
				case !strings.Contains(got[i], c.want[i]):
					t.Errorf("violation %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

func TestASuccessAfterARotationOfKeys(t *testing.T) {
	secrets := testbed.Kind{Version: "v1", Kind: "Secret", Plural: "secrets", Prefix: "/registry/secrets/"}
	secret := func(name string, key int, revision int64) Change {
		return Change{Key: secrets.Prefix + "default/" + name,
			Value: []byte("k8s:enc:aescbc:v1:" + KeyName(key) + ":x"), Revision: revision}
	}
	for name, c := range map[string]struct {
		held []Change
		want bool
	}{
		"everything has the new key": {held: []Change{secret("a", 11, 8), secret("b", 11, 9)}, want: true},
		"a later key is as good":     {held: []Change{secret("a", 11, 8), secret("b", 12, 9)}, want: true},
		"one has an older key":       {held: []Change{secret("a", 11, 8), secret("b", 9, 9)}},
		"one that was written later": {held: []Change{secret("a", 11, 8), secret("b", 9, 11)}, want: true},
		"one is not encrypted": {held: []Change{{Key: secrets.Prefix + "default/a",
			Value: []byte(`{"apiVersion":"v1"}`), Revision: 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := New(&world{}, secrets)
			j.Begin(c.held)
			v := j.Apply([]Change{{Key: MigrationsPrefix + "m", Revision: 12, Value: fmt.Appendf(nil,
				`{"metadata":{"name":"m","uid":"u"},"spec":{"resource":{"resource":"secrets"},"reason":%q},"status":{"completedGeneration":1,"resourceVersion":"10","storageVersionHash":%q}}`,
				Rotation(11), secrets.Hash("v1"))}})
			if (len(v) == 0) != c.want || j.Successes != 1 {
				t.Errorf("%d successes, violations %q", j.Successes, v)
			}
		})
	}
}

func TestWhatWasJudgedIsCounted(t *testing.T) {
	j := New(&world{creates: "c"}, widgets)
	j.Begin([]Change{defined("d", 1, "v1"), widget("a", v1, "ua", "0", "red"), recorded(morning, "d", 1, true, h1)})
	for i, c := range []Change{
		defined("d", 2, "v1", "v2"), recorded(morning, "d", 2, false, h2, h1), widget("c", v2, "uc", "0", "red"),
		widget("a", v2, "ua", "0", "red"),
		succeeded(1, 12, 0, h2), defined("d", 2, "v2"), recorded(morning, "d", 2, true, h2),
	} {
		c.Revision = int64(11 + i)
		if v := j.Apply([]Change{c}); len(v) > 0 {
			t.Error(v)
		}
		if settled := j.Settled(widgets) == ""; settled != (i == 6) {
			t.Errorf("after change %d: %q", i, j.Settled(widgets))
		}
	}
	if want := []string{request}; !slices.Equal(j.Pending(), want) { // of generation 2
		t.Errorf("pending are %v, want %v", j.Pending(), want)
	}
	done := succeeded(2, 12, 0, h2)
	if done.Revision = 20; len(j.Apply([]Change{done})) > 0 || len(j.Pending()) > 0 {
		t.Errorf("pending are %v, want none", j.Pending())
	}
	want := Counts{Changes: 2, Rewritten: 1, Looks: 6, Telling: 6, Migrated: 2, Mixed: 1, Trims: 2, Successes: 2}
	if j.Counts != want || j.Objects() != 2 {
		t.Errorf("%d objects and %+v, want 2 and %+v", j.Objects(), j.Counts, want)
	}
}

func TestWhatWasSparedIsCounted(t *testing.T) {
	j := New(&world{settling: true}, widgets)
	j.Begin([]Change{defined("d", 1, "v1", "v2"), widget("a", v1, "ua", "0", "red"), widget("b", v1, "ub", "0", "red"),
		recorded(morning, "d", 1, false, h2, h1)})
	for i, c := range []Change{colourless("b", v2, "ub", "0"), failed(12, 1, h2, "a"), failed(12, 1, h2, "a"),
		failed(13, 1, h2, "a")} {
		c.Revision = int64(11 + i)
		if v := j.Apply([]Change{c}); len(v) > 0 {
			t.Error(v)
		}
	}
	want := Counts{Changes: 1, Looks: 1, Telling: 1, Mixed: 1, Failures: 2, Spared: 2, Raced: 1}
	if j.Counts != want {
		t.Errorf("counted are %+v, want %+v", j.Counts, want)
	}
}

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		// "a" is a patch of worker a, "a!" a write of its roster that ends its task; of widgets, or of gadgets where it
		// is in upper case. "a?" is the first write of another process.
		sent string
		want int
	}{
		"one worker":                               {sent: "a! a a a! a"},
		"one after the other":                      {sent: "a! a a b! b b"},
		"each in turn, run after run":              {sent: "a! a b! b a! a b! b"},
		"one comes back without a new run":         {sent: "a! a b! b a", want: 1},
		"both at once":                             {sent: "a! b! a b a b", want: 2},
		"both at once, on two resources":           {sent: "a! b! a B a B"},
		"the first of a new run next to the other": {sent: "a! a b! b a! a b", want: 1},
		"several runs of one worker":               {sent: "a A a A A! a a! b A"},
		"both at once, and another run ends":       {sent: "a b A! a B! b", want: 2},
		"the next process goes on":                 {sent: "a b! b a? a"},
	} {
		t.Run(name, func(t *testing.T) {
			var turns Turns
			var got []string
			var number int64
			for word := range strings.FieldsSeq(c.sent) {
				worker, resource := strings.ToLower(word[:1]), "widgets"
				if word[:1] != worker {
					resource = "gadgets"
				}
				number++
				switch word[1:] {
				case "!":
					turns.Roster(worker, "", map[string]int64{resource: number})
					continue
				case "?":
					turns.Roster(worker, fmt.Sprint(number), nil)
					continue
				}
				if v := turns.Patch(worker, resource); v != "" {
					got = append(got, v)
				}
			}
			if len(got) != c.want {
				t.Errorf("violations %q, want %d", got, c.want)
			}
		})
	}
}
