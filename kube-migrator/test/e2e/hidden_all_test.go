// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// oneAddress hides the addresses of API servers, as the control planes of providers do.
const oneAddress = "--endpoint-reconciler-type=none"

// topology is a control plane as clients see it.
type topology struct {
	servers int
	flags   []string
	// address returns the kubeconfig of the address that clients know.
	address func(*testing.T, *testbed.Cluster) string
	// evidence is what a migration reaches without a flag.
	evidence migrate.Evidence
}

var (
	single  = topology{1, nil, ownAddress, migrate.Observed}
	several = topology{3, nil, ownAddress, migrate.Observed}
	// balanced servers are behind a load balancer on layer 4, which takes turns.
	balanced = topology{3, []string{oneAddress}, balancerOf, migrate.Observed}
	// random is a load balancer that picks servers at random.
	random = topology{3, []string{oneAddress}, randomBalancerOf, migrate.Observed}
	// proxied servers are behind a proxy on layer 7, which hands on the requests of one connection to all of them.
	proxied = topology{3, []string{oneAddress}, proxyOf, migrate.Verified}
)

func ownAddress(t *testing.T, cluster *testbed.Cluster) string {
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func balancerOf(t *testing.T, cluster *testbed.Cluster) string { return newBalancer(t, cluster, false) }

func randomBalancerOf(t *testing.T, cluster *testbed.Cluster) string {
	return newBalancer(t, cluster, true)
}

func newBalancer(t *testing.T, cluster *testbed.Cluster, random bool) string {
	balancer, err := cluster.Balance()
	if err != nil {
		t.Fatal(err)
	}
	balancer.Random = random
	kubeconfig, err := balancer.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func proxyOf(t *testing.T, cluster *testbed.Cluster) string {
	proxy := testbed.NewProxy(t, cluster)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; pace.Sleep(ctx, time.Millisecond) == nil; i++ {
			proxy.Target(cluster.Servers[i%len(cluster.Servers)])
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func (s topology) start(t *testing.T, release testbed.Release) *testbed.Cluster {
	cluster := testbed.New(t, testbed.Options{Release: release, Isolated: s.servers > 1, Flags: s.flags,
		Servers: make([]testbed.ServerOptions, s.servers)})
	if s.servers > 1 && len(s.flags) == 0 {
		wantListed(t, cluster)
	}
	return cluster
}

// wantListed waits until the EndpointSlice lists every API server: a server writes it from its Lease some seconds after
// its start.
func wantListed(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	eventually(t, "all API servers are listed", func() bool {
		var slice struct {
			Endpoints []struct{ Addresses []string }
		}
		status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodGet,
			"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", nil)
		if err != nil || status != http.StatusOK {
			return false
		}
		decode(t, answer, &slice)
		addresses := 0
		for _, e := range slice.Endpoints {
			addresses += len(e.Addresses)
		}
		return addresses == len(cluster.Servers)
	})
}

func TestEveryControlPlaneIsMigratedWithoutAFlag(t *testing.T) {
	t.Run("balanced", func(t *testing.T) { balanced.migrates(t, testbed.Newest) })
	t.Run("proxied", func(t *testing.T) { proxied.migrates(t, testbed.Newest) })
}

// migrates expects that migrate and a controller do their job by default, and that the evidence is the promised one.
func (s topology) migrates(t *testing.T, release testbed.Release) {
	cluster := s.start(t, release)
	installStale(t, cluster, testbed.Bulk{Count: 300}, testbed.Widgets{})
	kubeconfig := s.address(t, cluster)
	tool := newCLIWith(t, cluster, kubeconfig)

	for _, resource := range []string{"widgets", "serviceaccounts"} {
		if m := tool.migrate(0, resource); m.Result.Epoch.Evidence != s.evidence || !m.Result.Proven {
			t.Errorf("%s: proven %t, %s", resource, m.Result.Proven, m.Evidence)
		}
	}
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: 300})
	wantClaimed(t, cluster, "v2")

	moveStorage(t, cluster, "v1")
	c := newControlled(t, cluster)
	c.kubeconfig = kubeconfig
	c.triggering()
	c.untilState(widgetsName, "proven", persistedOnly("v1"))
	eventually(t, "everything is recorded as current", func() bool {
		_, wait := tool.start("progress")
		return wait().code == 0
	})
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v1: 300})
	wantClaimed(t, cluster, "v1")
	if m, err := c.read(widgetsName); err != nil || m.Status.Epoch.Evidence != s.evidence.String() {
		t.Errorf("the evidence of the controller's run is not %v: %+v (%v)", s.evidence, m.Status.Epoch, err)
	}
	out := tool.run(0, "check", "widgets")
	if says := strings.Contains(out.stdout, "Verified"); says != (s.evidence == migrate.Verified) {
		t.Errorf("check names the evidence: %t\n%s", says, out.stdout)
	}
}

