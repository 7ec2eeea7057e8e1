// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package convert

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// webhook is a program that answers one ConversionReview with the generated code.
const webhook = `package main

import (
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/test-org/widget-operator/api/v1"
	v2 "github.com/test-org/widget-operator/api/v2"
)

func main() {
	var review map[string]any
	check(json.NewDecoder(os.Stdin).Decode(&review))
	request := review["request"].(map[string]any)
	converted := []runtime.Object{}
	for _, object := range request["objects"].([]any) {
		content, err := json.Marshal(object)
		check(err)
		one, two := &v1.Widget{}, &v2.Widget{}
		if request["desiredAPIVersion"] == v2.GroupVersion.String() {
			check(json.Unmarshal(content, one))
			two.SetGroupVersionKind(v2.GroupVersion.WithKind("Widget"))
			check(one.ConvertTo(two))
			converted = append(converted, two)
		} else {
			check(json.Unmarshal(content, two))
			one.SetGroupVersionKind(v1.GroupVersion.WithKind("Widget"))
			check(one.ConvertFrom(two))
			converted = append(converted, one)
		}
	}
	delete(review, "request")
	review["response"] = map[string]any{"uid": request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": converted}
	check(json.NewEncoder(os.Stdout).Encode(review))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
`

// widgets is a cluster whose API server converts with the generated code.
type widgets struct {
	*testing.T
	cluster *testbed.Cluster
}

const widgetsCRD = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.widgets.example.com"}, "spec": {
	"group": "widgets.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
	"versions": [
		{"name": "v2", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
		{"name": "v1", "served": true, "storage": false, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}
	],
	"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "URL", "caBundle": "CA"}}}
}}`

func newWidgets(t *testing.T) *widgets {
	t.Helper()
	dir := fixture.Copy(t, "conversion")
	scaffolded(t, dir, Request{Kind: "Widget", Preserve: true})
	fillIn(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "webhook"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "webhook", "main.go"), []byte(webhook), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "webhook", "webhook")
	fixture.Run(t, dir, "go", "build", "-o", program, "./webhook")
	w := &widgets{T: t, cluster: testbed.New(t, testbed.Options{})}
	server, err := w.cluster.Serve(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		command := exec.CommandContext(request.Context(), program)
		command.Stdin = request.Body
		answer, err := command.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Errorf("convert: %v\n%s", err, exit.Stderr)
		}
		_, _ = out.Write(answer) // the API server tells if it does not arrive
	}))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := json.Marshal(w.cluster.CA())
	if err != nil {
		t.Fatal(err)
	}
	crd := strings.NewReplacer("URL", server.URL, `"CA"`, string(ca)).Replace(widgetsCRD)
	w.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, version := range []string{"v1", "v2"} {
		for {
			if status, _, err := w.cluster.Servers[0].Do(ctx, http.MethodGet, widgetsPath(version, ""),
				nil); err == nil && status == http.StatusOK {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatal("waited a minute for the CRD to be served")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return w
}

func widgetsPath(version, name string) string {
	return strings.TrimSuffix("/apis/widgets.example.com/"+version+"/namespaces/default/widgets/"+name, "/")
}

func (w *widgets) do(method, path, body string) map[string]any {
	w.Helper()
	var content []byte
	if body != "" {
		content = []byte(body)
	}
	status, answer, err := w.cluster.Servers[0].Do(w.Context(), method, path, content)
	if err != nil || status >= http.StatusBadRequest {
		w.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	var object map[string]any
	if err := json.Unmarshal(answer, &object); err != nil {
		w.Fatal(err)
	}
	return object
}

// change reads an object in a version, and writes it back.
func (w *widgets) change(version, subresource string, change func(map[string]any)) {
	w.Helper()
	object := w.do(http.MethodGet, widgetsPath(version, "a"), "")
	change(object)
	content, err := json.Marshal(object)
	if err != nil {
		w.Fatal(err)
	}
	w.do(http.MethodPut, strings.TrimSuffix(widgetsPath(version, "a")+"/"+subresource, "/"), string(content))
}

// want compares spec and status in a version with JSON.
func (w *widgets) want(version, want string) {
	w.Helper()
	object := w.do(http.MethodGet, widgetsPath(version, "a"), "")
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		w.Fatal(err)
	}
	if diff := cmp.Diff(wanted, map[string]any{"spec": object["spec"], "status": object["status"]}); diff != "" {
		w.Errorf("in %s (-want +got):\n%s", version, diff)
	}
}

func TestClientsOfBothVersionsLoseNothingOnARealServer(t *testing.T) {
	t.Parallel()
	w := newWidgets(t)
	w.do(http.MethodPost, widgetsPath("v2", ""),
		`{"apiVersion": "widgets.example.com/v2", "kind": "Widget", "metadata": {"name": "a"}, "spec": {
		"replicas": 3, "timeout": "1.5s", "parts": [{"name": "x", "material": "iron"}, {"name": "y", "material": "wood"}], "security": {"users": ["me"], "tls": true}}}`)
	w.want("v1", `{"spec": {"size": 3, "timeout": 1, "since": null, "parts": [{"name": "x"}, {"name": "y"}], "access": {"users": ["me"]}}, "status": {}}`)

	w.change("v1", "", func(object map[string]any) {
		spec := object["spec"].(map[string]any)
		spec["size"], spec["legacy"] = 5, "old"
		parts := spec["parts"].([]any)
		parts[0].(map[string]any)["count"] = 2
		spec["parts"] = []any{map[string]any{"name": "new"}, parts[0]}
	})
	w.want("v2", `{"spec": {"replicas": 5, "timeout": "1.5s", "since": null, "parts": [{"name": "new"}, {"name": "x", "count": 2, "material": "iron"}],
		"security": {"users": ["me"], "tls": true}}, "status": {}}`)

	w.change("v1", "status", func(object map[string]any) { object["status"] = map[string]any{"ready": 4} })
	w.change("v2", "", func(object map[string]any) { object["spec"].(map[string]any)["replicas"] = 6 })
	w.want("v1", `{"spec": {"size": 6, "timeout": 1, "since": null, "legacy": "old", "parts": [{"name": "new"}, {"name": "x", "count": 2}], "access": {"users": ["me"]}}, "status": {"ready": 4}}`)

	w.change("v1", "", func(object map[string]any) { object["spec"].(map[string]any)["timeout"] = 7 })
	w.want("v2", `{"spec": {"replicas": 6, "timeout": "7s", "since": null, "parts": [{"name": "new"}, {"name": "x", "count": 2, "material": "iron"}],
		"security": {"users": ["me"], "tls": true}}, "status": {"ready": 4}}`)
}
