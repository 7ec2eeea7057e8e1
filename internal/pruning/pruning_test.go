// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

// crdOf returns a CRD of the group g with versions "name: schema of spec", the last of which is the storage version.
func crdOf(t testing.TB, versions ...string) *CRD {
	t.Helper()
	c := &CRD{Group: "g"}
	for _, v := range versions {
		name, schema, _ := strings.Cut(v, ": ")
		s := new(Schema)
		text := `{"type":"object","properties":{"spec":` + schema + `}}`
		if err := json.Unmarshal([]byte(text), s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c.Versions = append(c.Versions, Version{Name: name, Served: true, Schema: s})
	}
	c.Versions[len(c.Versions)-1].Storage = true
	return c
}

// entry returns a managedFields entry: "v1 {…}" with the fields of spec, in the format FieldsV1.
func entry(text string) metav1.ManagedFieldsEntry {
	version, fields, _ := strings.Cut(text, " ")
	return metav1.ManagedFieldsEntry{APIVersion: "g/" + version,
		FieldsV1: NewFields(`{"f:metadata":{"f:labels":{}},"f:spec":` + fields + `}`)}
}

const (
	onlyA    = `{"type":"object","properties":{"a":{"type":"string"}}}`
	bothA    = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`
	otherC   = `{"type":"object","properties":{"a":{"type":"string"},"c":{"type":"string"}}}`
	listX    = `{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}}}}`
	listXY   = `{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}}}}`
	open     = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	free     = `{"type":"object","additionalProperties":{"type":"string"}}`
	anything = `{"type":"object","additionalProperties":true}`
	dflt     = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","default":"x"}}}`
	typed    = `{"type":"object","properties":{"a":{"type":"integer"}}}`
)

