// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// pruningCase is an update of a CRD, and an object that was stored before it.
type pruningCase struct {
	// preserves: spec.preserveUnknownFields of the old CRD is true.
	preserves bool
	old, next string // what stands below spec.properties.spec
	spec      string // the object's spec
	// want are the reasons, without the version and the words that are the same in all. None: the object keeps every
	// field.
	want []string
}

const (
	named   = "named: "
	unnamed = "unnamed: "
)

// pruningCases are judged offline, by the API server's own pruning, and on a real server.
var pruningCases = map[string]pruningCase{
	"the same schema": {
		old:  `{type: object, properties: {a: {type: integer}}}`,
		next: `{type: object, properties: {a: {type: integer}}}`, spec: `{a: 1}`,
	},
	"a field is removed": {
		old:  `{type: object, properties: {a: {type: integer}, b: {type: integer}}}`,
		next: `{type: object, properties: {a: {type: integer}}}`,
		spec: `{a: 1, b: 2}`, want: []string{named + "spec.b"},
	},
	"a field is removed from the items of a list": {
		old:  `{type: object, properties: {l: {type: array, items: {type: object, properties: {b: {type: integer}}}}}}`,
		next: `{type: object, properties: {l: {type: array, items: {type: object}}}}`,
		spec: `{l: [{b: 2}]}`, want: []string{named + "spec.l[].b"},
	},
	"a field is removed from the values of a map": {
		old:  `{type: object, additionalProperties: {type: object, properties: {b: {type: integer}}}}`,
		next: `{type: object, additionalProperties: {type: object}}`,
		spec: `{x: {b: 2}}`, want: []string{named + "spec.*.b"},
	},
	"a field is removed where unknown fields are kept": {
		old:  `{type: object, properties: {a: {type: object, properties: {b: {type: integer}}}}}`,
		next: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
		spec: `{a: {b: 2}}`,
	},
	"a field is added": {
		old:  `{type: object, properties: {a: {type: integer}}}`,
		next: `{type: object, properties: {a: {type: integer}, b: {type: integer}}}`, spec: `{a: 1}`,
	},
	"a map becomes an object": {
		old:  `{type: object, additionalProperties: {type: integer}}`,
		next: `{type: object, properties: {a: {type: integer}}}`,
		spec: `{a: 1, b: 2}`, want: []string{unnamed + "spec"},
	},
	"an object becomes a map": {
		old:  `{type: object, properties: {a: {type: integer}}}`,
		next: `{type: object, additionalProperties: {type: integer}}`, spec: `{a: 1}`,
	},
	"a map of anything takes no more than objects without fields": {
		old:  `{type: object, additionalProperties: {x-kubernetes-preserve-unknown-fields: true}}`,
		next: `{type: object, additionalProperties: true}`,
		spec: `{a: {b: 1}}`, want: []string{unnamed + "spec.*"},
	},
	"unknown fields are not kept any more": {
		old: `{type: object, x-kubernetes-preserve-unknown-fields: true}`, next: `{type: object}`, spec: `{a: 1}`,
		want: []string{unnamed + "spec"},
	},
	"unknown fields are kept in another way": {
		old:  `{type: object, properties: {l: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}}}`,
		next: `{type: object, properties: {l: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`,
		spec: `{l: [{a: {b: 1}}]}`,
	},
	"unknown fields of items are kept by the list": {
		old:  `{type: object, properties: {l: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`,
		next: `{type: object, properties: {l: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}}}`,
		spec: `{l: [{a: {b: 1}}]}`,
	},
	"an unknown field gets a schema that drops its fields": {
		old:  `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
		next: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object}}}`,
		spec: `{a: {b: 1}, c: {d: 1}}`, want: []string{unnamed + "spec.a"},
	},
	"an unknown field gets a schema of a list that drops its fields": {
		old:  `{x-kubernetes-preserve-unknown-fields: true}`,
		next: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: array, items: {type: object}}}}`,
		spec: `{a: [{b: 1}]}`, want: []string{unnamed + "spec.a[]"},
	},
	"an unknown field gets a schema of a value": {
		old:  `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
		next: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}, b: {x-kubernetes-int-or-string: true}}}`,
		spec: `{a: 1, b: x}`,
	},
	"an embedded resource becomes an object": {
		old:  `{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: integer}}}`,
		next: `{type: object, properties: {a: {type: integer}}}`,
		spec: `{apiVersion: v1, kind: Pod, metadata: {name: x}, a: 1}`,
		want: []string{named + "spec.apiVersion", named + "spec.kind", named + "spec.metadata"},
	},
	"an embedded resource stays one": {
		old:  `{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: integer}}}`,
		next: `{type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: integer}, metadata: {type: object}}}`,
		spec: `{apiVersion: v1, kind: Pod, metadata: {name: x}, a: 1}`,
	},
	"every unknown field was kept, and none is": {
		preserves: true,
		old:       `{type: object, properties: {a: {type: object}, n: {type: integer}, l: {type: array, items: {type: object}}, m: {type: object, additionalProperties: {type: object}}}}`,
		next:      `{type: object, properties: {a: {type: object}, n: {type: integer}, l: {type: array, items: {type: object}}, m: {type: object, additionalProperties: {type: object}}}}`,
		spec:      `{a: {b: 1}, n: 1, l: [{b: 1}], m: {x: {b: 1}}, z: 1}`,
		want:      []string{unnamed + "the object itself, spec, spec.a, spec.l[], spec.m.*"},
	},
	"every unknown field was kept, and is": {
		preserves: true,
		old:       `{type: object, properties: {a: {type: object, additionalProperties: true}}}`,
		next:      `{x-kubernetes-preserve-unknown-fields: true}`,
		spec:      `{a: {b: {c: 1}}, z: {y: 1}}`,
		want:      []string{unnamed + "the object itself"},
	},
}

// CRD is the manifest of a case's old or new CRD, in the form in which an API server holds it.
func (c pruningCase) crd(t *testing.T, spec string, preserves bool) []byte {
	t.Helper()
	raw := asJSON(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: `+spec+`}}}}`)
	if preserves {
		raw = []byte(strings.Replace(string(raw), `"scope":`, `"preserveUnknownFields":true,"scope":`, 1))
	}
	return raw
}

