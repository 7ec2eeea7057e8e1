// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A program shows in which version the API servers write Deployments, and how well that is known. Behind the one
// address of this example there may be any number of API servers, so the evidence is weak.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(loadBalancer))
	defer server.Close()
	config := &rest.Config{Host: server.URL} // rest.InClusterConfig() in a pod

	observer, err := agreement.NewObserver(config, agreement.Options{})
	if err != nil {
		log.Fatal(err)
	}
	deployments := observer.For(migrate.Target{
		Resource:   schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Kind:       "Deployment",
		Namespaced: true,
		Origin:     migrate.BuiltIn,
	})
	epoch, explanation, err := deployments.Look(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("hash:", epoch.Hash)
	fmt.Println("evidence:", epoch.Evidence)
	fmt.Println("version:", explanation.Version)
	fmt.Println("not stronger because", explanation.Reason)
	// Output:
	// hash: 8aSe+NMegvE=
	// evidence: Sampled
	// version: apps/v1
	// not stronger because the kubeconfig's address is not https
}

// loadBalancer answers as a cluster whose API servers all show the same version of Deployments, to an account that may
// read nothing but discovery.
func loadBalancer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/apps/v1" {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1", "resources": [{
		"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
		"verbs": ["get", "list", "patch"], "storageVersionHash": "8aSe+NMegvE="}]}`)
}
