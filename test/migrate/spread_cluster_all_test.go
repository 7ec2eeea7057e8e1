// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package migrate_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// widgetPatches are the samples of a server's metrics that count them, applies included.
var widgetPatches = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="widgets".*` +
	`verb="(?:APPLY|PATCH)".*\} (\d+)$`)

// patchesAt returns how many patches of widgets a server has answered with 200.
func patchesAt(t *testing.T, server *testbed.Server) (n int) {
	t.Helper()
	status, metrics, err := server.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("read metrics: %d, %v", status, err)
	}
	for _, sample := range widgetPatches.FindAllStringSubmatch(string(metrics), -1) {
		value, err := strconv.Atoi(sample[1])
		if err != nil {
			t.Fatal(err)
		}
		n += value
	}
	return n
}

// awaitEndpoints waits until every API server has listed itself, some seconds after its start.
func awaitEndpoints(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodGet, path, nil)
		missing := slices.ContainsFunc(cluster.Servers, func(s *testbed.Server) bool {
			return !strings.Contains(string(answer), `"`+s.Address()+`"`)
		})
		if !missing {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not every API server is listed after a minute: %s, %v", answer, err)
		}
	}
}

func TestPatchesAreSpreadOverThreeServersOfWhichOneStops(t *testing.T) {
	const objects = 1500
	cluster := testbed.New(t, testbed.Options{Isolated: true, Servers: make([]testbed.ServerOptions, 3),
		Flags: []string{"--request-timeout=5s"}}) // the time that a server takes to stop
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BulkCreate(t.Context(), testbed.Bulk{Count: objects}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"); err != nil {
		t.Fatal(err)
	}
	before, err := cluster.Snapshot(t.Context(), testbed.WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	awaitEndpoints(t, cluster)
	sweep := newSweep(t, cluster, widgetsV2, migrate.Options{MaxObjectsPerSecond: 200})
	var result migrate.Result
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, failed = sweep.Run(t.Context())
	}()
	for deadline := time.Now().Add(time.Minute); sweep.Progress().Counts.Rewritten < objects/3; {
		if time.Now().After(deadline) {
			t.Fatalf("%+v after a minute, want a third of the objects rewritten", sweep.Progress())
		}
		time.Sleep(50 * time.Millisecond)
	}
	var shares []int
	for _, server := range cluster.Servers {
		shares = append(shares, patchesAt(t, server))
	}
	if err := cluster.Servers[2].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	t.Logf("patches by server: %v; %+v", shares, result)
	for i, share := range shares {
		if share < objects/3/5 {
			t.Errorf("server %d answered %d of the first %d patches", i, share, objects/3)
		}
	}
	if failed != nil || !result.Proven || result.Counts.Failed != 0 || result.SpreadOver != 3 {
		t.Fatalf("%+v, %v, want it proven, and patches spread over 3 servers", result, failed)
	}
	if total := result.Counts.Done(); total != objects {
		t.Errorf("%d objects are accounted for, want %d", total, objects)
	}
	wantAllInV2(t, cluster, before, objects)
}
