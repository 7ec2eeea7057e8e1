// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatLinesCannotBeMovedInIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	const manifest = `apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  validation: &any
    openAPIV3Schema: {type: object}
  versions:
  - {name: v1, served: true, storage: true}
`
	if _, err := Upgrade(t.Context(), "crd.yaml", manifest, Options{}); err != nil {
		t.Fatal(err)
	}
	replaced := func(old, replacement string) string {
		if !strings.Contains(manifest, old) {
			t.Fatalf("the manifest has no %q", old)
		}
		return strings.Replace(manifest, old, replacement, 1)
	}
	for name, test := range map[string]struct{ text, why, try string }{
		"a template that is no YAML": {"{{ if .Values.crds }}\n" + manifest + "{{ end }}\n",
			"it is a template ({{ }})", "helm template --include-crds CHART"},
		"a template in a value": {replaced("metadata:\n",
			"metadata:\n  namespace: {{ .Release.Namespace }}\n"), "it is a template ({{ }})",
			"helm template --include-crds CHART"},
		"a CRD in braces in a list": {"kind: List\nitems:\n- {apiVersion: apiextensions.k8s.io/v1, kind: " +
			"CustomResourceDefinition}\n", "in a list in which it cannot be edited",
			"yq '.items[] | split_doc' crds/crd.yaml"},
		"a comment left of an item": {"kind: List\nitems:\n- " + strings.Replace(strings.ReplaceAll(manifest, "\n", "\n  "),
			"  spec:\n", "# left\n  spec:\n", 1) + "\n", "in a list in which it cannot be edited",
			"yq '.items[] | split_doc' crds/crd.yaml"},
		"a CRD in a list in a list": {"kind: List\nitems:\n- kind: List\n  items:\n  - " +
			strings.ReplaceAll(manifest, "\n", "\n    ") + "\n", "in a list in which it cannot be edited",
			"yq '.items[] | split_doc' crds/crd.yaml"},
		"a CRD next to one in a list that does not say what it is": {manifest +
			"---\nkind: CustomResourceDefinitionList\nitems:\n- metadata: {name: a}\n",
			"in a list in which it cannot be edited", "yq '.items[] | split_doc' crds/crd.yaml"},
		"two kinds of line ends": {replaced("\n", "\r\n"), "some of its lines end as on Windows",
			`sed -i 's/\r$//' crds/crd.yaml`},
		"a field without a schema": {replaced("{type: object}", "{type: object, properties: {a: }}"),
			"the upgrade would not keep the meaning of preserveUnknownFields: true: v1: ",
			"yq 'explode(.)' crds/crd.yaml"},
		"an alias of what moves": {replaced("storage: true}", "storage: true, schema: *any}"), "an alias (*)",
			"yq 'explode(.)' crds/crd.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upgraded, err := Upgrade(t.Context(), "crd.yaml", test.text, Options{})
			unfit := (*UnfitError)(nil)
			if upgraded != nil || !errors.As(err, &unfit) || !strings.Contains(err.Error(), "crd.yaml: ") ||
				!strings.Contains(err.Error(), test.why) || unfit.Try("crds/crd.yaml") != test.try {
				t.Errorf("the error is %v, want one with %q", err, test.why)
			}
		})
	}
}

func TestAProblemDoesNotShowAWholeSchema(t *testing.T) {
	t.Parallel()
	text := manifests(t, "upgrade/guide.yaml")["guide"]
	text = strings.Replace(text, "    openAPIV3Schema:\n",
		"    openAPIV3Schema:\n      id: x\n      x-kubernetes-list-type: nothing\n", 1)
	_, err := Upgrade(t.Context(), "guide", text, Options{})
	rejected := (*RefusedError)(nil)
	if !errors.As(err, &rejected) {
		t.Fatalf("the error is %v", err)
	}
	for _, problem := range rejected.Problems {
		if len(problem) > 400 {
			t.Errorf("a problem has %d characters: %s", len(problem), problem)
		}
	}
}
