// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

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
