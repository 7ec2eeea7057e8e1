// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

// A storage version that flips while a migration runs: what was rewritten before may have been stored in the old
// version since.
func TestAStorageVersionThatFlipsBackIsNeverTakenForSuccess(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *testbed.Cluster)
	}{
		{"and stays: the run ends, and says so", flipAndStay},
		{"and forth between two looks: a new pass begins", flipUnseen},
		{"and forth with an old write between two looks: the new pass finds it", flipAndWrite},
		{"and forth before the settle time is over: nothing is concluded", flipAndInterrupt},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, cluster) })
	}
}

const flipObjects = 500

// halfway begins a migration of widgets that are stored as v1, and returns when some of them are rewritten.
func halfway(t *testing.T, cluster *testbed.Cluster,
	flags ...string) (user *cli, proxy *testbed.Proxy, running *flipping) {
	t.Helper()
	moveStorage(t, cluster, "v1")
	if err := cluster.BulkCreate(t.Context(), testbed.Bulk{Count: flipObjects}); err != nil {
		t.Fatal(err)
	}
	moveStorage(t, cluster, "v2")
	user, proxy = throughProxy(t, cluster)
	args := []string{"migrate", "widgets", "--max-rate=100", anyInFlight, "--page-size=25", "-o", "json"}
	command, wait := user.start(append(args, flags...)...)
	eventually(t, "some widgets are rewritten",
		func() bool { return stored(t, cluster, testbed.WidgetsPrefix)[v2] >= 50 })
	return user, proxy, &flipping{wait: wait, interrupt: func() { interrupt(t, command.Process) }}
}

type flipping struct {
	wait      func() output
	interrupt func()
}

func flipAndStay(t *testing.T, cluster *testbed.Cluster) {
	_, _, run := halfway(t, cluster, "--settle-time=1s")
	flip(t, cluster, "v1")

	out := run.wait()

	if out.code != 2 {
		t.Errorf("exit code %d, want 2\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	wantNoSuccess(t, cluster, report(t, out), render.Unfinished)
	if held := stored(t, cluster, testbed.WidgetsPrefix); held[v1] == 0 {
		t.Errorf("etcd holds %v: the flip came too late to test anything", held)
	}
}

func flipUnseen(t *testing.T, cluster *testbed.Cluster) {
	_, proxy, run := halfway(t, cluster, "--settle-time=1s")
	unseen(t, proxy, func() {
		flip(t, cluster, "v1")
		flip(t, cluster, "v2")
	})
	wantNewPass(t, cluster, run.wait())
}

func flipAndWrite(t *testing.T, cluster *testbed.Cluster) {
	// One of the first objects, rewritten long ago, is stored as v1 once more.
	const name = "default/widget-0000003"
	_, proxy, run := halfway(t, cluster, "--settle-time=1s")
	unseen(t, proxy, func() {
		flip(t, cluster, "v1")
		eventually(t, "a write in the old version", func() bool {
			now := time.Now().Format("150405.000000000")
			do(t, cluster, http.MethodPatch, "/apis/"+v1+"/namespaces/default/widgets/widget-0000003",
				map[string]any{"metadata": map[string]any{"labels": map[string]string{"written": now}}})
			return stored(t, cluster, testbed.WidgetsPrefix+name)[v1] == 1
		})
		moveStorage(t, cluster, "v2")
	})
	wantNewPass(t, cluster, run.wait())
}

func flipAndInterrupt(t *testing.T, cluster *testbed.Cluster) {
	const settle = 8 * time.Second
	user, proxy, run := halfway(t, cluster, "--settle-time="+settle.String())
	unseen(t, proxy, func() {
		flip(t, cluster, "v1")
		flip(t, cluster, "v2")
	})
	flipped := time.Now()
	time.Sleep(settle / 2)
	for _, r := range patches(proxy) {
		if r.Begin.After(flipped.Add(settle / 4)) {
			t.Fatalf("%v after the flip it sent %s %s: nothing may be begun before the settle time is over",
				r.Begin.Sub(flipped), r.Method, r.Path)
		}
	}
	run.interrupt()

	out := run.wait()

	if out.code != 130 {
		t.Fatalf("exit code %d, want 130\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	got := report(t, out)
	wantNoSuccess(t, cluster, got, render.Stopped)

	resumed := user.migrate(0, "widgets", "--resume")
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: flipObjects})
	wantClaimed(t, cluster, "v2")
	if resumed.Result.Restarts == 0 || resumed.Result.Epoch.CRDGeneration == got.Result.Epoch.CRDGeneration {
		t.Errorf("resumed after %d restarts in generation %d: want a new pass in a new epoch, it was %d",
			resumed.Result.Restarts, resumed.Result.Epoch.CRDGeneration, got.Result.Epoch.CRDGeneration)
	}
}

// unseen does something of which the running migration sees only what is left of it: it cannot look meanwhile.
func unseen(t *testing.T, proxy *testbed.Proxy, f func()) {
	t.Helper()
	isLook := func(method, path string) bool {
		return method == http.MethodGet && !strings.HasSuffix(path, v2+"/widgets")
	}
	proxy.SetRules(testbed.Rule{
		Fault: testbed.InternalError(),
		Match: func(r *http.Request) bool { return isLook(r.Method, r.URL.Path) },
	})
	eventually(t, "the looks that were begun before are over", func() bool {
		return !slices.ContainsFunc(proxy.Records(),
			func(r testbed.Record) bool { return r.End.IsZero() && isLook(r.Method, r.Path) })
	})
	f()
	proxy.SetRules()
}

// flip moves the storage version without waiting for anyone to notice.
func flip(t *testing.T, cluster *testbed.Cluster, version string) {
	t.Helper()
	editVersions(t, cluster, func(versions []any) []any {
		for _, v := range versions {
			v := v.(map[string]any)
			v["storage"] = v["name"] == version
		}
		return versions
	})
}

func wantNoSuccess(t *testing.T, cluster *testbed.Cluster, got render.Migration, want render.Outcome) {
	t.Helper()
	if got.Outcome != want || got.Result.Complete || got.Result.Proven || len(got.StoredVersionsAfter) > 0 {
		t.Errorf("outcome %s, complete %v, proven %v, pruned to %v: want %s and no success",
			got.Outcome, got.Result.Complete, got.Result.Proven, got.StoredVersionsAfter, want)
	}
	if claimed := storedVersions(t, cluster); len(claimed) != 2 {
		t.Errorf("storedVersions = %v, want it unpruned", claimed)
	}
}

func wantNewPass(t *testing.T, cluster *testbed.Cluster, out output) {
	t.Helper()
	if out.code != 0 {
		t.Fatalf("exit code %d, want 0\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	got := report(t, out)
	if got.Outcome != render.Proven || got.Result.Restarts == 0 {
		t.Errorf("outcome %s after %d restarts, want Proven by a new pass", got.Outcome, got.Result.Restarts)
	}
	if done := got.Result.Counts.Done() - got.Result.Counts.Failed; done != flipObjects {
		t.Errorf("the last pass accounts for %d objects, want %d", done, flipObjects)
	}
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: flipObjects})
	wantClaimed(t, cluster, "v2")
}
