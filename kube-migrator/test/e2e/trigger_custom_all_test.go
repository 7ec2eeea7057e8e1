// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// A custom resource's storage version flips while servers are restarted: A → B → A, and twice within one discovery
// period.
func TestFlipsOfACustomResourceWhileServersRestart(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Isolated: true,
		Servers: make([]testbed.ServerOptions, 2), Flags: quickStop})
	balancer, err := cluster.Balance()
	if err != nil {
		t.Fatal(err)
	}
	installStale(t, cluster, testbed.Bulk{Count: 300}, testbed.Widgets{})
	c := newControlled(t, cluster)
	if c.kubeconfig, err = balancer.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	watch := watchTruth(t, cluster, widgetKind)
	c.triggering("--include=" + widgetsName)
	c.untilState(widgetsName, "proven", persistedOnly("v2"))

	touch := func(n int) { // someone writes through each server
		for i, server := range cluster.Servers {
			path := fmt.Sprintf("/apis/%s/v2/namespaces/default/widgets/widget-%07d", testbed.WidgetGroup, n*10+i)
			server.Do(t.Context(), http.MethodPatch, path, //nolint:errcheck // it may be away
				fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"}}}`, n))
		}
	}
	restart := func(i int) {
		if err := cluster.Servers[i].Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for n, version := range []string{"v1", "v2"} { // A → B → A, a server restarted in between
		watch.moving(t, version)
		touch(n)
		restart(n % 2)
		touch(n + 5)
	}
	c.untilState(widgetsName, "proven again", persistedOnly("v2"))

	watch.moving(t, "v1") // twice, as fast as can be
	touch(11)
	watch.moving(t, "v2")
	touch(12)
	generation := c.generation(widgetsName)
	c.untilState(widgetsName, "proven after two flips", func(s *v1alpha1.StorageState) bool {
		return persistedOnly("v2")(s) && c.generation(widgetsName) > generation
	})
	if held := stored(t, cluster, testbed.WidgetsPrefix); len(held) != 1 || held[v2] != 300 {
		t.Errorf("etcd holds %v", held)
	}
}

// A CRD is changed while a look waits for an answer, and changed back: what it said meanwhile is recorded.
func TestACRDThatChangesDuringASlowLook(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 100, testbed.Widgets{}))
	proxy := c.behindProxy()
	watchTruth(t, c.cluster, widgetKind)
	p := c.triggering("--include="+widgetsName, "--discovery-period=1s")
	c.untilState(widgetsName, "proven", persistedOnly("v2"))
	c.untilState("secrets", "recorded as excluded, with the period", func(s *v1alpha1.StorageState) bool {
		return s.Status.Excluded && s.Status.HeartbeatPeriodSeconds == 1
	})

	generation := c.generation(widgetsName)
	slow := testbed.Latency(20 * time.Second)
	proxy.SetRules(testbed.Rule{Fault: slow, Times: 1, Match: func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/leases") && !testbed.Watch(r)
	}})
	waiting := func() bool {
		return slices.ContainsFunc(proxy.Records(),
			func(r testbed.Record) bool { return slices.Contains(r.Faults, slow.Name) && r.End.IsZero() })
	}
	eventually(t, "a look waits", waiting)
	moveStorage(t, c.cluster, "v1")
	c.untilState(widgetsName, "told", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, widgetKind.Hash(v1))
	})
	if !waiting() {
		t.Error("what the CRD said was recorded after the look, not during it")
	}
	moveStorage(t, c.cluster, "v2")
	c.untilState(widgetsName, "proven again", persistedOnly("v2"))
	if c.generation(widgetsName) <= generation {
		t.Error("nothing was asked for")
	}
	c.end(p)
	t.Run("everything is paused in the middle of a bootstrap", func(t *testing.T) { c.pausesABootstrap(t, proxy) })
}

// away makes a controller do nothing for as long as f takes, as if its node were frozen or it were not there;
// afterwards another one is started.
func (c *controlled) away(p *process, f func(), arguments ...string) *process {
	c.Helper()
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		c.Fatal(err)
	}
	p.Wait() //nolint:errcheck // killed
	f()
	return c.triggering(arguments...)
}

