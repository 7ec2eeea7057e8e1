// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

var dispatched = regexp.MustCompile(`(?m)^apiserver_flowcontrol_dispatched_requests_total\{.* ([0-9.e+]+)$`)

// answered counts the requests that API servers have begun to answer, those for discovery and watches among them.
func answered(t *testing.T, cluster *testbed.Cluster) (requests float64) {
	t.Helper()
	for _, s := range cluster.Servers {
		_, body, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range dispatched.FindAllSubmatch(body, -1) {
			n, err := strconv.ParseFloat(string(line[1]), 64)
			if err != nil {
				t.Fatal(err)
			}
			requests += n
		}
	}
	return requests
}

// TestWhatLooksBehindABalancerCost measures what docs/benchmarks.md says of three API servers behind one address and 300
// CRDs, each a group of its own: the requests that the API servers answer, less those of a cluster without a controller,
// and the bytes that pass the balancer.
func TestWhatLooksBehindABalancerCost(t *testing.T) {
	const things, period, idle, of = 300, 20 * time.Second, 5 * time.Minute, "things.g299.example.com"
	cluster := testbed.New(t, testbed.Options{Isolated: true, Flags: []string{oneAddress},
		Servers: make([]testbed.ServerOptions, 3)})
	c := newControlled(t, cluster)
	if err := cluster.DefineThings(t.Context(), things, 20<<10); err != nil {
		t.Fatal(err)
	}
	installStale(t, cluster, testbed.Bulk{Count: 100}, testbed.Widgets{})
	balancer, err := cluster.Balance()
	if err != nil {
		t.Fatal(err)
	}
	if c.kubeconfig, err = balancer.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	measure := func(work func()) (requests, bytes float64, took time.Duration) {
		from, passed, begin := answered(t, cluster), balancer.Bytes(), time.Now()
		work()
		return answered(t, cluster) - from, float64(balancer.Bytes() - passed), time.Since(begin)
	}
	quiet, _, took := measure(func() { time.Sleep(time.Minute) })
	others := quiet / took.Seconds()
	t.Logf("MEASURED: without a controller: %.2f requests/s", others)

	requests, bytes, took := measure(func() {
		newCLIWith(t, cluster, c.kubeconfig).run(0, "migrate", "widgets", "--settle-time=1s", "--max-rate=5")
	})
	t.Logf("MEASURED: a migration of 100 objects, 5 in a second, %s: %.0f requests, %.1f MB", took.Round(time.Second),
		requests-others*took.Seconds(), bytes/1e6)

	p := c.triggering("--bootstrap=none", "--discovery-period="+period.String())
	heartbeat := func() time.Time { return c.state(of).Status.LastHeartbeatTime.Time }
	next := func(looks int) {
		for range looks {
			from := heartbeat()
			c.untilState(of, "looked at again",
				func(s *v1alpha1.StorageState) bool { return s.Status.LastHeartbeatTime.After(from) })
		}
	}
	c.untilState(of, "recorded", func(s *v1alpha1.StorageState) bool { return s.Status.CurrentVersion == "v1" })
	time.Sleep(2 * period) // what the start had to learn is learnt
	next(1)
	const looks = 5
	requests, bytes, took = measure(func() { next(looks) })
	t.Logf("MEASURED: a look at rest: %.0f requests, %.2f MB (%d looks in %s)", (requests-others*took.Seconds())/looks,
		bytes/1e6/looks, looks, took.Round(time.Second))
	t.Logf("evidence: %s", c.state(of).Status.Evidence)
	c.end(p)

	c.triggering("--bootstrap=none")
	time.Sleep(time.Minute)
	requests, bytes, took = measure(func() { time.Sleep(idle) })
	rate := requests/took.Seconds() - others
	t.Logf("MEASURED: an idle controller: %.2f requests/s, %.1f kB/s", rate, bytes/1e3/took.Seconds())
	const most = 1.5
	if rate > most {
		t.Errorf("an idle controller sends %.2f requests per second, want %.1f at most", rate, most)
	}
}
