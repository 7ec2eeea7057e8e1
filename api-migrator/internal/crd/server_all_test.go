// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package crd

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// The objects of two versions, moved from one to the other and back on a real server, say whether None is lossless.
func TestLosslessIsWhatARealServerDoesWithObjects(t *testing.T) {
	fixture.NeedsGo(t)
	cluster := testbed.New(t, testbed.Options{})
	for name, test := range map[string]struct {
		v1, v2 string // what stands under spec.properties.spec; objects are stored in v2
		in     string // the version in which an object is written; it is read in the other one
		spec   string // the object's spec
		kept   bool
	}{
		"the same schema": {
			v1: `{type: object, properties: {a: {type: integer}}}`,
			v2: `{type: object, properties: {a: {type: integer}}}`,
			in: "v1", spec: `{a: 1}`, kept: true,
		},
		"other bounds": {
			v1: `{type: object, properties: {a: {type: integer}}}`,
			v2: `{type: object, properties: {a: {type: integer, maximum: 5}}}`,
			in: "v1", spec: `{a: 7}`, kept: true,
		},
		"a field that the stored version lacks": {
			v1: `{type: object, properties: {a: {type: integer}, b: {type: integer}}}`,
			v2: `{type: object, properties: {a: {type: integer}}}`,
			in: "v1", spec: `{a: 1, b: 2}`,
		},
		"a field that the other version lacks": {
			v1: `{type: object, properties: {a: {type: integer}}}`,
			v2: `{type: object, properties: {a: {type: integer}, b: {type: integer}}}`,
			in: "v2", spec: `{a: 1, b: 2}`,
		},
		"a field that is missing in a list": {
			v1: `{type: object, properties: {l: {type: array, items: {type: object, properties: {b: {type: integer}}}}}}`,
			v2: `{type: object, properties: {l: {type: array, items: {type: object}}}}`,
			in: "v1", spec: `{l: [{b: 2}]}`,
		},
		"a default in one": {
			v1: `{type: object, properties: {a: {type: integer}, b: {type: integer}}}`,
			v2: `{type: object, properties: {a: {type: integer}, b: {type: integer, default: 3}}}`,
			in: "v1", spec: `{a: 1}`,
		},
		"fields and a map": {
			v1: `{type: object, properties: {a: {type: integer}}}`,
			v2: `{type: object, additionalProperties: {type: integer}}`,
			in: "v2", spec: `{a: 1, b: 2}`,
		},
		"anything and nothing": {
			v1: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
			v2: `{type: object}`,
			in: "v1", spec: `{a: 1}`,
		},
		"anything in both": {
			v1: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
			v2: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
			in: "v1", spec: `{a: {b: [1]}}`, kept: true,
		},
		"anything, but one field is narrower": {
			v1: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
			v2: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object}}}`,
			in: "v1", spec: `{a: {b: 1}}`,
		},
		"anything, and one field is named": {
			v1: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
			v2: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}}`,
			in: "v1", spec: `{a: 1, b: {c: 1}}`, kept: true,
		},
		"anything in the items of a list, said in two ways": {
			v1: `{type: object, properties: {l: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}}}`,
			v2: `{type: object, properties: {l: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`,
			in: "v1", spec: `{l: [{b: 1}]}`, kept: true,
		},
		"anything, but what is named keeps it in one": {
			v1: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object}}}`,
			v2: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`,
			in: "v2", spec: `{a: {b: 1}}`,
		},
		"a map of anything and one of objects": {
			v1: `{type: object, additionalProperties: {type: object, x-kubernetes-preserve-unknown-fields: true}}`,
			v2: `{type: object, additionalProperties: {type: object}}`,
			in: "v1", spec: `{a: {b: 1}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{t: t, cluster: cluster}
			manifest := func(v1, v2 string) []byte {
				schema := "schema: {openAPIV3Schema: {type: object, properties: {spec: "
				return asJSON(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things, kind: Thing}
  scope: Cluster
  versions:
  - {name: v1, served: true, storage: false, `+schema+v1+`}}}}
  - {name: v2, served: true, storage: true, `+schema+v2+`}}}}`)
			}
			body := manifest(test.v1, test.v2)
			if got := parse(t, name, string(body)).lossless(nil); (got.Verdict == Yes) != test.kept {
				t.Errorf("lossless: %+v, want %t", got, test.kept)
			}
			if !s.takes(http.MethodPost, crdsPath, body) {
				t.Fatal("the API server does not take the CRD")
			}
			defer s.remove("things.example.com")
			object := asJSON(t, `{apiVersion: example.com/`+test.in+
				`, kind: Thing, metadata: {name: one}, spec: `+test.spec+`}`)
			s.until("the resource to be served", func() bool {
				status, _ := s.do(http.MethodPost, "/apis/example.com/"+test.in+"/things", object)
				return status == http.StatusCreated
			})
			other := map[string]string{"v1": "v2", "v2": "v1"}[test.in]
			_, read := s.do(http.MethodGet, "/apis/example.com/"+other+"/things/one", nil)
			var written map[string]any
			if err := json.Unmarshal(object, &written); err != nil {
				t.Fatal(err)
			}
			if kept := cmp.Equal(written["spec"], read["spec"]); kept != test.kept {
				t.Errorf("written %v, read %v", written["spec"], read["spec"])
			}
		})
	}
}
