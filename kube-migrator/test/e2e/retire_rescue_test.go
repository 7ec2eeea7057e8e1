// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// strand removes v1 from a CRD while objects are stored in it, as someone does who believes that nothing is.
func (g *gadgets) strand(n int, more ...any) {
	g.t.Helper()
	g.stale(n, more...)
	g.claim("v2")
	g.edit(func(versions []any) []any { return versions[1:] })
	eventually(g.t, "the objects cannot be read", func() bool {
		status, _, err := g.cluster.Servers[0].Do(g.t.Context(), http.MethodGet, g.collection("v2")+"/g-000", nil)
		return err == nil && status == http.StatusInternalServerError
	})
	wantStored(g.t, g.cluster, g.prefix(), map[string]int{v1: n})
}

func objectsThatDoNotListAreRescued(t *testing.T, g *gadgets) {
	const n = 5
	g.strand(n)
	user := newCLI(t, g.cluster)
	what, try := user.refused("retire", g.name(), "--version=v1", "--remove", "--settle-time=1s")
	if !strings.Contains(what, "traces") || !strings.Contains(try, "--rescue") {
		t.Fatalf("%s\nTry: %s; want it refused, and --rescue", what, try)
	}

	out := user.shell(0, strings.TrimSpace(try)+" --settle-time=1s")

	if !strings.Contains(out.stdout, "v1 is retired") {
		t.Errorf("it says\n%s", out.stdout)
	}
	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
	if got := g.get("v2", "g-003"); got.Spec["color"] != "red" || got.Spec["size"] != float64(3) {
		t.Errorf("the object is %v, want red and 3", got.Spec)
	}
	if err := g.apply("mallory", "v2", "g-003", spec("color", "blue")); err == nil ||
		!strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("someone else applies the color: %v, want a conflict with alice", err)
	}
	if again := user.retire(0, g, "--rescue"); len(again.Steps) != 1 || again.Steps[0].State != retire.Done {
		t.Errorf("the second time: %v, want nothing to rescue", again.Steps)
	}
}

func objectsThatNoOneCanApplyToAreRescued(t *testing.T, g *gadgets) {
	const n = 2
	g.stale(n)
	user := newCLI(t, g.cluster)
	user.migrate(0, g.name())
	g.edit(func(versions []any) []any { return versions[1:] })
	eventually(t, "no one can apply", func() bool {
		err := g.apply("alice", "v2", "g-000", spec("color", "blue"))
		return err != nil && strings.Contains(err.Error(), "invalid group/version")
	})
	what, try := user.refused("retire", g.name(), "--version=v1", "--remove", "--settle-time=1s")
	if !strings.Contains(what, "managedFields of 2 objects name it") {
		t.Errorf("it says %s", what)
	}

	user.shell(0, try+" --settle-time=1s")

	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
	g.mustApply("alice", "v2", "g-000", spec("color", "blue"))
	if got := g.get("v2", "g-000"); got.Spec["color"] != "blue" || got.Spec["payload"] != nil {
		t.Errorf("the spec is %v, want blue, and no payload, which alice did not apply again", got.Spec)
	}
}

func killedRescueGoesOn(t *testing.T, g *gadgets) {
	const n = 5
	g.strand(n)
	schema := filepath.Join(t.TempDir(), "old.json")
	old := do(t, g.cluster, http.MethodGet, crdsPath+g.name(), nil)
	if err := os.WriteFile(schema, []byte(strings.ReplaceAll(string(old), `"name":"v2"`,
		`"name":"v1"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	user, proxy := throughProxy(t, g.cluster)
	args := []string{"retire", g.name(), "--version=v1", "--rescue", "--schema-from=" +
		schema, "--settle-time=1s"}
	for i, path := range []string{g.whole(), g.whole() + "/status", g.item()} {
		skip := 0
		if path == g.item() {
			skip = n / 2
		}
		user.killed(proxy, true, skip, func(r *http.Request) bool {
			return r.Method == http.MethodPatch && (r.URL.Path == path || path == g.item() &&
				strings.Contains(r.URL.Path, path))
		}, args...)
		if versions, stored := g.versions(); len(versions) != 2 || versions[1] != "v1" || i > 0 && len(stored) != 2 {
			t.Fatalf("after %s: spec.versions %v, storedVersions %v", path, versions, stored)
		}
	}

	user.run(0, args...)

	g.wantVersions("v2", "v2 served storage")
	g.wantUnnamed(n)
}

func rescueLosesNoField(t *testing.T, g *gadgets) {
	converter := newConverter(t, g.cluster)
	converter.move = func(fields map[string]any, apiVersion string) { // what v1 calls legacy is the payload of v2
		from, to := "legacy", "payload"
		if apiVersion == v1 {
			from, to = to, from
		}
		fields[to] = fields[from]
		delete(fields, from)
	}
	if _, err := g.cluster.EditCRD(t.Context(), g.name(), func(d map[string]any) {
		d["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig":             map[string]any{"url": converter.web.URL, "caBundle": g.cluster.CA()},
			"conversionReviewVersions": []string{"v1"},
		}}
	}); err != nil {
		t.Fatal(err)
	}
	g.strand(1, "legacy", "old")
	g.cluster.Loses(g.prefix(), "spec.legacy", "the webhook moves it to payload")

	newCLI(t, g.cluster).retire(0, g, "--rescue")

	if got := g.get("v2", "g-000"); got.Spec["payload"] != "old" {
		t.Errorf("the spec is %v, want the payload that the webhook makes of what v1 calls legacy", got.Spec)
	}
	g.wantUnnamed(1)
}
