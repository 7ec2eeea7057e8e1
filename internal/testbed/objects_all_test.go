// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBulkObjectsAreWhatAnAPIServerWouldHaveStored(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	ctx := t.Context()
	if err := c.InstallWidgets(ctx, Widgets{}); err != nil {
		t.Fatal(err)
	}
	const count = 10_000
	bulk := Bulk{Count: count, Labels: map[string]string{"app": "demo"}}
	begin := time.Now()
	if err := c.BulkCreate(ctx, bulk); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d objects in %s", count, time.Since(begin))

	seen, last := 0, ""
	err := c.EachRaw(ctx, WidgetsPrefix, func(key string, value []byte, modRevision int64) {
		if key != bulk.Key(seen) || key <= last || modRevision == 0 || len(value) != 1024 {
			t.Errorf("object %d: key %s, %d bytes, revision %d", seen, key, len(value), modRevision)
		}
		seen, last = seen+1, key
	})
	if err != nil || seen != count {
		t.Errorf("EachRaw has seen %d (%v), want %d", seen, err, count)
	}
	stored, err := c.StoredVersions(ctx, WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"demo.example.com/v1": count}, stored); diff != "" {
		t.Errorf("stored versions (-want +got):\n%s", diff)
	}

	// An empty patch in the same version must be recognized as no change: then every byte is as the API server would
	// write it.
	const name = "/apis/demo.example.com/v1/namespaces/default/widgets/widget-0000007"
	before, err := c.Raw(ctx, bulk.Key(7))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.request(ctx, http.MethodPatch, name, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.Raw(ctx, bulk.Key(7))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("an empty patch has rewritten the object (-before +after):\n%s", diff)
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &object); err != nil {
		t.Fatal(err)
	}
	if object.Generation != 1 || object.UID == "" || object.Labels["app"] != "demo" || len(object.ManagedFields) != 1 {
		t.Errorf("metadata is %+v", object.ObjectMeta)
	}
}

func TestSnapshotTellsAMigrationFromAChange(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	ctx := t.Context()
	if err := c.InstallWidgets(ctx, Widgets{}); err != nil {
		t.Fatal(err)
	}
	bulk := Bulk{Count: 5}
	if err := c.BulkCreate(ctx, bulk); err != nil {
		t.Fatal(err)
	}
	snapshot := func() Snapshot {
		t.Helper()
		s, err := c.Snapshot(ctx, WidgetsPrefix)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	patch := func(i int, body string) {
		t.Helper()
		path := fmt.Sprintf("/apis/demo.example.com/v2/namespaces/default/widgets/widget-%07d", i)
		if _, err := c.request(ctx, http.MethodPatch, path, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	before := snapshot()
	if err := c.MoveStorage(ctx, WidgetCRD, "v2"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		for i := range 5 {
			patch(i, "{}")
		}
		stored, err := c.StoredVersions(ctx, WidgetsPrefix)
		if err != nil {
			t.Fatal(err)
		}
		if stored["demo.example.com/v2"] == 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("stored versions are %v, want v2 alone", stored)
		}
	}
	if changes := before.Diff(snapshot()); !changes.None() {
		t.Errorf("a migration counts as %+v", changes)
	}

	patch(1, `{"spec":{"color":"black"}}`)
	patch(2, `{"metadata":{"labels":{"a":"b"}}}`)
	if err := c.DeleteRaw(ctx, bulk.Key(3)); err != nil {
		t.Fatal(err)
	}
	if err := c.BulkCreate(ctx, Bulk{First: 5, Count: 1}); err != nil {
		t.Fatal(err)
	}
	raw, err := c.Raw(ctx, bulk.Key(4))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutRaw(ctx, bulk.Key(4), []byte(strings.Replace(string(raw), `"uid":"`, `"uid":"x`, 1))); err != nil {
		t.Fatal(err)
	}
	want := Changes{
		Created: []string{bulk.Key(5)}, Deleted: []string{bulk.Key(3)},
		Changed: map[string][]string{
			bulk.Key(1): {"generation", "managedFields", "content"},
			bulk.Key(2): {"managedFields", "content"},
			bulk.Key(4): {"uid"},
		},
	}
	if diff := cmp.Diff(want, before.Diff(snapshot())); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestSnapshotComparesProtobufObjects(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	ctx := t.Context()
	const prefix = "/registry/namespaces/"
	before, err := c.Snapshot(ctx, prefix)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) == 0 || before[prefix+"default"].Opaque || before[prefix+"default"].UID == "" {
		t.Fatalf("snapshot is %+v", before)
	}
	if _, err := c.request(ctx, http.MethodPatch, "/api/v1/namespaces/default",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`)); err != nil {
		t.Fatal(err)
	}
	after, err := c.Snapshot(ctx, prefix)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"managedFields", "content"},
		before.Diff(after).Changed[prefix+"default"]); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	stored, err := c.StoredVersions(ctx, prefix)
	if err != nil || stored["v1"] != len(after) {
		t.Errorf("stored versions are %v (%v), want %d of v1", stored, err, len(after))
	}
}

func TestAKeyThatIsNotThereIsToldApart(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	if _, err := c.Raw(t.Context(), "/registry/nothing"); !errors.Is(err, ErrNoKey) {
		t.Errorf("error is %v, want ErrNoKey", err)
	}
}
