// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestTwentyKillsRepeatAtMostAPageEach(t *testing.T) {
	t.Parallel()
	const n, page, kills = 2000, 25, 20
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("KUBE_MIGRATOR_KILL_SEED"), 10, 64); err == nil {
		seed = given
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to kill at the same moments: KUBE_MIGRATOR_KILL_SEED=%d go test -run '^%s$'", seed, t.Name())
		}
	})
	cluster := staleWidgets(t, n, testbed.Widgets{})
	before := snapshot(t, cluster, testbed.WidgetsPrefix)
	user, proxy := throughProxy(t, cluster)
	arguments := []string{"migrate", "widgets", "--resume", "--settle-time=1s", anyInFlight,
		"--page-size=" + strconv.Itoa(page), "--max-rate=200", "-o", "json"}

	killed, known := 0, map[string]bool{}
	for killed < kills {
		sent := len(patches(proxy))
		command, wait := user.start(arguments...)
		// A random number of rewrites later, so that kills fall on every part of a page, whatever the machine's speed.
		eventually(t, "the next kill", func() bool {
			return len(patches(proxy)) >= min(sent+1+random.IntN(3*page), n)
		})
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if out := wait(); out.code == 0 {
			t.Fatalf("finished after %d kills, before it could be killed %d times", killed, kills)
		}
		killed++
		again := 0
		for _, r := range patches(proxy)[sent:] {
			if known[r.Path] {
				again++
			}
			known[r.Path] = true
		}
		if again > page {
			t.Fatalf("run %d sent %d objects that earlier ones had sent, want at most a page of %d (I5)", killed, again,
				page)
		}
		if claimed := storedVersions(t, cluster); !slices.Equal(claimed, []string{"v1", "v2"}) {
			t.Fatalf("storedVersions = %v after kill %d: pruned before the proof (I2)", claimed, killed)
		}
	}
	got := report(t, user.run(0, arguments...))

	times := map[string]int{}
	for _, r := range patches(proxy) {
		times[r.Path]++
	}
	repeated := 0
	for _, n := range times {
		repeated += n - 1
	}
	t.Logf("%d kills, %d objects rewritten again", kills, repeated)
	if repeated > kills*page {
		t.Errorf("%d objects were rewritten again, want at most a page of %d for each of %d kills (I5)", repeated, page,
			kills)
	}
	if len(times) != n || got.Result.Total != n || got.Result.Counts.Done()-got.Result.Counts.Failed != n || !got.Result.Proven {
		t.Errorf("%d of %d objects rewritten; result %+v", len(times), n, got.Result)
	}
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	if changes := before.Diff(snapshot(t, cluster, testbed.WidgetsPrefix)); !changes.None() {
		t.Errorf("the migration changed objects (I3): %+v", changes)
	}
}