func TestAnObjectLosesWhatASchemaOnItsWayDoesNotKeep(t *testing.T) {
	for name, test := range map[string]struct {
		versions []string
		webhook  bool
		endpoint string
		accepted []string
		entries  []string
		want     []string
	}{
		"the storage version lacks a field that the object has": {
			versions: []string{"v1: " + bothA, "v2: " + onlyA}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}, want: []string{"spec.b"}},
		"the storage version lacks a field that the object does not have": {
			versions: []string{"v1: " + bothA, "v2: " + onlyA}, entries: []string{`v1 {"f:a":{}}`}},
		"the storage version has a new field": {
			versions: []string{"v1: " + onlyA, "v2: " + bothA}, entries: []string{`v1 {"f:a":{}}`, `v2 {"f:b":{}}`}},
		"the schema of one version became narrower": {
			versions: []string{"v1: " + onlyA}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}, want: []string{"spec.b"}},
		"a version lost preserveUnknownFields": {
			versions: []string{"v1: " + onlyA}, entries: []string{`v1 {"f:a":{},"f:b":{".":{},"f:deep":{}}}`}, want: []string{"spec.b"}},
		"everything is kept": {
			versions: []string{"v1: " + bothA, "v2: " + open}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}},
		"an object without managedFields may have the field": {
			versions: []string{"v1: " + bothA, "v2: " + onlyA}, want: []string{"spec.b"}},
		"an object without managedFields, and no version has more": {
			versions: []string{"v1: " + onlyA, "v2: " + bothA}},
		"a list that is owned as a whole may have the field": {
			versions: []string{"v1: " + listXY, "v2: " + listX}, entries: []string{`v1 {"f:l":{}}`}, want: []string{"spec.l[].y"}},
		"a list that is owned as a whole in the storage version": {
			versions: []string{"v1: " + listXY, "v2: " + listX}, entries: []string{`v2 {"f:l":{}}`}},
		"items of a list by key": {
			versions: []string{"v1: " + listXY, "v2: " + listX},
			entries:  []string{`v1 {"f:l":{"k:{\"x\":\"1\"}":{".":{},"f:x":{},"f:y":{}}}}`}, want: []string{"spec.l[].y"}},
		"a field that the API server sets by itself": {
			versions: []string{"v1: " + dflt, "v2: " + onlyA}, entries: []string{`v1 {"f:a":{}}`}, want: []string{"spec.b"}},
		"a field that the API server sets by itself, of an object that was never in that version": {
			versions: []string{"v1: " + dflt, "v2: " + onlyA}, entries: []string{`v2 {"f:a":{}}`}},
		"another type, which the API server refuses": {
			versions: []string{"v1: " + onlyA, "v2: " + typed}, entries: []string{`v1 {"f:a":{}}`}},
		"additionalProperties keep a field": {
			versions: []string{"v1: " + bothA, "v2: " + free}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}},
		"additionalProperties that are true drop what is below": {
			versions: []string{"v1: " + listX, "v2: " + anything}, entries: []string{`v1 {"f:l":{}}`}, want: []string{"spec.l[].x"}},
		"a webhook converts, and the storage version has a field of its own": {webhook: true,
			versions: []string{"v1: " + bothA, "v2: " + otherC}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}},
		"a webhook converts, and the storage version has only less": {webhook: true,
			versions: []string{"v1: " + bothA, "v2: " + onlyA}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}, want: []string{"spec.b"}},
		"a webhook converts from a version that names no field": {webhook: true,
			versions: []string{"v1: " + open, "v2: " + onlyA}, entries: []string{`v1 {"f:a":{},"f:b":{}}`}},
		"a webhook converts, and the schema of the storage version became narrower": {webhook: true,
			versions: []string{"v1: " + bothA, "v2: " + otherC}, entries: []string{`v2 {"f:d":{}}`}, want: []string{"spec.d"}},
		"a webhook converts, and the schema of the other version became narrower": {webhook: true,
			versions: []string{"v1: " + onlyA, "v2: " + otherC}, entries: []string{`v1 {"f:b":{}}`}, want: []string{"spec.b"}},
		"the endpoint lacks a field that the storage version has": {endpoint: "v1",
			versions: []string{"v1: " + onlyA, "v2: " + bothA}, entries: []string{`v2 {"f:b":{}}`}, want: []string{"spec.b"}},
		"the endpoint lacks it, and a webhook converts": {endpoint: "v1", webhook: true,
			versions: []string{"v1: " + otherC, "v2: " + bothA}, entries: []string{`v2 {"f:b":{}}`}, want: []string{"spec.b"}},
		"the endpoint lacks it, and the object has no managedFields": {endpoint: "v1",
			versions: []string{"v1: " + onlyA, "v2: " + bothA}, want: []string{"spec.b"}},
		"a version that the CRD does not have any more": {
			versions: []string{"v2: " + onlyA}, entries: []string{`v1 {"f:b":{}}`}, want: []string{"spec.b"}},
		"an entry that is no JSON shows nothing": {
			versions: []string{"v1: " + bothA, "v2: " + onlyA}, entries: []string{`v1 {`}, want: []string{"spec.b"}},
		"an accepted field": {accepted: []string{"spec.b"},
			versions: []string{"v1: " + bothA, "v2: " + onlyA}, entries: []string{`v1 {"f:b":{},"f:c":{}}`}, want: []string{"spec.c"}},
		"a field below an accepted one": {accepted: []string{"spec.l"},
			versions: []string{"v1: " + listXY, "v2: " + listX}, entries: []string{`v1 {"f:l":{}}`}},
		"a field whose name begins with that of an accepted one": {accepted: []string{"spec.b"},
			versions: []string{"v1: " + onlyA}, entries: []string{`v1 {"f:bb":{}}`}, want: []string{"spec.bb"}},
		"every field is accepted": {accepted: []string{"*"}, versions: []string{"v1: " + bothA, "v2: " + onlyA}},
	} {
		t.Run(name, func(t *testing.T) {
			c := crdOf(t, test.versions...)
			c.Webhook = test.webhook
			var entries []metav1.ManagedFieldsEntry
			for _, e := range test.entries {
				entries = append(entries, entry(e))
			}
			endpoint := test.endpoint
			if endpoint == "" {
				endpoint = c.Storage().Name
			}
			rule := NewRule(c, endpoint, test.accepted)
			for range 2 { // the second answer is from memory
				if diff := compare.Diff(test.want, rule.Lost(entries)); diff != "" {
					t.Errorf("fields that are lost (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestFieldsAreLostWhereTheOtherSchemaDoesNotKeepThem(t *testing.T) {
	const (
		color    = `{"type":"object","properties":{"color":{"type":"string"}}}`
		colors   = `{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"string"}}}`
		hue      = `{"type":"object","properties":{"hue":{"type":"string"}}}`
		anything = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
		texts    = `{"type":"object","additionalProperties":{"type":"string"}}`
		counts   = `{"type":"object","additionalProperties":{"type":"integer"}}`
		list     = `{"type":"array","items":` + color + `}`
		other    = `{"type":"array","items":` + hue + `}`
		port     = `{"x-kubernetes-int-or-string":true}`
		number   = `{"type":"integer"}`
		pod      = `{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object"},"spec":` + color + `}}`
		podB     = `{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":` + color + `}}`
		named    = `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"deep":` + color + `}}`
	)
	for name, test := range map[string]struct{ from, to, want string }{
		"the same":                       {color, color, ""},
		"more":                           {color, colors, ""},
		"less":                           {colors, color, "spec.size"},
		"several fields":                 {colors, hue, "spec.color, spec.size"},
		"anything is kept":               {colors, anything, ""},
		"anything may be there":          {anything, color, "spec.*"},
		"a field of anything is named":   {anything, named, "spec.*"},
		"keys of the same type":          {texts, texts, ""},
		"keys of another type":           {texts, counts, "spec.*"},
		"named fields among keys":        {color, texts, ""},
		"named fields of another type":   {color, counts, "spec.color"},
		"keys among named fields":        {texts, color, "spec.*"},
		"items":                          {list, other, "spec[].color"},
		"another type":                   {list, color, "spec"},
		"a number where both may stand":  {number, port, ""},
		"both where a number may stand":  {port, number, "spec"},
		"a field of an embedded object":  {pod, podB, ""},
		"no schema, which keeps nothing": {color, `{}`, "spec.color"},
	} {
		t.Run(name, func(t *testing.T) {
			c := crdOf(t, "v1: "+test.from, "v2: "+test.to)
			var got []string
			for _, l := range c.Versions[0].Schema.Lost(c.Versions[1].Schema) {
				got = append(got, l.Path.String())
			}
			if joined := strings.Join(got, ", "); joined != test.want {
				t.Errorf("lost %q, want %q", joined, test.want)
			}
		})
	}
}

func TestWhatEveryObjectHasIsNeverLost(t *testing.T) {
	var from, to Schema
	for text, into := range map[string]*Schema{
		`{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"}}}`: &from,
		`{"type":"object"}`: &to,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if got := from.Lost(&to); len(got) > 0 {
		t.Errorf("lost %v", got)
	}
}

func TestNoObjectIsLookedAtWhereEveryFieldIsKept(t *testing.T) {
	for versions, want := range map[string]bool{"v1: " + open: false, "v1: " + bothA: false} {
		if got := NewRule(crdOf(t, versions), "v1", nil).Lossless(); got != want {
			t.Errorf("%s: lossless %v, want %v", versions, got, want)
		}
	}
	kept, err := Parse([]byte(`{"metadata":{"uid":"u","generation":3},"spec":{"group":"g","preserveUnknownFields":true,
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
		"properties":{"a":{"type":"object"}}}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !NewRule(kept, "v1", nil).Lossless() {
		t.Error("a CRD with spec.preserveUnknownFields loses fields")
	}
}

func TestDeepManagedFieldsAreNotFollowedWithoutEnd(t *testing.T) {
	text := strings.Repeat(`{"k:{}":`, 5000) + "{}" + strings.Repeat("}", 5000)
	rule := NewRule(crdOf(t, "v1: "+listX), "v1", nil)
	if lost := rule.Lost([]metav1.ManagedFieldsEntry{entry(`v1 {"f:l":` + text + `}`)}); len(lost) != 1 {
		t.Errorf("lost: %d fields, want the one at the bound", len(lost))
	}
}
