// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A StorageState that was created again knows nothing of what the run has seen (I2).
func TestAProofByHandIsNotRecordedInAnotherStorageState(t *testing.T) {
	uid := "before"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet || r.URL.Path != "/apis/migration.k8s.io/v1alpha1/storagestates/widgets.example.com" {
			t.Errorf("%s %s, want only the StorageState to be read", r.Method, r.URL.Path)
		}
		fmt.Fprintf(w, `{"metadata":{"name":"widgets.example.com","uid":%q},"status":{"evidence":"Observed"}}`, uid)
	}))
	defer server.Close()
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	h := PrepareByHand(t.Context(), client, inventory.Resource{
		GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}})
	uid = "after"
	const want = "it was deleted and created again since the run started"
	versions, why := h.Record(t.Context(), migrate.Epoch{Hash: "h", Evidence: migrate.Observed}, 1)
	if why != want || len(versions) > 0 {
		t.Errorf("%v, %q, want none, %q", versions, why, want)
	}
}
