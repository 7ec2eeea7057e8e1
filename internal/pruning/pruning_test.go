// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
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
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}},"f:spec":` + fields + `}`)}
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
				if diff := cmp.Diff(test.want, rule.Lost(entries)); diff != "" {
					t.Errorf("fields that are lost (-want +got):\n%s", diff)
				}
			}
		})
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

// What the rule says about random CRDs and objects is compared with what the API server's own code prunes: an object of
// which the rule says nothing keeps every field, and a field of which it says so is really dropped, where managedFields
// name every field.
func TestTheRuleSaysWhatAnAPIServerDrops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := []map[string]any{schemaOf(t, "v1", 3), schemaOf(t, "v2", 3), schemaOf(t, "v1 before", 3)}
		c := &CRD{Group: "g"}
		var structural []*structuralschema.Structural
		for i, v := range versions {
			raw, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"spec": v}})
			if err != nil {
				t.Fatal(err)
			}
			s := new(Schema)
			if err := json.Unmarshal(raw, s); err != nil {
				t.Fatal(err)
			}
			if i < 2 {
				c.Versions = append(c.Versions, Version{Name: fmt.Sprintf("v%d", i+1), Served: true, Storage: i == 1, Schema: s})
			}
			structural = append(structural, structuralOf(t, raw))
		}
		// The object was written at v1, by the schema that v1 has or had then.
		atWrite := 0
		if rapid.Bool().Draw(t, "v1 became narrower") {
			atWrite = 2
		}
		object := map[string]any{"apiVersion": "g/v1", "kind": "K", "metadata": map[string]any{"name": "n"},
			"spec": fitting(t, versions[atWrite])}
		structuralpruning.Prune(object, structural[atWrite], true)
		// Lists that are owned as a whole hide their items from the rule, and only the present schema says what they can have.
		atomic := atWrite == 0 && rapid.Bool().Draw(t, "lists are atomic")
		owned, err := json.Marshal(map[string]any{"f:spec": ownedOf(object["spec"], atomic)})
		if err != nil {
			t.Fatal(err)
		}
		entries := []metav1.ManagedFieldsEntry{{APIVersion: "g/v1", FieldsV1: metav1.NewFieldsV1(string(owned))}}
		before, _ := json.Marshal(object)
		structuralpruning.Prune(object, structural[0], true)
		structuralpruning.Prune(object, structural[1], true)
		after, _ := json.Marshal(object)
		lost := NewRule(c, "v2", nil).Lost(entries)
		drops := string(before) != string(after)
		switch {
		case drops && len(lost) == 0:
			t.Fatalf("the API server drops fields, and the rule does not say so:\n%s\n%s\nowned: %s", before, after, owned)
		case !drops && len(lost) > 0 && !atomic && !hasEmpty(object["spec"]) && !strings.Contains(fmt.Sprint(lost), Any):
			// An empty object looks as if it were owned as a whole, and what no schema describes can be anything.
			t.Fatalf("the API server drops nothing, and the rule names %v:\n%s\nowned: %s", lost, before, owned)
		}
	})
}

var fieldNames = []string{"a", "b", "c"}

// schemaOf draws a structural schema of an object.
func schemaOf(t *rapid.T, label string, depth int) map[string]any {
	kinds := []string{"string", "object", "array", "free", "open"}
	if depth == 0 {
		kinds = kinds[:1]
	}
	kind := "object"
	if depth < 3 {
		kind = rapid.SampledFrom(kinds).Draw(t, label)
	}
	s := map[string]any{"type": kind}
	switch kind {
	case "object":
		properties := map[string]any{}
		for _, name := range fieldNames {
			if rapid.Bool().Draw(t, label+"."+name) {
				properties[name] = schemaOf(t, label+"."+name, depth-1)
			}
		}
		s["properties"] = properties
		if rapid.IntRange(0, 5).Draw(t, label+" preserves") == 0 {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	case "array":
		s["items"] = schemaOf(t, label+"[]", depth-1)
	case "free":
		s["type"] = "object"
		s["additionalProperties"] = schemaOf(t, label+".*", depth-1)
		if rapid.IntRange(0, 3).Draw(t, label+" true") == 0 {
			s["additionalProperties"] = true
		}
	case "open":
		s["type"] = "object"
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	return s
}

// fitting draws a value that a schema accepts.
func fitting(t *rapid.T, schema map[string]any) any {
	switch schema["type"] {
	case "string":
		return "x"
	case "array":
		items := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			items = append(items, fitting(t, schema["items"].(map[string]any)))
		}
		return items
	}
	object := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range fieldNames {
		property, _ := properties[name].(map[string]any)
		more, free := schema["additionalProperties"].(map[string]any)
		switch {
		case !rapid.Bool().Draw(t, name):
		case property != nil:
			object[name] = fitting(t, property)
		case free:
			object[name] = fitting(t, more)
		case schema["additionalProperties"] == true:
			object[name] = "x"
		case schema["x-kubernetes-preserve-unknown-fields"] == true:
			object[name] = valueOf(t, 2)
		}
	}
	return object
}

// valueOf draws a value of which no schema says anything.
func valueOf(t *rapid.T, depth int) any {
	kind := rapid.SampledFrom([]string{"string", "object", "array"}).Draw(t, "kind")
	switch {
	case depth == 0 || kind == "string":
		return "x"
	case kind == "array":
		items := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			items = append(items, valueOf(t, depth-1))
		}
		return items
	}
	object := map[string]any{}
	for _, name := range fieldNames {
		if rapid.Bool().Draw(t, name) {
			object[name] = valueOf(t, depth-1)
		}
	}
	return object
}

// ownedOf returns the fields of a value, in the format FieldsV1.
func ownedOf(value any, atomic bool) map[string]any {
	owned := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			owned["f:"+name] = ownedOf(value[name], atomic)
		}
	case []any:
		for i, item := range value {
			if !atomic {
				owned[fmt.Sprintf("k:{\"i\":%d}", i)] = ownedOf(item, atomic)
			}
		}
	}
	return owned
}

// hasEmpty reports whether a value contains an object or a list without content.
func hasEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0 || slices.ContainsFunc(slices.Collect(maps.Values(value)), hasEmpty)
	case []any:
		return len(value) == 0 || slices.ContainsFunc(value, hasEmpty)
	}
	return false
}

func structuralOf(t *rapid.T, raw []byte) *structuralschema.Structural {
	v1 := new(apiextensionsv1.JSONSchemaProps)
	if err := json.Unmarshal(raw, v1); err != nil {
		t.Fatal(err)
	}
	internal := new(apiextensions.JSONSchemaProps)
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
