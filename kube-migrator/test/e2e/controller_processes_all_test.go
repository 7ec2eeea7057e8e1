// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestOfTwoControllersOneActsEvenIfTheLeaderWasFrozen(t *testing.T) {
	t.Parallel()
	const n = 1600
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	var proxies [2]*testbed.Proxy
	var controllers [2]*process
	for i := range controllers {
		proxies[i] = testbed.NewProxy(t, c.cluster)
		kubeconfig, err := proxies[i].Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		own := *c
		own.kubeconfig = kubeconfig
		controllers[i] = own.controller()
	}
	c.ask(v1alpha1.StorageVersionMigrationSpec{Pace: v1alpha1.Pace{MaxObjectsPerSecond: 120}})
	c.rewrote(240)
	leader := 0
	if len(patches(proxies[1])) > len(patches(proxies[0])) {
		leader = 1
	}
	other, holder := 1-leader, c.leader()

	signal(t, controllers[leader], syscall.SIGSTOP)
	eventually(t, "the other leads", func() bool { return c.leader() != holder && c.leader() != "" })
	eventually(t, "the other rewrites", func() bool { return len(patches(proxies[other])) > 120 })
	signal(t, controllers[leader], syscall.SIGCONT)
	if err := controllers[leader].Wait(); err == nil {
		t.Error("a controller that lost its Lease goes on as if nothing had happened")
	}
	m := c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	if m.Status.Run.Attempt != 1 || m.Status.Progress.Done != n {
		t.Errorf("status is %+v", m.Status)
	}
	if both := overlap(proxies[leader], proxies[other]); len(both) > 0 {
		t.Errorf("%d writes of the old leader came after the new one's first (I8): %.1000v", len(both), both)
	}
	times := map[string]int{}
	for _, proxy := range proxies {
		for _, r := range patches(proxy) {
			times[r.Path]++
		}
	}
	again := 0
	for _, n := range times {
		again += n - 1
	}
	if again > 500 {
		t.Errorf("%d objects were sent again, want at most a page (I5)", again)
	}
}

// overlap are the writes through one proxy that came after the first through another.
func overlap(before, after *testbed.Proxy) []string {
	first := writes(after)[0].Begin
	var late []string
	for _, r := range writes(before) {
		if r.Begin.After(first) {
			late = append(late, r.Method+" "+r.Path)
		}
	}
	return late
}

func signal(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// leader is who holds the Lease.
func (c *controlled) leader() string {
	status, answer, err := c.cluster.Servers[0].Do(c.Context(), http.MethodGet,
		"/apis/coordination.k8s.io/v1/namespaces/"+installation+"/leases/kube-migrator-controller", nil)
	if err != nil || status != http.StatusOK {
		return ""
	}
	var lease struct {
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
	}
	decode(c.T, answer, &lease)
	return lease.Spec.HolderIdentity
}

// watchForLies compares what the status claims with what etcd holds, again and again.
func (c *controlled) watchForLies(ctx context.Context, n int, lies chan<- string) {
	for ctx.Err() == nil {
		m, err := c.read(widgetsName)
		if err == nil {
			held, err := c.cluster.StoredVersions(ctx, testbed.WidgetsPrefix)
			if err == nil {
				s := m.Status
				lie := ""
				switch {
				case (s.State == v1alpha1.PhaseSucceeded || s.CompletedGeneration > 0) && held[v1] > 0:
					lie = fmt.Sprintf("Succeeded with %v in etcd", held)
				case s.Progress.Rewritten > int64(held[v2]):
					lie = fmt.Sprintf("claims %d rewritten with %v in etcd", s.Progress.Rewritten, held)
				case s.Progress.Done > int64(n):
					lie = fmt.Sprintf("claims %d done of %d", s.Progress.Done, n)
				case s.State == v1alpha1.PhaseFailed:
					lie = "Failed: " + s.Summary
				}
				if lie != "" {
					select {
					case lies <- lie:
					default:
					}
				}
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
