// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// edited is the live CRD of widgets after an edit of its spec, as JSON.
func (c *checked) edited(t *testing.T, edit func(spec map[string]any)) string {
	t.Helper()
	var d map[string]any
	if err := json.Unmarshal(c.do(t, http.MethodGet, crdsPath+"/"+
		testbed.WidgetCRD, ""), &d); err != nil {
		t.Fatal(err)
	}
	delete(d, "status")
	edit(d["spec"].(map[string]any))
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// without removes a version.
func without(version string) func(map[string]any) {
	return func(spec map[string]any) {
		kept := []any{}
		for _, v := range spec["versions"].([]any) {
			if v.(map[string]any)["name"] != version {
				kept = append(kept, v)
			}
		}
		spec["versions"] = kept
	}
}

const helmed = `NAME: a
STATUS: pending-install
HOOKS:
MANIFEST:
---
# Source: a/templates/service.yaml
apiVersion: v1
kind: Service
metadata: {name: a}
---
# Source: a/crds/widgets.yaml
%s

NOTES:
1. Get the URL: {{ it }}
`

func (c *checked) ofManifests(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, content string) string {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	c.widgets(t, nil, "v1", "v2")
	same := c.edited(t, func(map[string]any) {})
	c.golden(t, "CRDs that change nothing", "", "-f", write("same.json", same))
	c.golden(t, "Helm output that removes a stored version", fmt.Sprintf(helmed, c.edited(t, without("v1"))), "-f", "-")
	list := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Namespace"},{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"},` + c.edited(t, without("v2")) + "," + strings.NewReplacer("widgets", "gadgets", "Widget", "Gadget", `"widget"`, `"gadget"`).Replace(same) + `]}`
	c.golden(t, "a list that removes the storage version", "", "-f", write("list.yaml", list), "-o", "wide")
	c.golden(t, "CRDs of versions that differ", c.edited(t, func(spec map[string]any) {
		for _, v := range spec["versions"].([]any) {
			if v := v.(map[string]any); v["name"] == "v1" {
				v["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)["weight"] = map[string]any{"type": "integer"}
			}
		}
	}), "-f", "-")
	c.golden(t, "manifests without a CRD", "apiVersion: v1\nkind: Service\n", "-f", "-")
	c.golden(t, "nothing on standard input", "# empty\n", "-f", "-")
	if err := os.Mkdir("bad", 0o700); err != nil {
		t.Fatal(err)
	}
	write("bad/a.yaml", "apiVersion: v1\nkind: Service\n---\nkind: [\n")
	c.golden(t, "a folder with a broken document", "", "-f", "bad")
	c.golden(t, "a file that is not there", "", "-f", "/none.yaml")
	c.golden(t, "flags that do not go together", "", "-f", "-", "--target-version", "1.36")
	c.webhook(t)
}

// webhook: the live CRD gets a conversion webhook, which the new one does not have.
func (c *checked) webhook(t *testing.T) {
	conversion := func(strategy map[string]any) func(map[string]any) {
		return func(d map[string]any) { d["spec"].(map[string]any)["conversion"] = strategy }
	}
	if _, err := c.EditCRD(t.Context(), testbed.WidgetCRD, conversion(map[string]any{
		"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"url": "https://127.0.0.1:1"},
			"conversionReviewVersions": []string{"v1"}},
	})); err != nil {
		t.Fatal(err)
	}
	c.golden(t, "CRDs without the conversion webhook",
		c.edited(t, func(spec map[string]any) { spec["conversion"] = map[string]any{"strategy": "None"} }), "-f", "-")
	if _, err := c.EditCRD(t.Context(), testbed.WidgetCRD,
		conversion(map[string]any{"strategy": "None"})); err != nil {
		t.Fatal(err)
	}
}

func (c *checked) byEtcd(t *testing.T) {
	etcd := []string{"--etcd-endpoints", c.Etcd.Endpoint()}
	claim := func(versions ...any) {
		t.Helper()
		_, err := c.EditCRDStatus(t.Context(), testbed.WidgetCRD, func(d map[string]any) {
			d["status"].(map[string]any)["storedVersions"] = versions
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c.widgets(t, nil, "v2")
	claim("v2")
	c.golden(t, "records that claim less than etcd holds", "", append(etcd, "widgets")...)
	c.golden(t, "etcd against a CRD that removes a version", c.edited(t, without("v1")),
		append(etcd, "-f", "-")...)
	c.golden(t, "a snapshot against a target", "", "widgets", podGroups, "--snapshot", c.snapshot(t),
		"--target-version", "1.36", "-o", "json")
	claim("v1", "v2")
	c.widgets(t, nil, "Unknown", "v2")
	c.golden(t, "certificates without etcd", "", "--cacert", "a")
	const key = "/registry/strange.example.com/things/default/a"
	if err := c.PutRaw(t.Context(), key, []byte(`{"apiVersion":"strange.example.com/v1","kind":"Thing"}`)); err != nil {
		t.Fatal(err)
	}
	c.do(t, http.MethodDelete, "/apis/demo.example.com/v2/namespaces/default/widgets", "")
	c.golden(t, "Unknown, but etcd can tell", "", append(etcd, "widgets", "namespaces")...)
	c.golden(t, "a whole etcd with objects of no resource", "", append(etcd, "-o", "name")...)
	if err := c.DeleteRaw(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	c.golden(t, "a whole etcd that is current", "", append(etcd, "-o", "name")...)
	c.byOldSnapshot(t, claim)
}

// byOldSnapshot: the storage version moves and comes back after the snapshot. In between, objects were written.
func (c *checked) byOldSnapshot(t *testing.T, claim func(versions ...any)) {
	claim("v2")
	c.widgets(t, nil, "v2")
	old := c.snapshot(t)
	c.golden(t, "a snapshot of now", "", "widgets", "--snapshot", old)
	for _, err := range []error{
		c.MoveStorage(t.Context(), testbed.WidgetCRD, "v1"),
		c.BulkCreate(t.Context(), testbed.Bulk{First: 20, Count: 3}),
		c.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.golden(t, "a snapshot older than the CRD", c.edited(t, without("v1")), "-f", "-", "--snapshot", old)
	c.widgets(t, nil, "v1", "v2")
	c.golden(t, "a snapshot older than the StorageState", "", "widgets", "--snapshot", old)
}

func (c *checked) snapshot(t *testing.T) string {
	t.Helper()
	from, err := c.Etcd.Client().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}
