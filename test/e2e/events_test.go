// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestEventsOfTwoGroupsAreOneResourceAndMigratedOnce(t *testing.T) {
	t.Parallel()
	const n, prefix = 40, "/registry/events/"
	cluster := testbed.New(t, testbed.Options{})
	create(t, cluster, "/api/v1/namespaces/default/events", "v1", "Event", "core", n, map[string]any{
		"involvedObject": map[string]any{"kind": "Pod", "namespace": "default", "name": "web"},
		"reason":         "Tested", "message": "an event of the core group", "type": "Normal",
	})
	create(t, cluster, "/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io/v1", "Event", "other", n, map[string]any{
		"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/test", "reportingInstance": "test-0",
		"regarding": map[string]any{"kind": "Pod", "namespace": "default", "name": "web"},
		"reason":    "Tested", "action": "Test", "note": "an event of events.k8s.io", "type": "Normal",
	})
	user, proxy := throughProxy(t, cluster)
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

			got := as.migrate(0, arguments...)

			wantStored(t, cluster, prefix, map[string]int{"v1": 2 * n})
			wantCounts(t, migrate.Counts{Rewritten: n, Current: n}, got)
			if got.Resource != "events" || got.StorageVersion != "v1" {
				t.Errorf("migrated %s to %s, want events to v1", got.Resource, got.StorageVersion)
			}
			sent := map[string]int{}
			for _, r := range patches(proxy) {
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
	decode(t, do(t, cluster, http.MethodGet, "/apis/events.k8s.io/v1/namespaces/default/events/"+name, nil), &event)
	delete(event["metadata"].(map[string]any), "resourceVersion")
	if err := cluster.PutRaw(t.Context(), "/registry/events/default/"+name, mustJSON(event)); err != nil {
		t.Fatal(err)
	}
}
