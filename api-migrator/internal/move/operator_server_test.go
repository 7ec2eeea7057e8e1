// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// cluster is a real API server in which a migrated operator runs.
type cluster struct {
	*testbed.Cluster
	t *testing.T
	// paths are those at which the API server has called webhooks.
	mu    sync.Mutex
	paths map[string]bool
}

func (c *cluster) do(method, path string, object any) (status int, answer map[string]any) {
	c.t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		c.t.Fatal(err)
	}
	status, raw, err := c.Servers[0].Do(c.t.Context(), method, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = json.Unmarshal(raw, &answer) // what is no object is shown as nil
	return status, answer
}

// until waits for what the server or the operator does on its own.
func (c *cluster) until(what string, done func() (ok bool, seen any)) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		ok, seen := done()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("waited two minutes for %s; it is %v", what, seen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// operate builds and runs the operator of a project, and installs its webhook configurations.
func (c *cluster) operate(dir string) {
	c.t.Helper()
	binary, socket := filepath.Join(c.t.TempDir(), "operator"), filepath.Join(c.Dir(), "operator.sock")
	fixture.Run(c.t, dir, "go", "build", "-o", binary, "./cmd")
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		c.t.Fatal(err)
	}
	program, err := c.Launch(testbed.ProgramOptions{Name: "operator", Path: binary,
		Env: []string{"KUBECONFIG=" + kubeconfig, "SOCKET=" + socket}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(c.Dir(), "operator.log")) // the test has failed already
			c.t.Logf("the operator's log:\n%s", log)
		}
		program.Kill()
	})
	c.until("the operator to serve webhooks", func() (bool, any) {
		_, err := os.Stat(socket)
		return err == nil, program.Exit()
	})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "operator" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
	server, err := c.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.paths[r.URL.Path] = true
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	if err != nil {
		c.t.Fatal(err)
	}
	for document := range strings.SplitSeq(fixture.Read(c.t, dir, "config/webhook/manifests.yaml"), "---\n") {
		var configuration map[string]any
		if err := yaml.Unmarshal([]byte(document), &configuration); err != nil {
			c.t.Fatal(err)
		}
		if configuration == nil {
			continue
		}
		for _, one := range configuration["webhooks"].([]any) {
			client := one.(map[string]any)["clientConfig"].(map[string]any)
			path := client["service"].(map[string]any)["path"].(string)
			one.(map[string]any)["clientConfig"] = map[string]any{"url": server.URL + path, "caBundle": c.CA()}
		}
		plural := strings.ToLower(configuration["kind"].(string)) + "s"
		if status, answer := c.do(http.MethodPost, "/apis/admissionregistration.k8s.io/v1/"+plural,
			configuration); status != http.StatusCreated {
			c.t.Fatalf("install webhooks: %d %v", status, answer)
		}
	}
}

func memcached(version, name string, size int) map[string]any {
	return map[string]any{"apiVersion": "cache.example.com/" + version, "kind": "Memcached",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size, "place": map[string]any{}}}
}

// The API server calls the webhooks that the manifests name, at the paths that the program serves, in the version that
// its decoder takes; the operator finds children whose owner reference names either version, and writes the status.
func TestAMovedOperatorWorksOnARealServer(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := operator(t, "testdata/operator.txtar", nil)
	migrated(t, dir, memcachedRequest)

	c := &cluster{Cluster: testbed.New(t, testbed.Options{}), t: t, paths: map[string]bool{}}
	if err := c.InstallCRDs(t.Context(), os.DirFS(filepath.Join(dir, "config/crd/bases"))); err != nil {
		t.Fatal(err)
	}
	c.operate(dir)
	path := func(version, name string) string {
		return "/apis/cache.example.com/" + version + "/namespaces/default/memcacheds" + name
	}
	const want = "cache.example.com/v1beta2"
	for _, version := range []string{"v1", "v1beta2"} {
		c.until("the server to call the webhooks for "+version, func() (bool, any) {
			_, answer := c.do(http.MethodPost, path(version, "?dryRun=All"), memcached(version, "dry", 1))
			return annotation(answer) != "", answer
		})
		if status, answer := c.do(http.MethodPost, path(version, ""), memcached(version, version, 3)); status !=
			http.StatusCreated || annotation(answer) != want {
			t.Fatalf("create in %s: %d %v, want an object that the webhook has seen as %s", version, status, answer, want)
		}
		if status, answer := c.do(http.MethodPost, path(version, ""), memcached(version, "large", 10)); status !=
			http.StatusForbidden || !strings.Contains(fmt.Sprint(answer["message"]), "it is too large") {
			t.Errorf("create in %s what the webhook refuses: %d %v", version, status, answer)
		}
		_, owner := c.do(http.MethodGet, path("v1", "/"+version), nil)
		if status, answer := c.do(http.MethodPost, "/api/v1/namespaces/default/configmaps", stored(owner, version)); status !=
			http.StatusCreated {
			t.Fatalf("create a child: %d %v", status, answer)
		}
		for _, in := range []string{"v1", "v1beta2"} {
			c.until("the status of "+version+" in "+in, func() (bool, any) {
				status, read := c.do(http.MethodGet, path(in, "/"+version), nil)
				spec, _ := read["spec"].(map[string]any)
				isSame := status == http.StatusOK && spec["size"] == 3.0 && read["apiVersion"] == "cache.example.com/"+in
				return isSame && message(read) == "found "+version+"-own "+version+"-stored", read
			})
		}
		_, own := c.do(http.MethodGet, "/api/v1/namespaces/default/configmaps/"+version+"-own", nil)
		if got := fmt.Sprint(own["metadata"]); !strings.Contains(got, "apiVersion:"+want+" ") {
			t.Errorf("the operator's child says %s, want an owner in %s", got, want)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	served := []string{"/mutate-cache-example-com-v1beta2-memcached", "/validate-cache-example-com-v1beta2-memcached"}
	if got := slices.Sorted(maps.Keys(c.paths)); !slices.Equal(got, served) {
		t.Errorf("the API server has called %v, want %v", got, served)
	}
}

// stored is a child as it was written before the move.
func stored(owner map[string]any, name string) map[string]any {
	metadata := owner["metadata"].(map[string]any)
	return map[string]any{"metadata": map[string]any{"name": name + "-stored", "ownerReferences": []any{map[string]any{
		"apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": metadata["name"], "uid": metadata["uid"],
		"controller": true,
	}}}}
}

func annotation(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations["defaulted"].(string)
	return text
}

// message is that of the first condition.
func message(object map[string]any) string {
	status, _ := object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	if len(conditions) == 0 {
		return ""
	}
	text, _ := conditions[0].(map[string]any)["message"].(string)
	return text
}
