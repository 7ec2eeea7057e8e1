// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// moments are the writes of a retirement before and after which it is killed: each is a PATCH of a path.
var moments = []struct {
	name string
	path func(g *gadgets) string
	skip func(objects int) int
}{
	{"the first object is rewritten", (*gadgets).item, func(int) int { return 0 }},
	{"the last object is rewritten", (*gadgets).item, func(n int) int { return n - 1 }},
	{"storedVersions is pruned", func(g *gadgets) string { return crdsPath + g.name() + "/status" },
		func(int) int { return 0 }},
	{"the first object's managedFields are moved", (*gadgets).item, func(n int) int { return n }},
	{"the last object's managedFields are moved", (*gadgets).item, func(n int) int { return 2*n - 1 }},
	{"the version is unserved", (*gadgets).whole, func(int) int { return 0 }},
	{"the version is removed", (*gadgets).whole, func(int) int { return 1 }},
}

func TestARetirementGoesOnWhereverItIsKilled(t *testing.T) {
	t.Parallel()
	const n = 6
	cluster := testbed.New(t, testbed.Options{})
	newGadgets(t, cluster, "anchors") // the group serves both versions, whatever becomes of the others
	for i, moment := range moments {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("when %s, after: %v", moment.name, after), func(t *testing.T) {
				t.Parallel()
				g := newGadgets(t, cluster, fmt.Sprintf("gadget%c%vs", 'a'+i, after))
				g.stale(n)
				user, proxy := throughProxy(t, cluster)
				path := moment.path(g)
				user.killed(proxy, after, moment.skip(n), func(r *http.Request) bool {
					return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, path) &&
						(path != g.whole() || r.URL.Path == path)
				}, "retire", g.name(), "--version=v1", "--unserve", "--remove", "--settle-time=1s")

				user.retire(0, g, "--unserve", "--remove")

				g.wantVersions("v2", "v2 served storage")
				g.wantUnnamed(n)
				if err := g.apply("mallory", "v2", "g-003", spec("color", "blue")); err == nil ||
					!strings.Contains(err.Error(), `"alice"`) {
					t.Errorf("someone else applies the color: %v, want a conflict with alice", err)
				}
			})
		}
	}
}
