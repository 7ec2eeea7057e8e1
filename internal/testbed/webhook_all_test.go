// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package testbed

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestConversionWebhookIsCalledAndCanDie(t *testing.T) {
	t.Parallel()
	c := New(t, Options{})
	ctx := t.Context()
	var calls atomic.Int64
	webhook, err := c.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		convert(t, w, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallWidgets(ctx, Widgets{ConversionURL: webhook.URL + "/convert"}); err != nil {
		t.Fatal(err)
	}
	if err := c.BulkCreate(ctx, Bulk{Count: 3}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/demo.example.com/v2/widgets"
	answer, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(answer), `"apiVersion":"demo.example.com/v2","kind":"Widget",`); n != 3 ||
		calls.Load() == 0 {
		t.Errorf("%d objects in v2 after %d calls, want 3:\n%s", n, calls.Load(), answer)
	}
	webhook.Close()
	// Not a list: the watch cache holds what has been converted before.
	status, answer, err := c.Servers[0].Do(ctx, http.MethodPatch,
		"/apis/demo.example.com/v2/namespaces/default/widgets/widget-0000000", []byte("{}"))
	if err != nil || status != http.StatusInternalServerError ||
		!strings.Contains(string(answer), "conversion webhook") {
		t.Errorf("with the webhook dead: %d %s (%v)", status, answer, err)
	}
}

// convert answers a ConversionReview by changing apiVersion alone.
func convert(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Request    map[string]any `json:"request,omitempty"`
		Response   map[string]any `json:"response,omitempty"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		t.Error(err)
		return
	}
	var converted []any
	for _, object := range review.Request["objects"].([]any) {
		object.(map[string]any)["apiVersion"] = review.Request["desiredAPIVersion"]
		converted = append(converted, object)
	}
	review.Response = map[string]any{
		"uid": review.Request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": converted,
	}
	review.Request = nil
	if err := json.NewEncoder(w).Encode(review); err != nil {
		t.Error(err)
	}
}
