// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestTheOperatorMigratesItsResourceOnce(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{})
	for _, step := range []func() error{
		func() error { return cluster.InstallWidgets(t.Context(), testbed.Widgets{}) },
		func() error { return cluster.BulkCreate(t.Context(), testbed.Bulk{Count: 100}) },
		func() error { return cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	m := migration{config: cluster.Config(), namespace: "default", log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		servers: agreement.Options{ShutdownDelay: time.Nanosecond}, // no API server has left this cluster
		options: migrate.Options{SettleTime: time.Second}}
	if err := m.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	inEtcd, err := cluster.StoredVersions(t.Context(), testbed.WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{testbed.WidgetGroup + "/v2": 100}, inEtcd); diff != "" {
		t.Errorf("versions in etcd (-want +got):\n%s", diff)
	}
	if claimed := storedVersions(t, cluster); !cmp.Equal(claimed, []string{"v2"}) {
		t.Errorf("status.storedVersions is %v, want [v2]", claimed)
	}

	begin := time.Now()
	if err := m.run(t.Context()); err != nil || time.Since(begin) > m.options.SettleTime {
		t.Errorf("the next start took %v (%v), want it to find nothing to do", time.Since(begin), err)
	}
}

func storedVersions(t *testing.T, cluster *testbed.Cluster) []string {
	t.Helper()
	d, err := cluster.EditCRDStatus(t.Context(), testbed.WidgetCRD, func(map[string]any) {})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Status struct{ StoredVersions []string }
	}
	if err := json.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Status.StoredVersions
}
