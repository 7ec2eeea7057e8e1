// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestASweepCompletesThroughFaults(t *testing.T) {
	t.Parallel()
	const n = 1200
	cluster := staleWidgets(t, n, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	patch := testbed.Method(http.MethodPatch)
	proxy.SetRules( // primes, so that no fault hides behind another
		testbed.Rule{Fault: testbed.Latency(50 * time.Millisecond)},
		testbed.Rule{Fault: testbed.ResetBefore(), Match: patch, Skip: 103, Every: 251},
		testbed.Rule{Fault: testbed.ResetAfter(), Match: patch, Skip: 207, Every: 257},
		testbed.Rule{Fault: testbed.InternalError(), Match: patch, Every: 47},
		testbed.Rule{Fault: testbed.Unavailable(0), Match: patch, Skip: 151, Every: 401},
		testbed.Rule{Fault: testbed.TooManyRequests(retryAfter), Match: patch, Skip: 301, Every: 397, Times: 3},
		testbed.Rule{Fault: testbed.Expired(true), Match: testbed.NextPage, Every: 4},
		testbed.Rule{Fault: testbed.Expired(false), Match: testbed.NextPage, Skip: 6, Times: 1},
	)
	got := user.migrate(0, "widgets", "--page-size=100")

	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	faults := map[string]int{}
	for _, r := range proxy.Records() {
		for _, f := range r.Faults {
			faults[f]++
		}
	}
	t.Logf("faults %v, counts %+v, throttled %d", faults, got.Result.Counts, got.Result.Throttled)
	if len(faults) != 7 {
		t.Errorf("not every kind of fault was met: %v", faults)
	}
	counts := got.Result.Counts
	if counts.Done()-counts.Failed < n || counts.Retried == 0 || got.Result.Throttled < 3 || !got.Result.Proven {
		t.Errorf("result = %+v, want %d objects accounted for, retries, and at least 3 throttled requests", got.Result,
			n)
	}
	wantRespected(t, proxy)
}

// retryAfter is what refusals ask for, crossing the time in which a refusal may reach the client, however busy the
// machine is.
const retryAfter, crossing = 3 * time.Second, time.Second

// wantRespected fails if a request was sent while the server had asked for none (I7).
func wantRespected(t *testing.T, proxy *testbed.Proxy) {
	t.Helper()
	if early := proxy.DuringRetryAfter(crossing); len(early) > 0 {
		t.Errorf("%d requests were sent during Retry-After (I7), the first: %+v", len(early), early[0])
	}
}

// inFlight is how many of the requests were in flight at once, at most.
func inFlight(records []testbed.Record) (most int) {
	for _, r := range records {
		n := 0
		for _, other := range records {
			if !other.Begin.After(r.Begin) && other.End.After(r.Begin) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// change is do for goroutines other than the test's: it reports and goes on.
func change(t *testing.T, cluster *testbed.Cluster, method, path string, want int, body any) {
	var raw []byte
	if body != nil {
		raw = mustJSON(body)
	}
	status, answer, err := cluster.Servers[0].Do(t.Context(), method, path, raw)
	if err != nil || status != want {
		t.Errorf("%s %s: %d %s (%v)", method, path, status, answer, err)
	}
}
