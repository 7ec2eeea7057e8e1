// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package convert

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// operated is a cluster with the CRD and the operator of a project.
type operated struct {
	*testing.T
	cluster *testbed.Cluster
}

func (o *operated) do(method, path string, object any) (status int, answer map[string]any) {
	o.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		o.Fatal(err)
	}
	status, raw, err := o.cluster.Servers[0].Do(o.Context(), method, path, body)
	if err != nil {
		o.Fatal(err)
	}
	_ = json.Unmarshal(raw, &answer) // what is no object is shown as nil
	return status, answer
}

// until waits for what the server or the operator does on its own.
func (o *operated) until(what string, done func() (ok bool, seen any)) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), 2*time.Minute)
	defer cancel()
	for {
		ok, seen := done()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			o.Fatalf("waited two minutes for %s; it is %v", what, seen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// launch builds and runs the operator, and returns the URL at which the API server reaches its webhooks.
func (o *operated) launch(dir string) string {
	o.Helper()
	binary, socket := filepath.Join(o.TempDir(), "operator"), filepath.Join(o.cluster.Dir(), "operator.sock")
	fixture.Run(o, dir, "go", "build", "-o", binary, "./cmd")
	kubeconfig, err := o.cluster.Kubeconfig()
	if err != nil {
		o.Fatal(err)
	}
	program, err := o.cluster.Launch(testbed.ProgramOptions{Name: "operator", Path: binary,
		Env: []string{"KUBECONFIG=" + kubeconfig, "SOCKET=" + socket}})
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() {
		if o.Failed() {
			log, _ := os.ReadFile(filepath.Join(o.cluster.Dir(), "operator.log")) // the test has failed already
			o.Logf("the operator's log:\n%s", log)
		}
		program.Kill()
	})
	o.until("the operator to serve webhooks", func() (bool, any) {
		_, err := os.Stat(socket)
		return err == nil, program.Exit()
	})
	server, err := o.cluster.Serve(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "operator" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	})
	if err != nil {
		o.Fatal(err)
	}
	return server.URL
}

// install creates the CRD with the patch that lists how it is converted. Its service becomes a URL.
func (o *operated) install(dir, url string) {
	o.Helper()
	var crd, patch map[string]any
	for file, into := range map[string]*map[string]any{"bases/widgets.example.com_widgets.yaml": &crd,
		"patches/webhook_in_widgets.yaml": &patch} {
		if err := yaml.Unmarshal([]byte(fixture.Read(o, dir, "config/crd/"+file)), into); err != nil {
			o.Fatal(err)
		}
	}
	conversion := patch["spec"].(map[string]any)["conversion"].(map[string]any)
	webhook := conversion["webhook"].(map[string]any)
	path := webhook["clientConfig"].(map[string]any)["service"].(map[string]any)["path"].(string)
	webhook["clientConfig"] = map[string]any{"url": url + path, "caBundle": o.cluster.CA()}
	crd["spec"].(map[string]any)["conversion"] = conversion
	if status, answer := o.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd); status !=
		http.StatusCreated {
		o.Fatalf("create the CRD: %d %v", status, answer)
	}
}

// The program that has been wired converts what an API server sends to the path in the CRD.
func TestAWiredOperatorConvertsForARealServer(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "conversion")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/wiring/operator.txtar"))
	fixture.Require(t, dir, "github.com/test-org/widget-operator")
	scaffolded(t, dir, Request{Kind: "Widget", Preserve: true})
	fillIn(t, dir)

	o := &operated{T: t, cluster: testbed.New(t, testbed.Options{})}
	o.install(dir, o.launch(dir))
	path := func(version, name string) string {
		return "/apis/widgets.example.com/" + version + "/namespaces/default/widgets" + name
	}
	for _, from := range []struct{ version, field, other, otherField string }{
		{"v1", "size", "v2", "replicas"}, {"v2", "replicas", "v1", "size"}, {"v1beta2", "replicas", "v1", "size"},
	} {
		name := "from-" + from.version
		o.until("the server to create it in "+from.version, func() (bool, any) {
			status, answer := o.do(http.MethodPost, path(from.version, ""), map[string]any{"kind": "Widget",
				"apiVersion": "widgets.example.com/" + from.version, "metadata": map[string]any{"name": name},
				"spec": map[string]any{from.field: 3, "timeout": map[bool]any{true: 90, false: "1m30s"}[from.field == "size"]}})
			return status == http.StatusCreated || status == http.StatusConflict, answer
		})
		status, read := o.do(http.MethodGet, path(from.other, "/"+name), nil)
		spec, _ := read["spec"].(map[string]any)
		want := map[string]any{"apiVersion": "widgets.example.com/" + from.other, "size": 3.0}
		got := map[string]any{"apiVersion": read["apiVersion"], "size": spec[from.otherField]}
		if diff := cmp.Diff(want, got); status != http.StatusOK || diff != "" {
			t.Errorf("created in %s, read in %s: %d %v (-want +got):\n%s", from.version, from.other, status, read, diff)
		}
	}
}
