// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package testbed

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsolatedServersHaveIdentitiesOfTheirOwnAndDisagree(t *testing.T) {
	t.Parallel()
	c := New(t, Options{Release: V136, Isolated: true, Servers: []ServerOptions{
		{}, {Flags: []string{"--min-compatibility-version=1.33"}},
	}})
	ctx := t.Context()

	const path = "/apis/resource.k8s.io/v1"
	var hashes []string
	for _, s := range c.Servers {
		status, document, err := s.Do(ctx, http.MethodGet, path, nil)
		if err != nil || status != http.StatusOK {
			t.Fatalf("discovery of %s: %d %s (%v)", s.URL(), status, document, err)
		}
		hashes = append(hashes, discoveredHash(document, "deviceclasses"))
	}
	want := []string{versionHash("resource.k8s.io/v1/DeviceClass"), versionHash("resource.k8s.io/v1beta2/DeviceClass")}
	if diff := cmp.Diff(want, hashes); diff != "" {
		t.Errorf("storage version hashes (-want +got):\n%s", diff)
	}

	raw, err := c.request(ctx, http.MethodGet,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity=kube-apiserver", nil)
	if err != nil {
		t.Fatal(err)
	}
	var leases struct {
		Items []struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				HolderIdentity string `json:"holderIdentity"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &leases); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, lease := range leases.Items {
		hosts = append(hosts, lease.Metadata.Labels["kubernetes.io/hostname"])
	}
	slices.Sort(hosts)
	if diff := cmp.Diff([]string{"api-0", "api-1"}, hosts); diff != "" {
		t.Errorf("host names of the identity leases (-want +got):\n%s", diff)
	}

	var addresses []string
	for _, s := range c.Servers {
		addresses = append(addresses, s.Address())
	}
	if diff := cmp.Diff([]string{"192.0.2.10", "192.0.2.11"}, addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	err = c.everywhere(ctx, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", func(answer []byte) bool {
		return strings.Contains(string(answer), "192.0.2.10") && strings.Contains(string(answer), "192.0.2.11")
	})
	if err != nil {
		t.Errorf("the EndpointSlice default/kubernetes does not list both servers: %v", err)
	}

	if conn, err := net.Dial("tcp", c.Servers[0].Host()); err == nil {
		_ = conn.Close()
		t.Error("a server is reached from outside its namespace")
	}
	if err := list(t, c.Config(), namespaces); err != nil {
		t.Errorf("with the cluster's dialer: %v", err)
	}
	own, err := os.Hostname()
	if err != nil || strings.HasPrefix(own, "api-") {
		t.Errorf("the host name of the test is %q (%v)", own, err)
	}
}

func TestLoadBalancerTakesTurnsAndPassesOverTheDead(t *testing.T) {
	t.Parallel()
	for name, isolated := range map[string]bool{"plain": false, "isolated": true} {
		t.Run(name, func(t *testing.T) {
			c := New(t, Options{Isolated: isolated, Servers: make([]ServerOptions, 2)})
			ctx := t.Context()
			balancer, err := c.Balance()
			if err != nil {
				t.Fatal(err)
			}
			if err := list(t, balancer.Config(), namespaces); err != nil {
				t.Errorf("through the load balancer: %v", err)
			}
			twice := func() {
				t.Helper()
				for range 2 { // each with a new connection
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, balancer.URL()+
						"/apis/apps/v1/controllerrevisions", nil)
					if err != nil {
						t.Fatal(err)
					}
					request.Header.Set("Authorization", "Bearer "+c.tokens[Admin])
					response, err := c.http.Do(request)
					if err != nil {
						t.Fatal(err)
					}
					_ = response.Body.Close()
				}
			}
			twice()
			for i, s := range c.Servers {
				if !hasListed(t, s) {
					t.Errorf("server %d has answered nothing", i)
				}
			}
			kubectl, err := Binary(ctx, Newest, "kubectl", os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			kubeconfig, err := balancer.Kubeconfig()
			if err != nil {
				t.Fatal(err)
			}
			c.Servers[0].Kill()
			twice()
			out, err := c.Command(ctx, kubectl, "--kubeconfig", kubeconfig, "get", "namespace", "default", "-o",
				"name").CombinedOutput()
			if err != nil {
				t.Errorf("a command with the load balancer's kubeconfig: %v: %s", err, out)
			}
		})
	}
}

// hasListed tells from a server's metrics whether it has answered a list of controller revisions, which no server asks
// itself for, through the load balancer.
func hasListed(t *testing.T, s *Server) bool {
	t.Helper()
	_, metrics, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "apiserver_request_total{") &&
			strings.Contains(line, `resource="controllerrevisions"`) &&
			strings.Contains(line, `verb="LIST"`) {
			return true
		}
	}
	return false
}
