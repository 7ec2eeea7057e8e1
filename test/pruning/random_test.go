// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// What the rule says about random CRDs and objects is compared with what the API server's own code prunes: an object of
// which the rule says nothing keeps every field, and a field of which it says so is really dropped, where managedFields
// name every field.
func TestTheRuleSaysWhatAnAPIServerDrops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := []map[string]any{schemaOf(t, "v1", 3), schemaOf(t, "v2", 3), schemaOf(t, "v1 before", 3)}
		c := &pruning.CRD{Group: "g"}
		var structural []*structuralschema.Structural
		for i, v := range versions {
			raw, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"spec": v}})
			if err != nil {
				t.Fatal(err)
			}
			s := new(pruning.Schema)
			if err := json.Unmarshal(raw, s); err != nil {
				t.Fatal(err)
			}
			if i < 2 {
				c.Versions = append(c.Versions, pruning.Version{Name: fmt.Sprintf("v%d", i+1), Served: true, Storage: i == 1, Schema: s})
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
		// A list that no schema describes, and that the other schema takes for a value of another type, looks like a value.
		hidden := atomic && isOfOtherTypes(object["spec"], versions[1])
		structuralpruning.Prune(object, structural[0], true)
		structuralpruning.Prune(object, structural[1], true)
		after, _ := json.Marshal(object)
		lost := pruning.NewRule(c, "v2", nil).Lost(entries)
		drops := string(before) != string(after)
		switch {
		case drops && len(lost) == 0 && !hidden:
			t.Fatalf("the API server drops fields, and the rule does not say so:\n%s\n%s\nowned: %s", before, after, owned)
		case !drops && len(lost) > 0 && !atomic && !hasEmpty(object["spec"]) && !strings.Contains(fmt.Sprint(lost), pruning.Any) &&
			!isOfOtherTypes(object["spec"], versions[0]):
			// An empty object looks as if it were owned as a whole, what no schema describes can be anything, and by the
			// schema of v1 a value that was of another type once is of its present type.
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

// isOfOtherTypes reports whether a value contains one whose type a schema does not allow.
func isOfOtherTypes(value any, schema map[string]any) bool {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		more, _ := schema["additionalProperties"].(map[string]any)
		for name, inner := range value {
			property, named := properties[name].(map[string]any)
			if named && isOfOtherTypes(inner, property) || !named && more != nil && isOfOtherTypes(inner, more) {
				return true
			}
		}
		return schema["type"] != "object"
	case []any:
		items, ok := schema["items"].(map[string]any)
		return !ok || slices.ContainsFunc(value, func(item any) bool { return isOfOtherTypes(item, items) })
	}
	return schema["type"] != "string"
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
