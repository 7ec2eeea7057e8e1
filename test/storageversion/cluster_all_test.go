// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package storageversion_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// onARealServer are the tests that share one cluster, which serves the APIs of MigrationAPI and InternalAPI. One runs
// after another: they publish to the same objects.
var onARealServer = []struct {
	name string
	run  func(*testing.T, *testbed.Cluster)
}{
	{"ten start at once, one crashes, nine are shut down", tenAtOnce},
	{"killed between any two writes", func(t *testing.T,
		c *testbed.Cluster) {
		killedBetweenWrites(t, c, storageversion.MigrationAPI)
	}},
	{"killed between any two writes to the API of Kubernetes",
		func(t *testing.T, c *testbed.Cluster) { killedBetweenWrites(t, c, storageversion.InternalAPI) }},
	{"a second process with the ID of a live one waits for its end", twoOfOneID},
	{"an entry that another program removes", removedByOthers},
	{"shutdown waits for the last write", shutdownWaits},
	{"the Collector removes the entry of the last server once it has crashed", collectorOnARealServer},
}

func tenAtOnce(t *testing.T, c *testbed.Cluster) {
	var processes []*process
	for range 10 {
		processes = append(processes, start(t, c, func(_ *storageversion.Options, p *process) {
			// The barrier opens only after the write has been answered, never while the answer is under way.
			opened := false
			p.answered = func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/status") && !opened {
					opened = true
					if p.ready() {
						t.Error("the barrier was open before the first write of the entry was answered")
					}
				}
			}
		}))
	}
	for _, p := range processes {
		eventually(t, "the publisher is ready", func() bool {
			ready := p.ready() // first: what it says must be true of the object that is read later
			if ready && published(t, c, storageversion.MigrationAPI, widgets).find(p.ID()) == nil {
				t.Fatal("the barrier is open, and the entry is not there")
			}
			return ready
		})
	}
	o := published(t, c, storageversion.MigrationAPI, widgets)
	checkTrue(t, o)
	if n := len(o.Status.StorageVersions); n != 10 || *o.Status.CommonEncodingVersion != v1.String() {
		t.Fatalf("the object has %d entries: %+v", n, o.Status)
	}
	want := &v1alpha1.ServerStorageVersion{APIServerID: processes[3].ID(), EncodingVersion: v1.String(),
		DecodableVersions: []string{v1.String(), v2.String()}, ServedVersions: []string{v1.String()}}
	if diff := compare.Diff(want, o.find(want.APIServerID)); diff != "" {
		t.Errorf("the entry (-want +got):\n%s", diff)
	}

	crashed := processes[0]
	crashed.crash()
	eventually(t, "the crashed server's entry is dropped", func() bool {
		o := published(t, c, storageversion.MigrationAPI, widgets)
		for _, p := range processes[1:] {
			if o.find(p.ID()) == nil {
				t.Fatal("the entry of a live server was dropped")
			}
		}
		dropped := o.find(crashed.ID()) == nil
		if dropped && crashed.ready() {
			t.Fatal("the entry was dropped while its server still took writes")
		}
		return dropped
	})
	eventually(t, "its Lease is deleted", func() bool { return !leaseExists(t, c, crashed.ID()) })
	for _, p := range processes[1:] {
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if p.ready() || leaseExists(t, c, p.ID()) {
			t.Error("a server that has shut down is ready, or has a Lease")
		}
		o := published(t, c, storageversion.MigrationAPI, widgets)
		checkTrue(t, o)
		if o.find(p.ID()) != nil {
			t.Error("a server that has shut down has an entry")
		}
	}
	if o := published(t, c, storageversion.MigrationAPI, widgets); len(o.Status.StorageVersions) != 0 ||
		o.Status.CommonEncodingVersion != nil {
		t.Errorf("nothing should be published: %+v", o.Status)
	}
}

