// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func get(t *testing.T, cluster *testbed.Cluster, path string, into any) {
	t.Helper()
	decode(t, do(t, cluster, "GET", path, nil), into)
}

// do sends a request as administrator and expects it to succeed.
func do(t *testing.T, cluster *testbed.Cluster, method, path string, body any) []byte {
	t.Helper()
	var raw []byte
	if body != nil {
		raw = mustJSON(body)
	}
	status, answer, err := cluster.Servers[0].Do(t.Context(), method, path, raw)
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %s (%v)", method, path, status, answer, err)
	}
	return answer
}

// mustJSON is for values that a test made itself.
func mustJSON(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("decode %T: %v\n%s", into, err, raw)
	}
}

// eventually waits until a condition holds. It asks seldom where asking is expensive, as it is to read thousands of
// objects, and leaves the machine to what it waits for.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		begin := time.Now()
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(max(50*time.Millisecond, 6*time.Since(begin)))
	}
}

// wantUnwritten expects that a proxy has seen nothing that could have written anything.
func wantUnwritten(t *testing.T, proxy *testbed.Proxy) {
	t.Helper()
	for _, r := range proxy.Records() {
		if r.Method != http.MethodGet && !strings.HasSuffix(r.Path, "/selfsubjectaccessreviews") {
			t.Errorf("sent %s %s, want nothing written", r.Method, r.Path)
		}
	}
}

// create creates objects at a path through the API, each named by its number.
func create(t *testing.T, cluster *testbed.Cluster, path, apiVersion, kind, name string, n int, fields map[string]any) {
	t.Helper()
	for i := range n {
		object := maps.Clone(fields)
		object["apiVersion"], object["kind"] = apiVersion, kind
		object["metadata"] = map[string]any{"name": fmt.Sprintf("%s-%03d", name, i)}
		do(t, cluster, http.MethodPost, path, object)
	}
}

// getWhenReady reads as soon as the API server has filled its cache: until then it answers 429.
func getWhenReady(t *testing.T, cluster *testbed.Cluster, path string, into any) {
	t.Helper()
	eventually(t, "GET "+path, func() bool {
		status, _, err := cluster.Servers[0].Do(t.Context(), http.MethodGet, path, nil)
		return err == nil && status == http.StatusOK
	})
	get(t, cluster, path, into)
}

// freeAddress is one that no one listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func fetch(t *testing.T, address, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// throughProxy returns a user whose requests go through a proxy.
func throughProxy(t *testing.T, cluster *testbed.Cluster) (*cli, *testbed.Proxy) {
	t.Helper()
	proxy := testbed.NewProxy(t, cluster)
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return newCLIWith(t, cluster, kubeconfig), proxy
}

// writes are the requests that changed something, without the Lease and questions that are asked by POST.
func writes(proxy *testbed.Proxy) []testbed.Record {
	return slices.DeleteFunc(proxy.Records(), func(r testbed.Record) bool {
		return r.Method == http.MethodGet || strings.Contains(r.Path, "/leases") || strings.HasSuffix(r.Path, "reviews")
	})
}
