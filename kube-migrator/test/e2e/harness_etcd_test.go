// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// stored counts what etcd holds below a prefix by version.
func stored(t *testing.T, cluster *testbed.Cluster, prefix string) map[string]int {
	t.Helper()
	versions, err := cluster.StoredVersions(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

func wantStored(t *testing.T, cluster *testbed.Cluster, prefix string, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, stored(t, cluster, prefix)); diff != "" {
		t.Errorf("etcd below %s (-want +got):\n%s", prefix, diff)
	}
}

func snapshot(t *testing.T, cluster *testbed.Cluster, prefix string) testbed.Snapshot {
	t.Helper()
	s, err := cluster.Snapshot(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// revisions maps every key below a prefix to the revision that wrote it: nothing can be written without one of them
// moving.
func revisions(t *testing.T, cluster *testbed.Cluster, prefix string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	if err := cluster.EachRaw(t.Context(), prefix, func(key string, _ []byte,
		revision int64) {
		all[key] = revision
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func wantUnmoved(t *testing.T, cluster *testbed.Cluster, prefix string, before map[string]int64) {
	t.Helper()
	if after := revisions(t, cluster, prefix); !maps.Equal(before, after) {
		t.Errorf("objects below %s were written (-want +got):\n%s", prefix, cmp.Diff(before, after))
	}
}

// wantPreserved expects that no object was created, deleted or changed (I3).
func wantPreserved(t *testing.T, cluster *testbed.Cluster, prefix string, before testbed.Snapshot) {
	t.Helper()
	if changes := before.Diff(snapshot(t, cluster, prefix)); !changes.None() {
		t.Errorf("the migration changed objects (I3): %+v", changes)
	}
}