// A server behind the balancer that new connections do not reach stores one object after the other in the old version,
// for a client that has been connected for long.
func TestAServerThatNoNewConnectionReachesIsNoticedByWhatItStores(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136, Isolated: true, Flags: []string{oneAddress},
		Servers: []testbed.ServerOptions{upgraded.Options(), heldBack.Options()}})
	createDeviceClasses(t, cluster.Servers[1], 3)
	proxy := testbed.NewProxy(t, cluster) // leads to the first server alone
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	tool := newCLIWith(t, cluster, kubeconfig)

	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for pace.Sleep(ctx, 200*time.Millisecond) == nil {
			_, _, _ = cluster.Servers[1].Do(ctx, http.MethodPatch, deviceClasses.path+"/d0",
				[]byte(`{"metadata":{"annotations":{"at":"`+time.Now().String()+`"}}}`))
		}
	}()
	m := tool.migrate(3, "deviceclasses")
	cancel()
	<-written
	if m.Result.Proven || !strings.Contains(m.Error, "stored in another version") {
		t.Errorf("proven %t: %s (%s)", m.Result.Proven, m.Error, m.Evidence)
	}

	// When it no longer writes, a second pass proves it.
	if m = tool.migrate(0, "deviceclasses"); m.Result.Epoch.Evidence != migrate.Verified {
		t.Errorf("the evidence is %s", m.Evidence)
	}
	if diff := cmp.Diff(map[string]int{deviceNew: 3}, stored(t, cluster, deviceClasses.kind.Prefix)); diff != "" {
		t.Errorf("etcd (-want +got):\n%s", diff)
	}
}

func createDeviceClasses(t *testing.T, s *testbed.Server, n int) {
	t.Helper()
	for i := range n {
		status, answer, err := s.Do(t.Context(), http.MethodPost, deviceClasses.path, mustJSON(map[string]any{
			"apiVersion": deviceNew, "kind": "DeviceClass", "metadata": map[string]any{"name": fmt.Sprint("d", i)},
			"spec": deviceClasses.spec,
		}))
		if err != nil || status != http.StatusCreated {
			t.Fatalf("create: %d %s (%v)", status, answer, err)
		}
	}
}

// A balancer, or a proxy that hands on the requests of one connection to all servers, leads to a server of an older
// version as well: nothing is claimed.
func TestAServerBehindTheBalancerThatWritesAnotherVersionIsSeen(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136, Isolated: true, Flags: []string{oneAddress},
		Servers: []testbed.ServerOptions{upgraded.Options(), heldBack.Options(), upgraded.Options()}})
	createDeviceClasses(t, cluster.Servers[1], 3)
	args := []string{"migrate", "deviceclasses", "--settle-time=1s", "--agreement-timeout=3s"}
	out := newCLIWith(t, cluster, balancerOf(t, cluster)).run(3, args...)
	if text := out.stdout + out.stderr; !strings.Contains(text, "disagree") || !strings.Contains(text, deviceOld) {
		t.Errorf("it does not say that the servers disagree:\n%s", text)
	}

	// Samples through the proxy may show one version for some time, and then another.
	_, wait := newCLIWith(t, cluster, proxyOf(t, cluster)).start(args...)
	out = wait()
	text := out.stdout + out.stderr
	if out.code != 2 && out.code != 3 || !strings.Contains(text, "disagree") && !strings.Contains(text, "storage version changed") &&
		!strings.Contains(text, "stored in another version") {
		t.Errorf("exit code %d:\n%s", out.code, text)
	}
}
