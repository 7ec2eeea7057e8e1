// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// losesNoField applies a CRD whose new storage version lacks a field that objects have, while the controller runs, and
// corrects it. The controller asks no one, so nothing may be lost (I3).
func (c *controlled) losesNoField(t *testing.T) {
	size := func(version string, present bool) func(map[string]any) {
		return func(d map[string]any) {
			for _, v := range d["spec"].(map[string]any)["versions"].([]any) {
				v := v.(map[string]any)
				v["storage"] = v["name"] == version
				schema := v["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
				fields := schema["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
				if delete(fields, "size"); present || v["name"] != version {
					fields["size"] = map[string]any{"type": "integer"}
				}
			}
		}
	}
	edit := func(present bool) {
		if _, err := c.cluster.EditCRD(t.Context(), testbed.WidgetCRD, size("v1", present)); err != nil {
			t.Fatal(err)
		}
	}
	edit(false)
	m := c.until(widgetsName, "left alone", func(m *v1alpha1.StorageVersionMigration) bool {
		return m.Status.State == v1alpha1.PhaseFailed && m.Status.Progress.WouldLoseFields > 0
	})
	if f := m.Status.Failures; len(f) == 0 || f[0].Reason != "WouldLoseFields" || !strings.Contains(f[0].Message,
		"spec.size") {
		t.Errorf("failures %+v, want objects named with spec.size", f)
	}
	if !strings.Contains(m.Status.Summary, "--accept-field-loss") {
		t.Errorf("the summary does not say how to decide: %s", m.Status.Summary)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: 100})

	edit(true) // which the controller notices
	c.untilState(widgetsName, "proven once the schema has the field", persistedOnly("v1"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: 100})
}
