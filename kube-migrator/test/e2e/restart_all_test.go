// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"net/http"
	"testing"

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
