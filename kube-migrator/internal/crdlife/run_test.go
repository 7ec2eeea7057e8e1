// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Between two generations a client may have made another version the storage version, and written objects in it (I2).
func TestAProofCountsOnlyForTheGenerationOfTheCRDThatWasMigrated(t *testing.T) {
	live := crdOf(t, "v1 v2:served,storage")
	live.object["metadata"].(map[string]any)["generation"] = 5
	live.object["status"] = map[string]any{"storedVersions": []string{"v1", "v2"}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := live.object
		switch {
		case strings.HasPrefix(r.URL.Path, statesPath):
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}
		case strings.HasSuffix(r.URL.Path, "/widgets"):
			answer = map[string]any{"items": []any{map[string]any{"metadata": map[string]any{"name": "w"}}}}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(api.Close)
	client, err := apiserver.NewClient(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		proof *migrate.Epoch
		want  StepName
	}{
		"no proof":                                            {nil, Migrate},
		"a proof for the CRD as it is":                        {&migrate.Epoch{CRDUID: "u", CRDGeneration: 5}, Prune},
		"a proof for an earlier generation":                   {&migrate.Epoch{CRDUID: "u", CRDGeneration: 4}, Migrate},
		"a proof for a later generation":                      {&migrate.Epoch{CRDUID: "u", CRDGeneration: 6}, Migrate},
		"a proof for a CRD of the same name that was deleted": {&migrate.Epoch{CRDUID: "x", CRDGeneration: 5}, Migrate},
	} {
		run := &Run{Applier: Applier{Client: client}, Intent: Intent{Program: "kube-migrator"}}
		_, plan, err := run.plan(t.Context(), &Upgrade{Next: crdOf(t, "v2:served,storage"), proof: tt.proof})
		if err != nil || len(plan.Steps) == 0 || plan.Steps[0].Name != tt.want {
			t.Errorf("%s: the plan is %+v (%v), want the first step %s", name, plan.Steps, err, tt.want)
		}
	}
}
