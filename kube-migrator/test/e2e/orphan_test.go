// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestObjectsWhoseNamespaceIsGoneAreReportedAsOrphaned(t *testing.T) {
	t.Parallel()
	const n, namespaceKey = 200, "/registry/namespaces/lost"
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "lost"}}
	cluster := testbed.New(t, testbed.Options{})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BulkCreate(t.Context(), testbed.Bulk{Count: n}); err != nil {
		t.Fatal(err)
	}
	do(t, cluster, http.MethodPost, "/api/v1/namespaces", namespace)
	create(t, cluster, "/apis/"+v1+"/namespaces/lost/widgets", v1, "Widget", "orphan", 2,
		map[string]any{"spec": map[string]any{"size": 1}})
	moveStorage(t, cluster, "v2")
	selectNamespaces(t, cluster)
	if err := cluster.DeleteRaw(t.Context(), namespaceKey); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server misses the namespace", func() bool {
		path := "/apis/" + v2 + "/namespaces/lost/widgets/orphan-000?dryRun=All"
		status, _, err := cluster.Servers[0].Do(t.Context(), http.MethodPatch, path, []byte("{}"))
		return err == nil && status == http.StatusNotFound
	})
	before := snapshot(t, cluster, testbed.WidgetsPrefix)
	user := newCLI(t, cluster)

	got := user.migrate(4, "widgets")

	want := []migrate.Failure{
		{Namespace: "lost", Name: "orphan-000", Reason: migrate.Orphaned},
		{Namespace: "lost", Name: "orphan-001", Reason: migrate.Orphaned},
	}
	byName := cmpopts.SortSlices(func(a, b migrate.Failure) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, got.Result.Failures, byName,
		cmpopts.IgnoreFields(migrate.Failure{}, "Message", "ResourceVersion", "Generation")); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	wantCounts(t, migrate.Counts{Rewritten: n, Failed: 2}, got)
	if got.Outcome != render.Incomplete || got.Result.Proven || got.Result.Complete {
		t.Errorf("outcome %s, complete %v, proven %v: want Incomplete and neither", got.Outcome,
			got.Result.Complete, got.Result.Proven)
	}
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v1: 2, v2: n})
	wantClaimed(t, cluster, "v1", "v2")
	wantPreserved(t, cluster, testbed.WidgetsPrefix, before)

	// With the namespace back, the printed command finishes them.
	do(t, cluster, http.MethodPost, "/api/v1/namespaces", namespace)
	user.shell(0, got.Next)
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n + 2})
	wantClaimed(t, cluster, "v2")
}

// selectNamespaces registers a webhook that is about some namespaces, as most are, and allows everything. Since
// Kubernetes looks for a namespace's labels before it asks such a webhook, writes to a namespace that is gone are
// answered with 404.
func selectNamespaces(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	web, err := cluster.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // the API server is gone if this fails
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{"uid": review.Request.UID, "allowed": true},
		})
	}))
	if err != nil {
		t.Fatal(err)
	}
	do(t, cluster, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
		map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
			"metadata": map[string]any{"name": "outside-kube-system"},
			"webhooks": []any{map[string]any{
				"name": "outside-kube-system.example.com", "sideEffects": "None",
				"admissionReviewVersions": []string{"v1"},
				"clientConfig":            map[string]any{"url": web.URL, "caBundle": cluster.CA()},
				"namespaceSelector": map[string]any{"matchExpressions": []any{map[string]any{
					"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []string{"kube-system"},
				}}},
				"rules": []any{map[string]any{
					"apiGroups": []string{testbed.WidgetGroup}, "apiVersions": []string{"*"},
					"operations": []string{"UPDATE"}, "resources": []string{"widgets"},
				}},
			}},
		})
}
