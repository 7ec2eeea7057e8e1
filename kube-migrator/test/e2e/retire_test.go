// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// guest is a user of the cluster in which versions are retired, who has no rights of their own.
const guest = "guest"

// Retiring a version is about one custom resource, so that one cluster serves many tests at the same time, each with a
// resource of its own.
func TestRetirements(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: guest}}})
	newGadgets(t, cluster, "anchors") // the group serves both versions, whatever becomes of the others
	for i, test := range []struct {
		name string
		run  func(*testing.T, *gadgets)
	}{
		{"a retired version is gone and every owner still owns its fields", retiredVersionIsGone},
		{"nothing is lost while others write", nothingIsLostWhileOthersWrite},
		{"a client that gets ahead of a move stays an owner", aClientThatGetsAheadStaysAnOwner},
		{"an object that cannot be rewritten keeps its version", rejectedObjectKeepsItsVersion},
		{"without enough evidence nothing is pruned or taken away", nothingIsPrunedWithoutEnoughEvidence},
		{"a storage version that goes back before it is unserved keeps the version", storageVersionGoesBack(0)},
		{"a storage version that goes back before it is removed keeps the version", storageVersionGoesBack(1)},
		{"an object whose entries own nothing is not taken for one that was never tracked",
			entriesThatOwnNothingAreEntries},
		{"dependents keep the version served", dependentsKeepTheVersionServed},
		{"dependents follow while others write", dependentsFollowWhileOthersWrite},
		{"dependents that come late keep the version served", dependentsAreNotMissed},
		{"a permission that the last step lacks is missed before the first",
			missingPermissionIsFoundBeforeTheFirstStep},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newGadgets(t, cluster, fmt.Sprintf("gadget%cs", 'a'+i)))
		})
	}
}

// Objects that cannot be listed may be dependents of any version that is retired at the same time, so these have a
// cluster of their own.
func TestRescues(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	newGadgets(t, cluster, "anchors")
	for i, test := range []struct {
		name string
		run  func(*testing.T, *gadgets)
	}{
		{"objects that do not list are rescued", objectsThatDoNotListAreRescued},
		{"objects that no one can apply to are rescued", objectsThatNoOneCanApplyToAreRescued},
		{"a rescue that is killed goes on", killedRescueGoesOn},
		{"a rescue loses no field that only the old version has", rescueLosesNoField},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newGadgets(t, cluster, fmt.Sprintf("gadget%cs", 'a'+i)))
		})
	}
}

