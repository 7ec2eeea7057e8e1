// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// unsafeSituations are situations in which nothing may be written, each with a resource of its own.
var unsafeSituations = []struct {
	name  string
	args  []string
	setup func(g *gadgets)
}{
	{"the storage version", []string{"--version=v2", "--unserve", "--remove"}, nil},
	{"the only version", []string{"--version=v2"}, func(g *gadgets) {
		g.do(http.MethodDelete, g.collection("v1")+"/g-000", nil)
		g.claim("v2")
		g.edit(func(versions []any) []any { return versions[1:] })
	}},
	{"a version that the CRD does not have", []string{"--version=v9"}, nil},
	{"a version that was never there is to be removed", []string{"--version=v9", "--remove"}, nil},
	{"a version that is still served is to be removed", []string{"--version=v1", "--remove"}, nil},
	{"no other version is served", []string{"--version=v1", "--unserve"}, func(g *gadgets) {
		g.edit(func(versions []any) []any {
			versions[1].(map[string]any)["served"] = false
			return versions
		})
	}},
	{"another version may be stored that no one can read", []string{"--version=v1"},
		func(g *gadgets) { g.claim("v0", "v1", "v2") }},
	{"objects cannot be read without a version that is gone", []string{"--version=v1", "--remove"}, func(g *gadgets) {
		g.claim("v2")
		g.edit(func(versions []any) []any { return versions[1:] })
	}},
	{"the conversion webhook does not answer", []string{"--version=v1", "--unserve"}, func(g *gadgets) {
		_, err := g.cluster.EditCRD(g.t.Context(), g.name(), func(d map[string]any) {
			d["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert",
					"caBundle": g.cluster.CA()},
				"conversionReviewVersions": []string{"v1"},
			}}
		})
		if err != nil {
			g.t.Fatal(err)
		}
	}},
	{"someone else migrates", []string{"--version=v1"}, func(g *gadgets) {
		const path = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
		name := g.name()
		g.do(http.MethodPost, path, map[string]any{
			"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{"resource": map[string]any{"group": testbed.WidgetGroup, "version": "v2",
				"resource": g.plural}},
		})
		g.do(http.MethodPatch, path+"/"+name+"/status", map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Running", "status": "True", "reason": "Rewriting", "message": "at work",
				"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"},
		}}})
	}},
	{"objects would lose a field", []string{"--version=v1", "--unserve", "--remove"}, func(g *gadgets) {
		g.mustApply("carol", "v1", "g-000", spec("legacy", "x"))
	}},
	{"objects would lose a field in a dry run", []string{"--version=v1", "--dry-run", "--accept-field-loss=spec.size"},
		func(g *gadgets) { g.mustApply("carol", "v1", "g-000", spec("legacy", "x")) }},
	{"a version that is served needs no rescue", []string{"--version=v1", "--rescue"}, nil},
}

// revision is what differs from run to run in what the API server says of an object.
var revision = regexp.MustCompile(`revision=\d+`)

func TestWhatCouldStrandAnObjectIsRefusedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	if err := cluster.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	all := make([]*gadgets, len(unsafeSituations))
	for i, situation := range unsafeSituations {
		all[i] = newGadgets(t, cluster, fmt.Sprintf("gadget%cs", 'a'+i))
		all[i].stale(1)
		if situation.setup != nil {
			situation.setup(all[i])
		}
	}
	if err := cluster.Servers[0].Restart(t.Context()); err != nil { // it holds nothing that was read before
		t.Fatal(err)
	}
	var b strings.Builder
	for i, situation := range unsafeSituations {
		g := all[i]
		g.t = t
		user, proxy := throughProxy(t, cluster)
		before, crd := revisions(t, cluster, g.prefix()), revisions(t, cluster, crdsPrefix+g.name())

		what, try := user.refused(append([]string{"retire", g.name(), "--settle-time=1s"}, situation.args...)...)

		fmt.Fprintf(&b, "%s\n  error: %s\n  Try: %s\n", situation.name,
			revision.ReplaceAllString(what, "revision=N"), try)
		wantUnwritten(t, proxy)
		wantUnmoved(t, cluster, g.prefix(), before)
		wantUnmoved(t, cluster, crdsPrefix+g.name(), crd)
	}
	golden.Compare(t, filepath.Join("testdata", "retire-refusals.txt"), b.String())
	wantCommandMovesStorage(t, all[0], b.String())
	// The invariants do not hold of what was made unsafe above.
	for _, g := range all {
		g.claim("v1", "v2")
	}
}

// wantCommandMovesStorage sends the patch of the first command that was shown.
func wantCommandMovesStorage(t *testing.T, g *gadgets, shown string) {
	t.Helper()
	_, patch, _ := strings.Cut(shown, "-p '")
	patch, _, _ = strings.Cut(patch, "'")
	err := g.client.Patch(types.JSONPatchType).AbsPath(crdsPath +
		g.name()).Body([]byte(patch)).Do(t.Context()).Error()
	if err != nil {
		t.Errorf("the command to move the storage version: %v", err)
	}
	g.wantVersions("v1 v2", "v1 served storage", "v2 served")
}
