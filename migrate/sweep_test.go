// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

var widgetsV2 = migrate.Target{
	Resource: schema.GroupVersionResource{Group: testbed.WidgetGroup, Version: "v2", Resource: "widgets"},
	Kind:     "Widget", Namespaced: true, Origin: migrate.Custom,
}

// stale makes a cluster that stores n widgets as v1 while their storage version is v2.
func stale(t *testing.T, n int) *testbed.Cluster {
	t.Helper()
	cluster := testbed.New(t, testbed.Options{})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BulkCreate(t.Context(), testbed.Bulk{Count: n}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.MoveStorage(t.Context(), testbed.WidgetDefinition, "v2"); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func newSweep(t *testing.T, cluster *testbed.Cluster, target migrate.Target, options migrate.Options) *migrate.Sweep {
	t.Helper()
	config := cluster.Config()
	client, err := migrate.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	servers, err := agreement.New(config, target, agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if options.SettleTime == 0 {
		options.SettleTime = time.Second
	}
	return migrate.New(client, target, servers, options)
}

func stored(t *testing.T, cluster *testbed.Cluster, prefix string) map[string]int {
	t.Helper()
	versions, err := cluster.StoredVersions(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

func TestASweepRewritesEveryObjectAndProvesIt(t *testing.T) {
	cluster := stale(t, 2000)
	before, err := cluster.Snapshot(t.Context(), testbed.WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	sweep := newSweep(t, cluster, widgetsV2, migrate.Options{Verify: true})
	result, err := sweep.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", result)
	t.Logf("%+v", sweep.Progress().Pace)
	if diff := cmp.Diff(map[string]int{testbed.WidgetGroup + "/v2": 2000}, stored(t, cluster, testbed.WidgetsPrefix)); diff != "" {
		t.Errorf("stored versions (-want +got):\n%s", diff)
	}
	after, err := cluster.Snapshot(t.Context(), testbed.WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if changes := before.Diff(after); !changes.None() {
		t.Errorf("the sweep changed objects (I3): %+v", changes)
	}
	if diff := cmp.Diff(migrate.Counts{Rewritten: 2000}, result.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if !result.Proven || !result.Verified || result.Epoch.Evidence != migrate.Observed {
		t.Errorf("result = %+v, want it proven and verified by observed servers", result)
	}
}
