// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// An etcd that was restored from a backup holds old objects, and its revision need not be lower than before: others
// have written meanwhile, or it was bumped on purpose. What a sweep knew from before must not be believed (I4, I5).
func TestARestoredEtcdThatHasCaughtUpIsRecognised(t *testing.T) {
	t.Parallel()
	const n, others = 300, 3000
	cluster := staleWidgets(t, n, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	backup, err := cluster.Etcd.Backup()
	if err != nil {
		t.Fatal(err)
	}
	restore := func() {
		t.Helper()
		if err := cluster.RestoreBumped(t.Context(), backup, etcdRevision(t, cluster)+others); err != nil {
			t.Fatal(err)
		}
		if held := stored(t, cluster, testbed.WidgetsPrefix)[v1]; held == 0 {
			t.Fatal("etcd holds nothing in the old version: the backup was of no use")
		}
	}

	user.migrate(0, "widgets")
	restore()
	got := user.migrate(0, "widgets", "--resume")
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	if !got.Result.Proven || got.Result.Counts.Rewritten != n {
		t.Errorf("a run that resumed after the restore = %+v, want all %d objects rewritten and proven", got.Result, n)
	}

	// One run lives through the restore, which restarts the API server.
	restore()
	before := len(patches(proxy))
	_, wait := user.start("migrate", "widgets", "--settle-time=1s", "--max-rate=60", anyInFlight,
		"--page-size=50", "-o", "json")
	eventually(t, "half of the objects are sent", func() bool { return len(patches(proxy))-before > n/2 })
	restore()
	lived := succeeded(t, wait())
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	if !lived.Result.Proven || lived.Result.Restarts == 0 {
		t.Errorf("a run that lived through the restore = %+v, want a new pass and a proof", lived.Result)
	}
}

// etcdRevision is the present one.
func etcdRevision(t *testing.T, cluster *testbed.Cluster) int64 {
	t.Helper()
	answer, err := cluster.Etcd.Client().Get(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	return answer.Header.Revision
}
