// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// labeller is a mutating webhook that labels the widgets whose name has a suffix. It counts its calls.
func labeller(t *testing.T, cluster *testbed.Cluster, suffix string) (calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server, err := cluster.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID    string `json:"uid"`
				Name   string `json:"name"`
				DryRun bool   `json:"dryRun"`
				Object struct {
					Metadata struct {
						Labels map[string]string `json:"labels"`
					} `json:"metadata"`
				} `json:"object"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if !review.Request.DryRun {
			calls.Add(1)
		}
		response := map[string]any{"uid": review.Request.UID, "allowed": true}
		if strings.HasSuffix(review.Request.Name, suffix) && review.Request.Object.Metadata.Labels["labelled"] == "" {
			response["patchType"] = "JSONPatch"
			response["patch"] = []byte(`[{"op":"add","path":"/metadata/labels","value":{"labelled":"yes"}}]`)
		}
		answer := map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	do(t, cluster, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
			"metadata": map[string]any{"name": "labeller"},
			"webhooks": []any{map[string]any{
				"name": "labeller.example.com", "sideEffects": "None", "admissionReviewVersions": []string{"v1"},
				"clientConfig": map[string]any{"url": server.URL + "/label", "caBundle": cluster.CA()},
				"rules": []any{map[string]any{
					"apiGroups": []string{testbed.WidgetGroup}, "apiVersions": []string{"*"},
					"resources": []string{"widgets"}, "operations": []string{"UPDATE"},
				}},
			}},
		})
	eventually(t, "the webhook labels", func() bool {
		status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPatch,
			"/apis/"+v2+"/namespaces/default/widgets/widget-0000007?dryRun=All", []byte("{}"))
		return err == nil && status == http.StatusOK && strings.Contains(string(answer), "labelled")
	})
	return calls
}

// The API server runs admission on the object in its watch cache, finds other bytes in etcd, and begins again: twice
// for each stale object. What admission changes on its own account is reported, also where no generation moves (I3).
func TestAdmissionRunsTwiceForAStaleObjectAndItsChangesAreReported(t *testing.T) {
	t.Parallel()
	const n, labelled = 100, 10
	cluster := staleWidgets(t, n, testbed.Widgets{})
	calls := labeller(t, cluster, "7")
	user := newCLI(t, cluster)

	wantCounts(t, migrate.Counts{Rewritten: n, ChangedByAdmission: labelled}, user.migrate(0, "widgets"))
	if got, want := calls.Swap(0), int64(2*n-labelled); got != want { // what admission changes needs no second look
		t.Errorf("%d calls of the webhook for %d stale objects, want %d", got, n, want)
	}
	wantCounts(t, migrate.Counts{Current: n}, user.migrate(0, "widgets"))
	if got := calls.Load(); got != n {
		t.Errorf("%d calls of the webhook for %d objects that are current, want one for each", got, n)
	}
}
