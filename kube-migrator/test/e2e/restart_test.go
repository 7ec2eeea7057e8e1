// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// answeredPatches counts the patches that came to something.
func answeredPatches(proxy *testbed.Proxy) (n int) {
	for _, r := range patches(proxy) {
		if r.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// A restarted API server is another process: it begins a new epoch and so a new pass. What the first pass has done lies
// in a good range and is not sent again, but for what was read too shortly before the last look to be sure of.
func TestARestartedServerBeginsANewPassThatSkipsWhatIsDone(t *testing.T) {
	t.Parallel()
	const n, rate = 1600, 100
	cluster := staleWidgets(t, n, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	_, wait := user.start("migrate", "widgets", "--settle-time=1s", "--max-rate=100", anyInFlight,
		"--page-size=50", "-o", "json")
	eventually(t, "half of the objects are sent", func() bool { return len(patches(proxy)) > n/2 })
	cluster.Servers[0].Kill()
	if err := cluster.Servers[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := succeeded(t, wait())
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	answered := answeredPatches(proxy)
	c := got.Result.Counts
	t.Logf("%d patches answered, counts %+v, %d restarts", answered, c, got.Result.Restarts)
	if got.Result.Restarts != 1 || c.RewrittenBefore == 0 || !got.Result.Proven {
		t.Errorf("result = %+v, want one restart, after which something was left to skip", got.Result)
	}
	if done := c.Rewritten + c.Current; done != n {
		t.Errorf("%d objects in the pass that proves it, want %d", done, n)
	}
	const unsure = 5 * rate // a look every second, a second of grace, and the looks that failed
	if again := answered - n; again > unsure {
		t.Errorf("%d objects were sent again, want at most %d of %d (I5)", again, unsure, n/2)
	}
}

// Servers that are restarted one after the other are a new epoch each time. What is proven to be done lies in a good
// range or in the good prefix, nothing is written while a server does not answer, and so little is sent twice: also
// with the whole grace, which a settle time of less would shorten.
func TestServersRestartedTwiceInMidSweep(t *testing.T) {
	t.Parallel()
	const n, page, restarts = 2400, 120, 4
	cluster := testbed.New(t, testbed.Options{Isolated: true,
		Servers: make([]testbed.ServerOptions, 2), Flags: quickStop})
	installStale(t, cluster, testbed.Bulk{Count: n}, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	_, wait := user.start("migrate", "widgets", "--settle-time=10s", "--max-rate=90", anyInFlight,
		"--single-address", fmt.Sprintf("--page-size=%d", page), "-o", "json") // the proxy sees every patch
	for i := range restarts {
		eventually(t, "a further part of the objects is sent", func() bool {
			return stored(t, cluster, testbed.WidgetsPrefix)[v2] >= (i+1)*n/(restarts+2)
		})
		server, other := cluster.Servers[i%2], cluster.Servers[(i+1)%2]
		proxy.Target(other) // a load balancer takes a server away that is about to stop
		if i < restarts/2 {
			if err := server.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else {
			server.Kill() // and leaves its Lease
		}
		time.Sleep(4 * time.Second) // a pod or a machine needs longer
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := succeeded(t, wait())
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	answered := answeredPatches(proxy)
	t.Logf("%d patches answered for %d objects, counts %+v, %d restarts", answered, n,
		got.Result.Counts, got.Result.Restarts)
	if got.Result.Restarts < restarts || !got.Result.Proven {
		t.Errorf("result = %+v, want it proven after %d epochs", got.Result, restarts)
	}
	if limit := n*11/10 + restarts*page; answered > limit {
		t.Errorf("%d patches were answered, want at most %d (I5)", answered, limit)
	}
}
