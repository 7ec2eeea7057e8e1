// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestTooManyRequestsLowersTheRate(t *testing.T) {
	t.Parallel()
	const n = 1200
	cluster := staleWidgets(t, n, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	patch := testbed.Method(http.MethodPatch)
	proxy.SetRules( // with latency, the rate is a matter of what is in flight
		testbed.Rule{Fault: testbed.Latency(50 * time.Millisecond), Match: patch},
		testbed.Rule{Fault: testbed.TooManyRequests(retryAfter), Match: patch, Skip: n / 2, Times: 1},
	)
	user.migrate(0, "widgets")

	sent := patches(proxy)
	refused := slices.IndexFunc(sent, func(r testbed.Record) bool { return r.Status == http.StatusTooManyRequests })
	if refused < 0 {
		t.Fatal("nothing was refused")
	}
	resumed := slices.IndexFunc(
		sent, func(r testbed.Record) bool { return r.Begin.After(sent[refused].End.Add(crossing)) },
	)
	if resumed < 0 {
		t.Fatal("nothing was sent after Retry-After")
	}
	before := inFlight(sent[max(0, refused-100):refused])
	// As many as were in flight before would start at once; what was lowered is not raised again before as many have
	// ended.
	after := inFlight(sent[resumed:min(len(sent), resumed+before)])
	t.Logf("%d requests in flight before 429, %d after Retry-After", before, after)
	if after > max(1, before*3/4) {
		t.Errorf("%d requests in flight before 429, %d after Retry-After: want fewer", before, after)
	}
	wantRespected(t, proxy)
}

// Another client creates, updates and deletes widgets all the time; it knows what must be there in the end.
func TestNothingIsLostOrCreatedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	const n = 1200
	cluster := staleWidgets(t, n, testbed.Widgets{})
	user := newCLI(t, cluster)
	done := make(chan struct{})
	var other sync.WaitGroup
	expected := map[string]string{} // name → color
	deleted := map[string]bool{}
	writes := 0
	other.Go(func() {
		random := rand.New(rand.NewPCG(1, 1))
		ticker := time.NewTicker(20 * time.Millisecond) // 50 a second
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			writes++
			old := fmt.Sprintf("widget-%07d", random.IntN(n))
			switch path := "/apis/" + v2 + "/namespaces/default/widgets"; i % 3 {
			case 0:
				name := fmt.Sprintf("new-%d", i)
				change(t, cluster, http.MethodPost, path, http.StatusCreated, map[string]any{
					"apiVersion": v2, "kind": "Widget", "metadata": map[string]any{"name": name},
					"spec": map[string]any{"color": "new"},
				})
				expected[name] = "new"
			case 1:
				if !deleted[old] {
					change(t, cluster, http.MethodPatch, path+"/"+old, http.StatusOK,
						map[string]any{"spec": map[string]any{"color": fmt.Sprint(i)}})
					expected[old] = fmt.Sprint(i)
				}
			case 2:
				if !deleted[old] {
					change(t, cluster, http.MethodDelete, path+"/"+old, http.StatusOK, nil)
					deleted[old] = true
					delete(expected, old)
				}
			}
		}
	})
	got := user.migrate(0, "widgets", "--max-rate=180")
	close(done)
	other.Wait()

	t.Logf("%d writes by the other client, counts %+v", writes, got.Result.Counts)
	if writes < 100 {
		t.Errorf("only %d writes by the other client", writes)
	}
	after := map[string]string{}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Color string }
		}
	}
	get(t, cluster, "/apis/"+v2+"/widgets", &list)
	for _, w := range list.Items {
		after[w.Metadata.Name] = w.Spec.Color
	}
	for name := range deleted {
		if _, there := after[name]; there {
			t.Errorf("%s was deleted and is there again (I3)", name)
		}
	}
	for name, color := range expected {
		if after[name] != color {
			t.Errorf("%s has color %q, want %q", name, after[name], color)
		}
	}
	created := 0
	for name := range expected {
		if name[0] == 'n' {
			created++
		}
	}
	if want := n - len(deleted) + created; len(after) != want {
		t.Errorf("%d objects, want %d", len(after), want)
	}
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: len(after)})
}

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
