// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const flundersName = "flunders.wardle.example.com"

var flunderKind = testbed.Kind{Group: "wardle.example.com", Version: "v1", Kind: "Flunder", Plural: "flunders"}

// serveFlunders is a process of an aggregated API server, at an address that EndpointSlices may list, with its own
// certificate authority.
func serveFlunders(t *testing.T, cluster *testbed.Cluster) (port int, ca []byte) {
	t.Helper()
	listener, err := cluster.Listen(t.Context(), net.JoinHostPort(cluster.Servers[0].Address(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, ca, err := testbed.ServingCertificate("flunders.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/wardle.example.com/v1":
			fmt.Fprintf(
				w,
				`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1", "resources": [
			 {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["list", "patch"], "storageVersionHash": %q}]}`,
				flunderKind.Hash("wardle.example.com/v1"),
			)
		case "/apis/wardle.example.com/v1/flunders":
			fmt.Fprint(
				w,
				`{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"}, "items": []}`,
			)
		default:
			http.NotFound(w, r)
		}
	}))
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return listener.Addr().(*net.TCPAddr).Port, ca
}

// A pod of an aggregated API server comes and goes while the controller does not look: what it stored is not known.
func TestAPodOfAnAggregatedAPIServerThatCameAndWent(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{Isolated: true})
	c := newControlled(t, cluster)
	port, ca := serveFlunders(t, cluster)
	address := cluster.Servers[0].Address()
	slice := func(method, path string, pods ...string) {
		var endpoints []any
		for i, pod := range pods {
			at := address
			if i > 0 {
				at = fmt.Sprintf("192.0.2.%d", 200+i)
			}
			endpoints = append(endpoints, map[string]any{"addresses": []string{at},
				"targetRef": map[string]any{"kind": "Pod", "name": pod, "uid": pod}})
		}
		do(t, cluster, method, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"+path, map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
			"metadata": map[string]any{"name": "flunders-1",
				"labels": map[string]any{"kubernetes.io/service-name": "flunders"}},
			"ports": []any{map[string]any{"name": "https", "port": port}},
		})
	}
	slice(http.MethodPost, "", "a")
	do(t, cluster, http.MethodPost, "/api/v1/namespaces/default/services", map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "flunders"},
		"spec": map[string]any{"type": "ExternalName", "externalName": address},
	})
	do(t, cluster, http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices", map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.wardle.example.com"},
		"spec": map[string]any{
			"group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 1000,
			"versionPriority": 10, "caBundle": ca,
			"service": map[string]any{"namespace": "default", "name": "flunders", "port": port},
		},
	})
	p := c.controller("--auto-trigger", "--bootstrap=none", "--discovery-period=2s")
	c.untilState(flundersName, "recorded with an agreement",
		func(s *v1alpha1.StorageState) bool { return s.Status.AgreedEncodingVersion == "v1" })
	current := flunderKind.Hash("wardle.example.com/v1")
	eventually(t, "everything is said to be proven", func() bool { // as after a migration
		s := c.state(flundersName)
		s.Status.PersistedStorageVersionHashes, s.Status.PersistedVersions = []string{current}, []string{"v1"}
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		status, _, err := cluster.Servers[0].Do(t.Context(), http.MethodPut, states+"/"+flundersName+"/status", body)
		return err == nil && status == http.StatusOK
	})
	for range 2 {
		from := c.state(flundersName).Status.LastHeartbeatTime.Time
		s := c.untilState(flundersName, "looked at again",
			func(s *v1alpha1.StorageState) bool { return s.Status.LastHeartbeatTime.After(from) })
		if !persistedOnly("v1")(s) || holds(s, v1alpha1.ConditionMigrated) != metav1.ConditionTrue {
			t.Errorf("nothing happened, and the state is %+v", s.Status)
		}
	}
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	slice(http.MethodPut, "/flunders-1", "a", "canary")
	slice(http.MethodPut, "/flunders-1", "a")
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.untilState(flundersName, "in doubt", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, v1alpha1.Unknown)
	})
}
