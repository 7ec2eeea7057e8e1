// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadersOfFieldsThatTheSchemaDropsAreReported(t *testing.T) {
	t.Parallel()
	const (
		before = `
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  scope: Cluster
`
		columns = `
- {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
- {name: Phase, type: string, jsonPath: .status.phase}
- {name: Label, type: string, jsonPath: ".metadata.labels['example.com/a']"}
- {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
- {name: Why, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].message'}
- {name: First, type: string, jsonPath: ".status.conditions[0].reason"}
- {name: Any, type: string, jsonPath: ".spec.any.thing"}
- {name: Key, type: string, jsonPath: ".spec.map.key"}
- {name: Deep, type: string, jsonPath: ".spec.map.key.deep"}
- {name: All, type: string, jsonPath: ".spec.*"}
`
		scale  = `{specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}`
		schema = `
type: object
properties:
  spec:
    type: object
    properties:
      replicas: {type: integer}
      any: {type: object, x-kubernetes-preserve-unknown-fields: true}
      map: {type: object, additionalProperties: {type: string}}
  status:
    type: object
    properties:
      conditions:
        type: array
        items: {type: object, properties: {status: {type: string}}}
`
	)
	inside := func(text string, by int) string {
		return strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+strings.Repeat(" ", by))
	}
	v1 := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition" + before +
		"  versions:\n  - name: v1\n    served: true\n    storage: true\n    additionalPrinterColumns:" + inside(columns, 4) +
		"\n    subresources: {status: {}, scale: " + scale + "}\n    schema:\n      openAPIV3Schema:" + inside(schema, 8) + "\n"
	v1beta1 := "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition" + before +
		"  version: v1\n  PRESERVE\n  additionalPrinterColumns:" +
		inside(strings.ReplaceAll(columns, "jsonPath", "JSONPath"), 2) + "\n  subresources: {status: {}, scale: " + scale +
		"}\n  validation:\n    openAPIV3Schema:" + inside(schema, 6) + "\n"
	want := []string{
		"the printer column Phase of v1 stays empty: it reads .status.phase, and the schema drops .status.phase",
		`the printer column Why of v1 stays empty: it reads .status.conditions[?(@.type=="Ready")].message, and the schema ` +
			"drops .status.conditions[].message",
		"the printer column First of v1 stays empty: it reads .status.conditions[0].reason, and the schema drops " +
			".status.conditions[].reason",
		"the printer column Deep of v1 stays empty: it reads .spec.map.key.deep, and the schema drops .spec.map.key.deep",
		"the scale subresource of v1 finds no value: statusReplicasPath is .status.replicas, and the schema drops " +
			".status.replicas",
		"the scale subresource of v1 finds no value: labelSelectorPath is .status.selector, and the schema drops " +
			".status.selector",
	}
	for name, test := range map[string]struct {
		manifest string
		want     []string
	}{
		"v1":                         {v1, want},
		"v1 that is not served":      {strings.Replace(v1, "served: true", "served: false", 1), nil},
		"v1beta1 that drops fields":  {strings.Replace(v1beta1, "PRESERVE", "preserveUnknownFields: false", 1), want},
		"v1beta1 that keeps a field": {strings.Replace(v1beta1, "PRESERVE", "preserveUnknownFields: true", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comparisons, err := Check(t.Context(), nil, []*CRD{parse(t, name, test.manifest)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, comparisons[0].Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
