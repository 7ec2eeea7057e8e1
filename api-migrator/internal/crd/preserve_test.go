// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// filled is a value that a schema takes, with a field next to those that the schema names in every object, at every
// depth.
func filled(schema *apiextensionsv1.JSONSchemaProps, isRoot bool) any {
	unknown := map[string]any{"inner": map[string]any{"list": []any{map[string]any{"deep": float64(1)}}}}
	kind := schema.Type
	switch {
	case schema.XIntOrString:
		return float64(7)
	case kind == "array" || kind == "" && schema.Items != nil:
		if items(schema) == nil {
			return []any{unknown}
		}
		return []any{filled(items(schema), false)}
	case kind == "integer":
		return float64(1)
	case kind == "boolean":
		return true
	case kind != "" && kind != "object":
		return "x"
	}
	value := map[string]any{}
	inner := values(schema)
	if inner == nil || len(schema.Properties) > 0 || inner.Type == "" || inner.Type == "object" {
		value["unknown"] = unknown
	}
	if inner != nil && inner.Type != "" {
		value["unknown"] = filled(inner, false)
	}
	for name, property := range schema.Properties {
		if !isRoot && !schema.XEmbeddedResource || !slices.Contains(metaFields, name) {
			value[name] = filled(&property, false)
		}
	}
	if len(schema.OneOf) > 0 {
		delete(value, schema.OneOf[0].Required[0])
	}
	if schema.XEmbeddedResource {
		value["apiVersion"], value["kind"], value["metadata"] = "v1", "ConfigMap", map[string]any{"name": "x"}
	}
	return value
}

// filledObject is an object of a version, with fields that no schema names everywhere.
func filledObject(d *CRD, version apiextensionsv1.CustomResourceDefinitionVersion) map[string]any {
	schema := &apiextensionsv1.JSONSchemaProps{}
	if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
		schema = version.Schema.OpenAPIV3Schema
	}
	object := filled(schema, true).(map[string]any)
	object["apiVersion"], object["kind"], object["metadata"] = d.Group()+"/"+version.Name, d.Kind(),
		map[string]any{"name": "one"}
	return object
}

func TestUpgradeKeepsEveryFieldThatTheOldCRDKept(t *testing.T) {
	t.Parallel()
	kept := 0
	for name, text := range manifests(t, "upgrade/*.yaml") {
		for _, part := range split(text) {
			if name == "non-structural" || name == "two-storage-versions" || !isContent(part) {
				continue
			}
			old, err := Parse(name, []byte(part))
			if err != nil || !old.preserves() {
				continue
			}
			t.Run(name, func(t *testing.T) {
				upgraded, _ := Upgrade(t.Context(), name, part, Options{})
				for _, version := range old.v1.Spec.Versions {
					object := filledObject(old, version)
					if diff := cmp.Diff(object, pruned(t, upgraded.CRDs[0], version.Name, object)); diff != "" {
						t.Errorf("%s: the upgraded CRD drops (-old +upgraded):\n%s", version.Name, diff)
					}
				}
				comparisons, err := Check(t.Context(), []*CRD{old}, upgraded.CRDs)
				if err != nil {
					t.Fatal(err)
				}
				compatible := comparisons[0].Compatible
				retyped := name == "missing-types" // it refuses values that were taken before, and notes that
				if compatible.Verdict != Yes && !retyped || len(upgraded.CRDs[0].prunedFrom(old)) > 0 {
					t.Errorf("`crd check` of the old and the upgraded CRD: %+v", compatible)
				}
			})
			kept++
		}
	}
	if kept < 10 {
		t.Errorf("%d CRDs keep unknown fields, want at least 10", kept)
	}
}