// object is the object that is stored. Where every field is kept, it has one more at its root.
func (c pruningCase) object(t *testing.T) map[string]any {
	t.Helper()
	more := ""
	if c.preserves {
		more = ", more: {a: 1}"
	}
	var object map[string]any
	if err := json.Unmarshal(asJSON(t, `{apiVersion: example.com/v1, kind: Thing, metadata: {name: one}, spec: `+c.spec+
		more+`}`), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// pruned is what the API server's own code leaves of an object.
func pruned(t *testing.T, d *CRD, version string, object map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var left map[string]any
	if err := json.Unmarshal(raw, &left); err != nil {
		t.Fatal(err)
	}
	if d.preserves() {
		return left
	}
	for _, v := range d.v1.Spec.Versions {
		if v.Name != version {
			continue
		}
		schema := &apiextensions.JSONSchemaProps{}
		if err := crds().Convert(v.Schema.OpenAPIV3Schema, schema, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(schema)
		if err != nil {
			t.Fatal(err)
		}
		structuralpruning.Prune(left, structural, true)
		structuraldefaulting.PruneNonNullableNullsWithoutDefaults(left, structural)
	}
	return left
}

func TestLossByPruningIsWhatTheAPIServersPruningDoes(t *testing.T) {
	t.Parallel()
	for name, test := range pruningCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := parse(t, "old", string(test.crd(t, test.old, test.preserves)))
			after := parse(t, "new", string(test.crd(t, test.next, false)))
			object := test.object(t)
			if diff := cmp.Diff(object, pruned(t, before, "v1", object)); diff != "" {
				t.Fatalf("the old schema does not keep the object (-object +kept):\n%s", diff)
			}
			if lost := !cmp.Equal(object, pruned(t, after, "v1", object)); lost != (len(test.want) > 0) {
				t.Errorf("the API server's pruning takes something away: %t, want reasons %q", lost, test.want)
			}
			var want []string
			for _, reason := range test.want {
				if path, ok := strings.CutPrefix(reason, named); ok {
					want = append(want, "v1 "+path+": objects lose it as they are rewritten: the old schema kept it, "+
						"the new one drops it")
					continue
				}
				want = append(want, "v1: objects lose the fields that the schema does not name, as they are "+
					"rewritten: the old CRD kept them in "+
					strings.TrimPrefix(reason, unnamed)+", the new one drops them")
			}
			comparisons, err := Check(t.Context(), []*CRD{before}, []*CRD{after})
			if err != nil {
				t.Fatal(err)
			}
			compatible := comparisons[0].Compatible
			var got []string
			for _, reason := range compatible.Reasons {
				if strings.Contains(reason, "objects lose ") {
					got = append(got, reason)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if len(want) > 0 && (compatible.Verdict != No || comparisons[0].OK()) {
				t.Errorf("the verdict is %s, and OK is %t, though fields are lost",
					compatible.Verdict, comparisons[0].OK())
			}
		})
	}
}
