// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestEventsOfTwoGroupsAreOneResourceAndMigratedOnce(t *testing.T) {
	t.Parallel()
	const n, all, prefix = 40, "/registry/events/", "/registry/events/tested/"
	cluster := testbed.New(t, testbed.Options{})
	do(t, cluster, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "tested"}})
	create(t, cluster, "/api/v1/namespaces/tested/events", "v1", "Event", "core", n, map[string]any{
		"involvedObject": map[string]any{"kind": "Pod", "namespace": "tested", "name": "web"},
		"reason":         "Tested", "message": "an event of the core group", "type": "Normal",
	})
	create(t, cluster, "/apis/events.k8s.io/v1/namespaces/tested/events", "events.k8s.io/v1", "Event",
		"other", n, map[string]any{
			"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/test",
			"reportingInstance": "test-0",
			"regarding":         map[string]any{"kind": "Pod", "namespace": "tested", "name": "web"},
			"reason":            "Tested", "action": "Test", "note": "an event of events.k8s.io", "type": "Normal",
		})
	user, proxy := throughProxy(t, cluster)
	ofTheServer := func() (total int64) { // a slow one writes events of its own
		for _, count := range stored(t, cluster, all) {
			total += int64(count)
		}
		return total - 2*n
	}
	for _, arguments := range [][]string{{"--include=events*"}, {"events", "events.events.k8s.io"}} {
		t.Run(strings.Join(arguments, " "), func(t *testing.T) {
			// As an API server of long ago left them: in the other group, and as JSON.
			for i := range n {
				ageEvent(t, cluster, fmt.Sprintf("other-%03d", i))
			}
			wantStored(t, cluster, prefix, map[string]int{"v1": n, "events.k8s.io/v1": n})
			proxy.Forget()
			as := *user
			as.t = t
			before := ofTheServer()

			got := as.migrate(0, arguments...)

			wantStored(t, cluster, prefix, map[string]int{"v1": 2 * n})
			counts := got.Result.Counts
			if more := counts.Done() - 2*n; counts.Rewritten < n || counts.Current < n ||
				more < before || more > ofTheServer() {
				t.Errorf("counts %+v for %d events in the old version, %d in the current one, and %d of the API server",
					counts, n, n, before)
			}
			if got.Resource != "events" || got.StorageVersion != "v1" {
				t.Errorf("migrated %s to %s, want events to v1", got.Resource, got.StorageVersion)
			}
			sent := map[string]int{}
			for _, r := range patches(proxy) {
				if !strings.Contains(r.Path, "/namespaces/tested/") {
					continue
				}
				sent[r.Path]++
				if !strings.HasPrefix(r.Path, "/api/v1/") || sent[r.Path] > 1 {
					t.Errorf("patch %d of %s, want one of each event, at v1 of the core group", sent[r.Path], r.Path)
				}
			}
			if len(sent) != 2*n {
				t.Errorf("%d events were patched, want %d", len(sent), 2*n)
			}
		})
	}
}

// ageEvent stores an event as it is in the group events.k8s.io.
func ageEvent(t *testing.T, cluster *testbed.Cluster, name string) {
	t.Helper()
	var event map[string]any
	decode(t, do(t, cluster, http.MethodGet, "/apis/events.k8s.io/v1/namespaces/tested/events/"+name, nil), &event)
	delete(event["metadata"].(map[string]any), "resourceVersion")
	if err := cluster.PutRaw(t.Context(), "/registry/events/tested/"+name, mustJSON(event)); err != nil {
		t.Fatal(err)
	}
}
