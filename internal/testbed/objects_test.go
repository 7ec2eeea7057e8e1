// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBulkObjectsHaveTheSizeThatWasAskedFor(t *testing.T) {
	for _, size := range []int{800, 1024, 200 << 10, 1400 << 10} {
		b := Bulk{Count: 1, Bytes: size}
		b.defaults()
		value, err := b.value(999)
		if err != nil || len(value) != size || !json.Valid(value) {
			t.Errorf("%d bytes (%v), want %d of JSON", len(value), err, size)
		}
	}
}

func TestContentOfProtobufLeavesMetadataOut(t *testing.T) {
	// Fields 1 (a message), 2 (a number) and 3 (a string).
	got := withoutMetadata([]byte("\x0a\x03abc\x10\x07\x1a\x01x"))
	if diff := cmp.Diff([]byte("\x10\x07\x1a\x01x"), got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestInvariantsAreSeenToBeViolated(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), Options{}) // not New, which would fail this test for the very violations
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	c.compareContents()
	ctx := t.Context()
	if err := c.InstallWidgets(ctx, Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := c.BulkCreate(ctx, Bulk{Count: 3}); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckInvariants(ctx); err != nil {
		t.Errorf("a healthy cluster: %v", err)
	}
	lossesAreSeen(t, c)
	if err := c.MoveStorage(ctx, WidgetCRD, "v2"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		stored []any
		want   []string
	}{
		{[]any{"v1", "v2"}, nil},
		{[]any{"v2"}, []string{"I1 violated: widgets.demo.example.com: etcd holds 3 objects as demo.example.com/v1, " +
			"status.storedVersions is [v2]"}},
		{[]any{"v1"}, []string{"I2 violated: widgets.demo.example.com: status.storedVersions [v1] lacks the storage " +
			"version v2"}},
	} {
		_, err := c.EditCRDStatus(ctx, WidgetCRD, func(d map[string]any) {
			d["status"].(map[string]any)["storedVersions"] = step.stored
		})
		if err != nil {
			t.Fatalf("set storedVersions to %v: %v", step.stored, err)
		}
		err = c.CheckInvariants(ctx)
		if (err == nil) != (step.want == nil) {
			t.Errorf("storedVersions %v: %v, want %v", step.stored, err, step.want)
		}
		for _, part := range step.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("storedVersions %v: the error does not say %q:\n%v", step.stored, part, err)
			}
		}
	}
}

// lossesAreSeen takes a field out of the schema of the widgets, and has the API server store one of them again.
func lossesAreSeen(t *testing.T, c *Cluster) {
	t.Helper()
	ctx := t.Context()
	patch := func(body string) {
		t.Helper()
		const path = "/apis/demo.example.com/v1/namespaces/default/widgets/widget-0000001"
		if _, err := c.request(ctx, http.MethodPatch, path, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		err := c.CheckInvariants(ctx)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("violations are %q, want %q", got, want)
		}
	}
	patch(`{"spec":{"color":null}}`)
	expect("")
	if _, err := c.EditCRD(ctx, WidgetCRD, func(d map[string]any) {
		schema := d["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)
		properties := schema["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
		delete(properties["spec"].(map[string]any)["properties"].(map[string]any), "size")
	}); err != nil {
		t.Fatal(err)
	}
	for raw := []byte(`"size"`); strings.Contains(string(raw), `"size"`); {
		patch("{}")
		var err error
		if raw, err = c.Raw(ctx, Bulk{}.Key(1)); err != nil {
			t.Fatal(err)
		}
	}
	expect("I3 violated: /registry/demo.example.com/widgets/default/widget-0000001 lost spec.size at revision")
	c.Loses(WidgetsPrefix, "spec.color", "it does not")
	c.Loses(WidgetsPrefix, "spec.size", "the schema does not have it any more")
	expect("no object below /registry/demo.example.com/widgets/ has lost spec.color, although")
	c.losses = c.losses[1:]
	expect("")
}

func TestEmptyStoredVersionsViolateI2(t *testing.T) {
	// Only in theory: the API server of 1.37 fills in the storage version.
	got := errors.Join(violationsOf(&crd{}, nil)...)
	if got == nil || !strings.Contains(got.Error(), "I2 violated: : status.storedVersions is empty") {
		t.Errorf("violations are %v", got)
	}
}

func TestStoredVersionOfEveryEncoding(t *testing.T) {
	for name, test := range map[string]struct{ value, want string }{
		"JSON": {`{"kind":"A","metadata":{"apiVersion":"no"},"apiVersion":"g/v1"}`,
			"g/v1"},
		"JSON without a version":              {`{"kind":"A"}`, "unknown"},
		"CBOR":                                {"\xd9\xd9\xf7\xa1\x4aapiVersion\x44g/v2", "g/v2"},
		"protobuf":                            {"k8s\x00\x0a\x08\x0a\x02v1\x12\x02Po", "v1"},
		"encrypted":                           {"k8s:enc:secretbox:v1:key7:\x00\xff:", "enc:secretbox:v1:key7"},
		"something else":                      {"compact_rev_key", "unknown"},
		"nothing":                             {"", "unknown"},
		"an encryption prefix that is broken": {"k8s:enc:", "unknown"},
	} {
		if got := storedVersion([]byte(test.value)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
