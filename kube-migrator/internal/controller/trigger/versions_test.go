// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// A look whose discovery differs from the last one in nothing but the storage version of a CRD still changes what the
// worker may rewrite.
func TestTheVersionsFollowTheStorageVersionOfACRDAndAreWrittenOnlyThen(t *testing.T) {
	const rolePath = "/apis/rbac.authorization.k8s.io/v1/clusterroles/versions"
	storage, writes := "v1", 0
	role := rbacv1.ClusterRole{}
	role.Name, role.ResourceVersion = "versions", "7"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == rolePath:
			raw, err := io.ReadAll(r.Body)
			if err := errors.Join(err, json.Unmarshal(raw, &role)); err != nil || role.ResourceVersion != "7" {
				t.Errorf("%v: the role is written without the resourceVersion that was read: %s", err, raw)
			}
			writes++
		case r.URL.Path == rolePath:
			_ = json.NewEncoder(w).Encode(role)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"groups": [{"name": "demo.example.com", "versions": [{"version": "v2"}, {"version": "v1"}]}]}`)
		case r.URL.Path == "/apis/demo.example.com/v1", r.URL.Path == "/apis/demo.example.com/v2":
			fmt.Fprint(w, `{"resources": [{"name": "widgets", "kind": "Widget", "namespaced": true,
			 "storageVersionHash": "`+hashOf("v1")+`", "verbs": ["get", "list", "patch"]}]}`) // it lags behind the CRD
		case r.URL.Path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions":
			fmt.Fprintf(w, `{"items": [{"metadata": {"name": "widgets.demo.example.com"}, "spec": {"group": "demo.example.com",
			 "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": %t},
			 {"name": "v2", "served": true, "storage": %t}]}, "status": {"conditions": [{"type": "Established",
			 "status": "True"}]}}]}`, storage == "v1", storage == "v2")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o, g := observer{rest: client}, grants{rest: client, versions: "versions"}
	for _, storage = range []string{"v1", "v1", "v2", "v2"} {
		views := []agreement.Verdict{{Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
			Versions: []string{"v1", "v2"}, CRD: &agreement.CRD{Storage: storage}}}
		if err := o.learn(t.Context(), views); err != nil {
			t.Fatal(err)
		}
		if err := g.follow(t.Context(), o.known, Options{}.excludes); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(role.Rules), fmt.Sprint([]rbacv1.PolicyRule{{APIGroups: []string{"demo.example.com"},
			Resources: []string{"widgets"}, ResourceNames: []string{storage}, Verbs: []string{"rewrite"}}}); got != want {
			t.Errorf("while %s is stored the rules are %s, want %s", storage, got, want)
		}
	}
	if writes != 2 {
		t.Errorf("the role was written %d times, want 2", writes)
	}
	if err := (grants{}).follow(t.Context(), o.known, Options{}.excludes); err != nil { // without a client
		t.Errorf("without a role: %v", err)
	}
}