// A publisher of two resources is killed after each number of writes, before and after the answer to the last one
// arrives.
func killedBetweenWrites(t *testing.T, c *testbed.Cluster, api storageversion.API) {
	resources := []storageversion.Resource{{GroupResource: widgets, EncodingVersion: v2},
		{GroupResource: gadgets, EncodingVersion: v2}}
	other := start(t, c, func(o *storageversion.Options, _ *process) { o.API = api })
	eventually(t, "the other server is ready", other.ready)
	complete := false
	for allowed := 1; !complete; allowed++ {
		for _, lossy := range []bool{true, false} {
			killed := start(t, c, func(o *storageversion.Options, p *process) {
				o.API, o.Resources = api, resources
				p.allowed, p.lossy = allowed, lossy
			})
			eventually(t, "the publisher is killed, or done", func() bool { return killed.died() || killed.ready() })
			for _, r := range resources {
				open := takesWrites(killed, r.GroupResource)
				o := published(t, c, api, r.GroupResource)
				checkTrue(t, o)
				if open && o.find(killed.ID()) == nil {
					t.Errorf("after %d writes the barrier of %s is open without an entry", allowed, r)
				}
				if found := o.find(killed.ID()); found != nil && found.EncodingVersion != v2.String() {
					t.Errorf("after %d writes the entry is %+v", allowed, found)
				}
				if found := o.find(killed.ID()); found != nil && !leaseExists(t, c, killed.ID()) {
					t.Errorf("after %d writes there is an entry of a server without a Lease", allowed)
				}
				if r.GroupResource == widgets && o.find(other.ID()) == nil {
					t.Errorf("after %d writes the entry of the other server is gone", allowed)
				}
			}
			complete = complete || killed.ready()
			killed.kill()
		}
		if allowed > 20 {
			t.Fatal("20 writes were not enough")
		}
	}
	eventually(t, "the entries of all killed servers are dropped", func() bool {
		o := published(t, c, api, widgets)
		checkTrue(t, o)
		return len(o.Status.StorageVersions) == 1 && o.find(other.ID()) != nil
	})
	if err := other.end(); err != nil {
		t.Error(err)
	}
}

// takesWrites reports whether a publisher lets a write to a resource begin.
func takesWrites(p *process, r schema.GroupResource) bool {
	reached := false
	send(storageversion.Barrier(p.Publisher, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })),
		http.MethodPost, "/apis/"+r.Group+"/v1/namespaces/a/"+r.Resource)
	return reached
}

func send(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

const collection = "/apis/demo.example.com/v1/namespaces/a/widgets"

func twoOfOneID(t *testing.T, c *testbed.Cluster) {
	first := start(t, c, func(o *storageversion.Options, p *process) { o.ID, p.host = "twice", "another-host" })
	eventually(t, "the first is ready", first.ready)
	second := start(t, c, func(o *storageversion.Options, _ *process) {
		o.ID, o.Resources = "twice", []storageversion.Resource{{GroupResource: gadgets, EncodingVersion: v2}}
	})
	eventually(t, "the second says what it waits for", func() bool {
		err := second.Check(nil)
		return err != nil && strings.Contains(err.Error(), "is held by twice_")
	})
	first.crash()
	eventually(t, "the second is ready", func() bool {
		ready := second.ready()
		if ready && first.ready() {
			t.Fatal("two processes with one ID take writes")
		}
		if o := published(t, c, storageversion.MigrationAPI, widgets); !ready && first.ready() && o.find("twice") == nil {
			t.Fatal("the first takes writes, and its entry is gone")
		}
		return ready
	})
	eventually(t, "what the first left for a resource that the second does not store is withdrawn", func() bool {
		return published(t, c, storageversion.MigrationAPI, widgets).find("twice") == nil
	})
	// A restart in the same moment: an entry that is already right is written once more before it counts, so that a
	// server that has found the earlier process gone cannot drop it.
	second.kill()
	before := published(t, c, storageversion.MigrationAPI, gadgets)
	third := start(t, c, func(o *storageversion.Options, _ *process) {
		o.ID, o.Resources = "twice", []storageversion.Resource{{GroupResource: gadgets, EncodingVersion: v2}}
	})
	eventually(t, "the third is ready", third.ready)
	after := published(t, c, storageversion.MigrationAPI, gadgets)
	if before.ResourceVersion == after.ResourceVersion ||
		after.find("twice").EncodingVersion != v2.String() {
		t.Errorf("the entry was not written again: %+v, then %+v", before, after)
	}
	if err := third.end(); err != nil {
		t.Error(err)
	}
}

func removedByOthers(t *testing.T, c *testbed.Cluster) {
	var closed sync.Once
	wasClosed := make(chan struct{})
	p := start(t, c, func(_ *storageversion.Options, p *process) {
		opened := false
		p.answered = func(r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/status") {
				return
			}
			if opened && !p.ready() { // the second write: the entry was missed
				closed.Do(func() { close(wasClosed) })
			}
			opened = true
		}
	})
	eventually(t, "the publisher is ready", p.ready)
	status := pathOf(storageversion.MigrationAPI, widgets) + "/status"
	foreign := `{"type":"Foreign","status":"True","reason":"Other","message":"of another program"}`
	code, raw, err := c.Servers[0].Do(t.Context(), http.MethodPatch, status,
		[]byte(`{"status":{"storageVersions":[],"commonEncodingVersion":null,"conditions":[`+foreign+`]}}`))
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, raw)
	}
	<-wasClosed
	eventually(t, "the entry is back", func() bool {
		return p.ready() && published(t, c, storageversion.MigrationAPI, widgets).find(p.ID()) != nil
	})
	o := published(t, c, storageversion.MigrationAPI, widgets)
	if !slices.ContainsFunc(o.Status.Conditions, func(c v1alpha1.Condition) bool {
		return c.Type == "Foreign" && c.Status == metav1.ConditionTrue
	}) {
		t.Errorf("the other program's condition is gone: %+v", o.Status.Conditions)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	// The next subtests expect an object of their own.
	if code, raw, err := c.Servers[0].Do(t.Context(), http.MethodDelete, pathOf(storageversion.MigrationAPI, widgets),
		nil); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, raw)
	}
}

