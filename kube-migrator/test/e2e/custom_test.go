// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestCustomResourcesMoveFromV1ToV2(t *testing.T) {
	t.Parallel()
	const n = 800
	cluster := staleWidgets(t, n, testbed.Widgets{})
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
	before := snapshot(t, cluster, testbed.WidgetsPrefix)

	user := newCLI(t, cluster)
	got := user.migrate(0, "widgets")

	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	if claimed := storedVersions(t, cluster); !slices.Equal(claimed, []string{"v2"}) {
		t.Errorf("storedVersions = %v, want [v2]", claimed)
	}
	if changes := before.Diff(snapshot(t, cluster, testbed.WidgetsPrefix)); !changes.None() {
		t.Errorf("the migration changed objects (I3): %+v", changes)
	}
	if got.Outcome != render.Proven || got.Result.Epoch.Evidence != migrate.Observed {
		t.Errorf("outcome %s with evidence %v, want Proven and Observed", got.Outcome, got.Result.Epoch.Evidence)
	}
	if diff := cmp.Diff(migrate.Counts{Rewritten: n}, got.Result.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if !slices.Equal(got.StoredVersionsBefore, []string{"v1", "v2"}) ||
		!slices.Equal(got.StoredVersionsAfter, []string{"v2"}) {
		t.Errorf("storedVersions %v → %v, want [v1 v2] → [v2]", got.StoredVersionsBefore, got.StoredVersionsAfter)
	}

	t.Run("objects whose fields have owners of every kind stay as they are", func(t *testing.T) { wantFormsHarmless(t, cluster) })

	t.Run("and once more with --resume it costs nothing", func(t *testing.T) {
		user := *user
		user.t = t
		proxy := testbed.NewProxy(t, cluster)
		kubeconfig, err := proxy.Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		user.env = append(user.env, "KUBECONFIG="+kubeconfig)
		user.migrate(0, "widgets", "--resume")
		for _, r := range proxy.Records() {
			if r.Method == http.MethodPatch {
				t.Fatalf("a finished migration sent %s %s", r.Method, r.Path)
			}
		}
	})
}
