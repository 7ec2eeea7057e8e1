// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// The demo resource: namespaced, with the versions v1 and v2, whose spec has color (string), size (integer) and payload
// (string).
const (
	WidgetGroup = "demo.example.com"
	WidgetCRD   = "widgets." + WidgetGroup
	// WidgetsPrefix is where etcd holds the widgets.
	WidgetsPrefix = "/registry/" + WidgetGroup + "/widgets/"
)

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// Widgets says how the demo resource is defined.
type Widgets struct {
	// Storage is the storage version. Default: v1.
	Storage string
	// Served are the versions that are served. Default: both.
	Served []string
	// ConversionURL is the URL of a conversion webhook, verified with the cluster's CA (see Cluster.Serve). Empty: no
	// conversion.
	ConversionURL string
	// Spec are schemas of further fields of spec, or other ones for color, size and payload, in both versions.
	Spec map[string]any
}

// InstallWidgets creates the CRD of the demo resource and waits until every running server serves it.
func (c *Cluster) InstallWidgets(ctx context.Context, w Widgets) error {
	if w.Storage == "" {
		w.Storage = "v1"
	}
	if w.Served == nil {
		w.Served = []string{"v1", "v2"}
	}
	body, err := json.Marshal(w.crd(c.ca.pem))
	if err != nil {
		return err
	}
	if _, err := c.request(ctx, http.MethodPost, crdsPath, body); err != nil {
		return fmt.Errorf("create CRD of widgets: %w", err)
	}
	for _, version := range w.Served {
		path := "/apis/" + WidgetGroup + "/" + version + "/widgets?limit=1"
		if err := c.everywhere(ctx, path, func([]byte) bool { return true }); err != nil {
			return fmt.Errorf("wait for widgets: %w", err)
		}
	}
	return nil
}

func (w *Widgets) crd(ca []byte) map[string]any {
	fields := map[string]any{
		"color": map[string]any{"type": "string"}, "size": map[string]any{"type": "integer"},
		"payload": map[string]any{"type": "string"},
	}
	maps.Copy(fields, w.Spec)
	var versions []any
	for _, name := range []string{"v1", "v2"} {
		versions = append(versions, map[string]any{
			"name": name, "served": slices.Contains(w.Served, name), "storage": name == w.Storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object",
					"properties": fields}},
			}},
		})
	}
	conversion := map[string]any{"strategy": "None"}
	if w.ConversionURL != "" {
		conversion = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig":             map[string]any{"url": w.ConversionURL, "caBundle": ca},
			"conversionReviewVersions": []string{"v1"},
		}}
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": WidgetCRD},
		"spec": map[string]any{
			"group": WidgetGroup, "scope": "Namespaced", "versions": versions, "conversion": conversion,
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget",
				"listKind": "WidgetList"},
		},
	}
}

// MoveStorage marks another version of a CustomResourceDefinition as the storage version, and waits until discovery of
// every running server shows it. Writes may follow a moment later.
func (c *Cluster) MoveStorage(ctx context.Context, name, version string) error {
	crd, err := c.EditCRD(ctx, name, func(crd map[string]any) {
		for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
			v := v.(map[string]any)
			v["storage"] = v["name"] == version
		}
	})
	if err != nil {
		return fmt.Errorf("move storage version of %s: %w", name, err)
	}
	spec := crd["spec"].(map[string]any)
	names := spec["names"].(map[string]any)
	hash := versionHash(fmt.Sprintf("%s/%s/%s", spec["group"], version, names["kind"]))
	for _, v := range spec["versions"].([]any) {
		v := v.(map[string]any)
		if v["served"] != true {
			continue
		}
		shown := func(answer []byte) bool { return discoveredHash(answer, names["plural"].(string)) == hash }
		if err := c.everywhere(ctx, fmt.Sprintf("/apis/%s/%s", spec["group"], v["name"]), shown); err != nil {
			return fmt.Errorf("wait for discovery of %s: %w", name, err)
		}
	}
	return nil
}

// EditCRD reads a CustomResourceDefinition, applies an edit and writes it back; it returns what was written.
func (c *Cluster) EditCRD(ctx context.Context, name string, edit func(crd map[string]any)) (map[string]any, error) {
	return c.edit(ctx, crdsPath+"/"+name, edit)
}

// EditCRDStatus is EditCRD for the status.
func (c *Cluster) EditCRDStatus(ctx context.Context, name string, edit func(crd map[string]any)) (map[string]any, error) {
	return c.edit(ctx, crdsPath+"/"+name+"/status", edit)
}

// edit tries again on a conflict: the API server itself writes the status of a CRD.
func (c *Cluster) edit(ctx context.Context, path string, edit func(map[string]any)) (map[string]any, error) {
	for {
		raw, err := c.request(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, err
		}
		edit(object)
		if raw, err = json.Marshal(object); err != nil {
			return nil, err
		}
		status, answer, err := c.Servers[0].Do(ctx, http.MethodPut, path, raw)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusOK:
			return object, nil
		case status != http.StatusConflict:
			return nil, fmt.Errorf("PUT %s: %d: %s", path, status, answer)
		}
	}
}

// everywhere waits until every running server answers a GET with 200 and an answer that will do.
func (c *Cluster) everywhere(ctx context.Context, path string, will func(answer []byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.ReadyTimeout)
	defer cancel()
	for _, s := range c.Servers {
		for s.Running() {
			status, answer, err := s.Do(ctx, http.MethodGet, path, nil)
			if err == nil && status == http.StatusOK && will(answer) {
				break
			}
			if ended := pause(ctx, 20*time.Millisecond); ended != nil {
				return fmt.Errorf("GET %s at %s: last answer %d %s: %w", path, s.name(), status, answer,
					errors.Join(ended, err))
			}
		}
	}
	return nil
}

// request asks the first server; an answer other than 2xx is an error.
func (c *Cluster) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	status, answer, err := c.Servers[0].Do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	if status/100 != 2 {
		return nil, fmt.Errorf("%s %s: %d: %s", method, path, status, answer)
	}
	return answer, nil
}

// Do sends one request with a JSON body (nil for none; a merge patch where the method is PATCH) as administrator.
func (s *Server) Do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, s.URL()+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.cluster.tokens[Admin])
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := s.cluster.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func versionHash(groupVersionKind string) string {
	sum := sha256.Sum256([]byte(groupVersionKind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// discoveredHash returns the storage version hash that a discovery document shows for a resource.
func discoveredHash(document []byte, plural string) string {
	var list struct {
		Resources []struct {
			Name string `json:"name"`
			Hash string `json:"storageVersionHash"`
		} `json:"resources"`
	}
	if json.Unmarshal(document, &list) != nil {
		return ""
	}
	for _, r := range list.Resources {
		if r.Name == plural {
			return r.Hash
		}
	}
	return ""
}