func shutdownWaits(t *testing.T, c *testbed.Cluster) {
	p := start(t, c, func(*storageversion.Options, *process) {})
	eventually(t, "the publisher is ready", p.ready)
	started, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	barrier := storageversion.Barrier(p.Publisher, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-release
		ended <- r.Context().Err()
	}))
	go send(barrier, http.MethodPost, collection)
	<-started
	p.stop()
	eventually(t, "the server is not ready any more", func() bool { return !p.ready() })
	if got := send(barrier, http.MethodPost, collection).Code; got != http.StatusServiceUnavailable {
		t.Errorf("a write during shutdown was answered with %d", got)
	}
	// The Lease is renewed while the write goes on.
	for range 2 {
		was := renewTime(t, c, p.ID())
		eventually(t, "the Lease is renewed", func() bool { return renewTime(t, c, p.ID()) != was })
	}
	if published(t, c, storageversion.MigrationAPI, widgets).find(p.ID()) == nil {
		t.Error("the entry was withdrawn while a write was in flight")
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the write was cancelled: %v", err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	if published(t, c, storageversion.MigrationAPI, widgets).find(p.ID()) != nil || leaseExists(t, c, p.ID()) {
		t.Error("the entry or the Lease is still there")
	}
}

func renewTime(t *testing.T, c *testbed.Cluster, id string) string {
	t.Helper()
	code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+id, nil)
	if err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, raw)
	}
	var lease struct{ Spec struct{ RenewTime string } }
	if err := json.Unmarshal(raw, &lease); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(lease.Spec.RenewTime)
}

// Another server could drop the entry, too, so there is none.
func collectorOnARealServer(t *testing.T, c *testbed.Cluster) {
	const limit = shortLease + 10*time.Second
	p := start(t, c, func(*storageversion.Options, *process) {})
	eventually(t, "the publisher is ready", p.ready)
	collector, err := storageversion.NewCollector(c.Config(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	collect := func() {
		next, err := collector.Collect(t.Context())
		if err != nil {
			t.Error(err)
		}
		_ = pace.Sleep(t.Context(), next)
	}
	for begun := time.Now(); time.Since(begun) < 2*shortLease; collect() {
		if published(t, c, storageversion.MigrationAPI, widgets).find(p.ID()) == nil {
			t.Fatal("the entry of a live server was removed")
		}
	}
	p.crash()
	for crashed := time.Now(); ; collect() {
		o := published(t, c, storageversion.MigrationAPI, widgets)
		checkTrue(t, o)
		if o.find(p.ID()) == nil {
			break
		}
		if time.Since(crashed) > limit {
			t.Fatalf("the entry is still there after %s", limit)
		}
	}
	if p.ready() {
		t.Error("the entry was removed while its server took writes")
	}
}