func retiredVersionIsGone(t *testing.T, g *gadgets) {
	const n = 20
	g.stale(n)
	// Discovery may show the new storage version a moment before the API server encodes objects in it.
	eventually(t, "the API server stores objects as v2", func() bool {
		g.mustApply("carol", "v1", "g-000", map[string]any{"status": map[string]any{"phase": "Ready"}})
		return stored(t, g.cluster, g.prefix())[v2] == 1
	})
	g.update("dave", "v1", "g-001", `{"spec":{"payload":"x"}}`)
	g.update("dave", "v2", "g-001", `{"metadata":{"labels":{"dave":"was-here"}}}`)
	user := newCLI(t, g.cluster)

	plan := user.retire(0, g, "--unserve", "--remove", "--dry-run")

	if kept, err := os.ReadDir(user.state); err != nil || len(kept) != 0 {
		t.Errorf("the dry run keeps %v on this machine, error %v", kept, err)
	}
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")
	// dave's, and the one whose status was written
	wantStored(t, g.cluster, g.prefix(), map[string]int{v1: n - 2, v2: 2})
	want := retire.Owners{Objects: n, Managers: []retire.Manager{
		{Name: "alice", Operation: "Apply", Objects: n}, {Name: "bob", Operation: "Apply", Objects: n},
		{Name: "carol", Operation: "Apply", Objects: 1}, {Name: "dave", Operation: "Update", Objects: 1},
	}}
	if diff := cmp.Diff(want, plan.Owners); diff != "" {
		t.Errorf("owners in the plan (-want +got):\n%s", diff)
	}

	report := user.retire(0, g, "--unserve", "--remove")

	if got := stepStates(report); got[retire.Remove] != retire.Done || got[retire.Migrate] != retire.Done ||
		report.Migration.Outcome != render.Proven {
		t.Errorf("steps %v with the migration %s, want all done and Proven", got, report.Migration.Outcome)
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
	if entries := g.get("v2", "g-001").Metadata.ManagedFields; len(entries) != 3 { // alice, bob, and dave once
		t.Errorf("g-001 has the entries %v, want three", entries)
	}
	g.wantOwned()
	again := user.retire(0, g, "--unserve", "--remove")
	if got := stepStates(again); len(got) != 1 || got[retire.Remove] != retire.Done {
		t.Errorf("the second time: %v, want it found done", again.Steps)
	}
}

// wantOwned expects, by what server-side apply does, that alice owns the color, bob the size, carol the phase and dave
// the payload of the objects that they wrote at v1.
func (g *gadgets) wantOwned() {
	g.t.Helper()
	for _, test := range []struct {
		name   string
		fields map[string]any
		owner  string
	}{
		{"g-000", spec("color", "blue"), `"alice"`}, {"g-000", spec("size", 99), `"bob"`},
		{"g-000", map[string]any{"status": map[string]any{"phase": "Gone"}}, `"carol"`},
		{"g-001", spec("payload", "y"), `"dave"`},
	} {
		if err := g.apply("mallory", "v2", test.name, test.fields); !apierrors.IsConflict(err) ||
			!strings.Contains(err.Error(), test.owner) {
			g.t.Errorf("someone else applies %v to %s: %v, want a conflict with %s", test.fields,
				test.name, err, test.owner)
		}
	}
	g.mustApply("alice", "v2", "g-000", spec("payload", "p")) // without the color, which no one else owns
	g.mustApply("bob", "v2", "g-000", spec("size", 7))
	if got := g.get("v2", "g-000"); got.Spec["color"] != nil || got.Spec["size"] != float64(7) ||
		got.Status["phase"] != "Ready" {
		g.t.Errorf("after its owners applied again: spec %v, status %v; want no color, size 7, phase Ready", got.Spec,
			got.Status)
	}
}

// update sends a merge patch as a manager.
func (g *gadgets) update(manager, version, name, patch string) {
	g.t.Helper()
	if err := g.client.Patch(types.MergePatchType).AbsPath(g.collection(version), name).Param("fieldManager",
		manager).Body([]byte(patch)).Do(g.t.Context()).Error(); err != nil {
		g.t.Fatal(err)
	}
}

func nothingIsLostWhileOthersWrite(t *testing.T, g *gadgets) {
	const n, writers = 60, 4
	g.stale(n)
	crowd := newCrowd(g, n, writers)

	report := newCLI(t, g.cluster).retire(0, g, "--unserve", "--remove", "--max-rate=60")

	crowd.stop()
	if stepStates(report)[retire.Remove] != retire.Done || crowd.late.Load() == 0 || crowd.early.Load() == 0 {
		t.Errorf("steps %v; %d writes at v1 and %d at v2 meanwhile, want some of both", report.Steps,
			crowd.early.Load(), crowd.late.Load())
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
	for i := range n {
		name := fmt.Sprintf("g-%03d", i)
		if got := g.get("v2", name).Spec["size"]; got != float64(crowd.written[i]) {
			t.Errorf("%s has size %v, the last one that was acknowledged is %d", name, got, crowd.written[i])
		}
		if err := g.apply("mallory", "v2", name, spec("color", "blue")); !apierrors.IsConflict(err) ||
			!strings.Contains(err.Error(), `"alice"`) {
			t.Errorf("someone else applies the color of %s: %v, want a conflict with alice", name, err)
		}
	}
}

func aClientThatGetsAheadStaysAnOwner(t *testing.T, g *gadgets) {
	const n = 3
	g.stale(n)
	user, proxy := throughProxy(t, g.cluster)
	// Before the first managedFields are moved, others write what no one has written before, and delete one of the
	// objects.
	ahead := testbed.ResetBefore(func() {
		for i := range n {
			g.mustApply("eve", "v1", fmt.Sprintf("g-%03d", i),
				map[string]any{"status": map[string]any{"phase": "Ready"}})
		}
		g.do(http.MethodDelete, g.collection("v2")+"/g-002", nil)
	})
	proxy.SetRules(testbed.Rule{Fault: ahead, Skip: n, Times: 1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, g.item())
	}})

	user.retire(0, g)

	g.wantUnnamed(n - 1)
	for _, name := range []string{"g-000", "g-001"} {
		err := g.apply("mallory", "v2", name, map[string]any{"status": map[string]any{"phase": "Gone"}})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `"eve"`) {
			t.Errorf("someone else applies the phase of %s: %v, want a conflict with eve", name, err)
		}
	}
	g.wantVersions("v2", "v1 served", "v2 served storage")
}