func TestWhatHappenedWhileTheControllerWasAway(t *testing.T) {
	t.Parallel()
	// Only where API servers keep their EndpointSlice a restarted controller knows that none came and went.
	cluster := testbed.New(t, testbed.Options{Isolated: true})
	installStale(t, cluster, testbed.Bulk{Count: 100}, testbed.Widgets{})
	c := newControlled(t, cluster)
	arguments := []string{"--include=" + widgetsName, "--discovery-period=1s"}
	p := c.triggering(arguments...)
	c.untilState(widgetsName, "proven", persistedOnly("v2"))
	generation := c.generation(widgetsName)

	t.Run("nothing, however long", func(t *testing.T) {
		// Shortened time: with a period of a second, the recorded heartbeat is thousands of periods old.
		p = c.away(p, func() { c.age(widgetsName, 30*time.Minute) }, arguments...)
		before := c.state(widgetsName).Status.LastHeartbeatTime
		c.untilState(widgetsName, "looked at again",
			func(s *v1alpha1.StorageState) bool { return s.Status.LastHeartbeatTime.After(before.Time) })
		if s := c.state(widgetsName); !persistedOnly("v2")(s) || c.generation(widgetsName) != generation {
			t.Errorf("something was migrated again: generation %d after %d, %+v",
				c.generation(widgetsName), generation, s.Status)
		}
	})
	t.Run("the version changed twice", func(t *testing.T) {
		p = c.away(p, func() {
			moveStorage(t, c.cluster, "v1")
			do(t, c.cluster, http.MethodPatch, "/apis/"+testbed.WidgetGroup+
				"/v2/namespaces/default/widgets/widget-0000001",
				map[string]any{"metadata": map[string]any{"labels": map[string]string{"a": "b"}}})
			moveStorage(t, c.cluster, "v2")
		}, arguments...)
		c.untilState(widgetsName, "in doubt", func(s *v1alpha1.StorageState) bool {
			return slices.Contains(s.Status.PersistedStorageVersionHashes, v1alpha1.Unknown)
		})
		c.untilState(widgetsName, "proven again", persistedOnly("v2"))
		if c.generation(widgetsName) <= generation {
			t.Error("nothing was asked for")
		}
		wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: 100})
		eventually(t, "an Event tells of the doubt", func() bool { return len(c.told(widgetsName)) > 0 })
	})
	t.Run("a server was restarted", func(t *testing.T) {
		generation := c.generation(widgetsName)
		// Neither looks every second nor the restarts of the controller tell it again.
		if got := c.told(widgetsName); !slices.Equal(got, []string{"StoredVersionsUnknown"}) {
			t.Errorf("Events tell %v, want one of the doubt", got)
		}
		p = c.away(p, func() {
			if err := c.cluster.Servers[0].Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, arguments...)
		c.untilState(widgetsName, "in doubt", func(s *v1alpha1.StorageState) bool {
			return slices.Contains(s.Status.PersistedStorageVersionHashes, v1alpha1.Unknown) ||
				c.generation(widgetsName) > generation
		})
		c.untilState(widgetsName, "proven again", persistedOnly("v2"))
		if c.generation(widgetsName) <= generation {
			t.Error("nothing was asked for")
		}
	})
	t.Run("a CRD is applied whose storage version lacks a field", c.losesNoField)
}

// age makes the record of a StorageState older.
func (c *controlled) age(name string, by time.Duration) {
	c.Helper()
	at := time.Now().Add(-by).UTC().Format(time.RFC3339)
	do(c.T, c.cluster, http.MethodPatch, states+"/"+name+"/status",
		map[string]any{"status": map[string]any{"lastHeartbeatTime": at}})
}

func TestAResourceThatDisappearsInMidSweepAndComesBack(t *testing.T) {
	t.Parallel()
	const n = 2000
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	p := c.triggering("--include=" + widgetsName)
	c.rewrote(n / 10)
	old := c.state(widgetsName)
	do(t, c.cluster, http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+
		testbed.WidgetCRD, nil)
	eventually(t, "the StorageState and our migration are gone",
		func() bool { return c.state(widgetsName) == nil && c.generation(widgetsName) == 0 })

	eventually(t, "the CRD is gone", func() bool {
		status, _, err := c.cluster.Servers[0].Do(t.Context(), http.MethodGet,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+testbed.WidgetCRD, nil)
		return err == nil && status == http.StatusNotFound
	})
	if err := c.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil { // stores v1
		t.Fatal(err)
	}
	if err := c.cluster.BulkCreate(t.Context(), testbed.Bulk{Count: 100}); err != nil {
		t.Fatal(err)
	}
	fresh := c.untilState(widgetsName, "proven for the new CRD", persistedOnly("v1"))
	if fresh.UID == old.UID || fresh.Status.Definition.UID == old.Status.Definition.UID {
		t.Errorf("the state of the old CRD lives on: %+v", fresh)
	}
	m := c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	if m.Status.StorageVersion != "v1" || m.Status.Progress.Done < 100 {
		t.Errorf("the migration came to %+v", m.Status)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: 100})
	if err := p.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the controller has ended: %v", err)
	}
	if holds(fresh, v1alpha1.ConditionMigrated) != metav1.ConditionTrue {
		t.Error("not migrated")
	}
}
