// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// overtake calls a function before the first patch of the object reaches the API server.
func overtake(name string, f func()) testbed.Rule {
	return testbed.Rule{Fault: testbed.Overtaken(f), Times: 1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+name)
	}}
}

// converter is a conversion webhook whose versions differ in nothing but their name, and in what move moves. While it
// is down it refuses everything, and what it is unable to convert to is refused.
type converter struct {
	web    *testbed.WebServer
	calls  atomic.Int64
	down   atomic.Bool
	unable atomic.Pointer[string]
	move   func(fields map[string]any, apiVersion string)
}

func newConverter(t *testing.T, cluster *testbed.Cluster) *converter {
	t.Helper()
	c := &converter{}
	web, err := cluster.Serve(http.HandlerFunc(c.convert))
	if err != nil {
		t.Fatal(err)
	}
	c.web = web
	return c
}

func (c *converter) convert(w http.ResponseWriter, r *http.Request) {
	c.calls.Add(1)
	if c.down.Load() {
		http.Error(w, "the conversion webhook is down", http.StatusServiceUnavailable)
		return
	}
	var review struct {
		Request struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if version := c.unable.Load(); version != nil && review.Request.DesiredAPIVersion == *version {
		http.Error(w, "the conversion webhook cannot do that now", http.StatusServiceUnavailable)
		return
	}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = review.Request.DesiredAPIVersion
		if fields, ok := object["spec"].(map[string]any); ok && c.move != nil {
			c.move(fields, review.Request.DesiredAPIVersion)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
		"response": map[string]any{
			"uid": review.Request.UID, "result": map[string]any{"status": "Success"},
			"convertedObjects": review.Request.Objects,
		},
	}) // the API server is gone if this fails
}

// editVersions edits the versions of the widgets' CRD, which the API server must accept.
func editVersions(t *testing.T, cluster *testbed.Cluster, edit func(versions []any) []any) {
	t.Helper()
	if _, err := cluster.EditCRD(t.Context(), testbed.WidgetCRD, func(crd map[string]any) {
		spec := crd["spec"].(map[string]any)
		spec["versions"] = edit(spec["versions"].([]any))
	}); err != nil {
		t.Fatal(err)
	}
}
