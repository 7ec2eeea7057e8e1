// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// retireManagers writes into etcd that a widget's fields are managed in a version that is not there any more. Then the
// API server drops that with any write.
func retireManagers(t *testing.T, cluster *testbed.Cluster, name string) {
	t.Helper()
	rewriteRaw(t, cluster, testbed.WidgetsPrefix+"default/"+name, func(_, metadata map[string]any) {
		metadata["managedFields"] = []any{map[string]any{
			"manager": "old", "operation": "Update", "apiVersion": testbed.WidgetGroup + "/v0",
			"time":       "2020-01-01T00:00:00Z",
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:color": map[string]any{}}},
		}}
	})
}

// rewriteRaw edits what etcd holds of a custom resource.
func rewriteRaw(t *testing.T, cluster *testbed.Cluster, key string, edit func(object, metadata map[string]any)) {
	t.Helper()
	var object map[string]any
	err := cluster.EachRaw(t.Context(), key, func(found string, value []byte, _ int64) {
		if found == key {
			decode(t, value, &object)
		}
	})
	if err != nil || object == nil {
		t.Fatalf("read %s: %v", key, err)
	}
	edit(object, object["metadata"].(map[string]any))
	if err := cluster.PutRaw(t.Context(), key, mustJSON(object)); err != nil {
		t.Fatal(err)
	}
}

// storedVersions reads what the CRD of the widgets claims.
func storedVersions(t *testing.T, cluster *testbed.Cluster) []string {
	t.Helper()
	return widgetCRD(t, cluster).Status.StoredVersions
}

// widgetCRD reads the CRD of the widgets.
func widgetCRD(t *testing.T, cluster *testbed.Cluster) (d apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	get(t, cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+testbed.WidgetCRD, &d)
	return d
}

// staleWidgets makes a cluster that stores n widgets as v1 while their storage version is v2.
func staleWidgets(t *testing.T, n int, widgets testbed.Widgets) *testbed.Cluster {
	t.Helper()
	cluster := testbed.New(t, testbed.Options{})
	installStale(t, cluster, testbed.Bulk{Count: n}, widgets)
	return cluster
}

func installStale(t *testing.T, cluster *testbed.Cluster, bulk testbed.Bulk, widgets testbed.Widgets) {
	t.Helper()
	if err := cluster.InstallWidgets(t.Context(), widgets); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BulkCreate(t.Context(), bulk); err != nil {
		t.Fatal(err)
	}
	moveStorage(t, cluster, "v2")
}

func moveStorage(t *testing.T, cluster *testbed.Cluster, version string) {
	t.Helper()
	if err := cluster.MoveStorage(t.Context(), testbed.WidgetCRD, version); err != nil {
		t.Fatal(err)
	}
}

const (
	v1 = testbed.WidgetGroup + "/v1"
	v2 = testbed.WidgetGroup + "/v2"
)

func wantClaimed(t *testing.T, cluster *testbed.Cluster, want ...string) {
	t.Helper()
	if claimed := storedVersions(t, cluster); !slices.Equal(claimed, want) {
		t.Errorf("storedVersions = %v, want %v", claimed, want)
	}
}
