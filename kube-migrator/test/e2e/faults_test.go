// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

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