// crowd writes all the time: at v1 while that is served, and at v2 then. Each writer has objects of its own, and notes
// what the API server has acknowledged.
type crowd struct {
	g           *gadgets
	written     []int // by object: the size
	early, late atomic.Int64
	ended       chan struct{}
	once        sync.Once
	writers     sync.WaitGroup
}

func newCrowd(g *gadgets, objects, writers int) *crowd {
	c := &crowd{g: g, written: make([]int, objects), ended: make(chan struct{})}
	for i := range c.written {
		c.written[i] = i
	}
	for w := range writers {
		c.writers.Go(func() {
			for size := 1000; ; size++ {
				for i := w; i < objects; i += writers {
					select {
					case <-c.ended:
						return
					case <-time.After(5 * time.Millisecond):
						c.write(i, size)
					}
				}
			}
		})
	}
	g.t.Cleanup(c.stop) // also if the test fails: before the cluster ends
	return c
}

// write applies a size with the manager that owns it; every second time at v1, as long as that is served.
func (c *crowd) write(i, size int) {
	name := fmt.Sprintf("g-%03d", i)
	for _, version := range [][]string{{"v1", "v2"}, {"v2"}}[size%2] {
		err := c.g.apply("bob", version, name, spec("size", size))
		if err == nil {
			c.written[i] = size
			if version == "v1" {
				c.early.Add(1)
			} else {
				c.late.Add(1)
			}
			return
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) {
			c.g.t.Errorf("write %s at %s: %v", name, version, err)
		}
	}
}

// stop ends the writers, once or more often.
func (c *crowd) stop() {
	c.once.Do(func() { close(c.ended) })
	c.writers.Wait()
}

func rejectedObjectKeepsItsVersion(t *testing.T, g *gadgets) {
	installStale(t, g.cluster, testbed.Bulk{Count: 10}, testbed.Widgets{})
	denies := judge(t, g.cluster, widgetName(3), "not this one")
	user := newCLI(t, g.cluster)
	g = &gadgets{t: t, cluster: g.cluster, plural: "widgets"}

	report := user.retire(4, g, "--unserve", "--remove")

	if got := stepStates(report); got[retire.Migrate] != retire.Todo || len(report.Migration.Result.Failures) != 1 {
		t.Errorf("steps %v and failures %v, want nothing done, and one failure", got, report.Migration.Result.Failures)
	}
	g.wantVersions("v1 v2", "v1 served", "v2 served storage")
	denies.Store(false)
	user.shell(0, report.Next)
	g.wantVersions("v2", "v2 served storage")
	wantStored(t, g.cluster, testbed.WidgetsPrefix, map[string]int{v2: 10})
}

// widgetName is the name of a widget that BulkCreate made.
func widgetName(i int) string {
	key := testbed.Bulk{}.Key(i)
	return key[strings.LastIndex(key, "/")+1:]
}
