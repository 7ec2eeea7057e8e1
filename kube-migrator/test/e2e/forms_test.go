// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// applies is the field manager of a server-side apply of no field.
const applies = "kube-migrator-rewrite"

// wantFormsHarmless migrates custom resources whose fields have owners of every kind, and expects that each object is
// rewritten by the form that leaves it as it was (I3).
func wantFormsHarmless(t *testing.T, cluster *testbed.Cluster) {
	g := gadgetsOf(t, cluster, "boxes")
	do(t, cluster, http.MethodPost, strings.TrimSuffix(crdsPath, "/"), withParts(g.crd("v1*", "v2")))
	g.ready("v1", "v2")
	parts := []any{map[string]any{"name": "a", "size": 1}, map[string]any{"name": "b", "size": 2}}
	free := map[string]any{"whole": 1.0, "large": int64(1)<<53 + 1, "empty": nil, "list": []any{}}
	create := func(name string) {
		do(t, cluster, http.MethodPost, g.collection("v1")+"?fieldManager=alice", map[string]any{
			"apiVersion": v1, "kind": g.kind(), "metadata": map[string]any{"name": name},
			"spec": map[string]any{"color": "red", "parts": parts, "free": free},
		})
	}
	for _, name := range []string{"updated", "unowned", "twice", "retired"} {
		create(name)
	}
	g.mustApply("alice", "v1", "applied", spec("color", "red", "parts", parts[:1], "free", free))
	g.mustApply("bob", "v1", "applied", spec("parts", parts[1:]))
	g.mustApply("carol", "v1", "applied", map[string]any{"status": map[string]any{"phase": "Ready"}})
	cluster.Loses(g.prefix(), "metadata.managedFields", "the test takes them away from one object")
	g.rewriteRaw("unowned", func(_, metadata map[string]any) { delete(metadata, "managedFields") })
	g.rewriteRaw("twice", func(object, _ map[string]any) {
		object["spec"].(map[string]any)["parts"] = append(parts, parts[0])
	})
	g.rewriteRaw("retired", func(_, metadata map[string]any) {
		metadata["managedFields"].([]any)[0].(map[string]any)["apiVersion"] = testbed.WidgetGroup + "/v0"
	})
	g.moveStorage("v2")
	before := snapshot(t, cluster, g.prefix())

	user, proxy := throughProxy(t, cluster)
	// The object without managedFields may have the field that v1 alone has, for all that anyone can see.
	got := user.migrate(0, g.name(), "--accept-field-loss=spec.legacy")

	if diff := cmp.Diff(migrate.Counts{Rewritten: 5}, got.Result.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	after := snapshot(t, cluster, g.prefix())
	if changes := before.Diff(after); !changes.None() {
		t.Errorf("the migration changed objects (I3): %+v", changes)
	}
	sent := map[string][]string{}
	for _, r := range proxy.Records() {
		if r.Method == http.MethodPatch && strings.HasPrefix(r.Path, g.collection("v2")) {
			name := path.Base(r.Path)
			sent[name] = append(sent[name], r.Query.Get("fieldManager"))
		}
	}
	const merges = "kube-migrator"
	if diff := cmp.Diff(map[string][]string{
		"updated": {applies}, "applied": {applies}, "unowned": {merges},
		"twice": {applies, merges}, "retired": {applies, merges},
	}, sent); diff != "" {
		t.Errorf("field managers of the patches (-want +got):\n%s", diff)
	}
}

// withParts adds a list that is a map, and a field without a schema, to the spec of each version.
func withParts(crd map[string]any) map[string]any {
	for _, version := range crd["spec"].(map[string]any)["versions"].([]any) {
		schema := version.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		fields := schema["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
		fields["free"] = map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		fields["parts"] = map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"name"},
			"items": map[string]any{"type": "object", "required": []any{"name"}, "properties": map[string]any{
				"name": map[string]any{"type": "string"}, "size": map[string]any{"type": "integer"}}},
		}
	}
	return crd
}
