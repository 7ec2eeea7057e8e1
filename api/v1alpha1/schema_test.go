// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/config"
)

// notOurs are fields that every object has, whose schema in a CRD the API server replaces.
var notOurs = []string{"apiVersion", "kind", "metadata"}

// schema is the part of an OpenAPI schema that our CRDs use.
type schema struct {
	Type, Format, Description, Pattern string
	Enum                               []any
	MaxLength, MaxItems                *int64
	Properties                         map[string]schema
	Items                              *schema
	AdditionalProperties               any
	Embedded                           bool `json:"x-kubernetes-embedded-resource"`
	Open                               bool `json:"x-kubernetes-preserve-unknown-fields"`
}

// schemas returns the schemas of the generated CRDs, by kind.
func schemas(t *testing.T) map[string]schema {
	t.Helper()
	files, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]schema{}
	for _, file := range files {
		raw, err := config.CRDs.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil || len(crd.Spec.Versions) != 1 {
			t.Fatalf("%s: %d versions, %v", file, len(crd.Spec.Versions), err)
		}
		all[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	if len(all) != 3 {
		t.Fatalf("found %d CRDs, want 3", len(all))
	}
	return all
}

// walk calls see with every field below s; the path of a list's items ends in [].
func walk(path string, s schema, see func(path string, s schema)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if strings.Count(path, ".") > 0 || !slices.Contains(notOurs, name) {
			see(path+"."+name, s.Properties[name])
			walk(path+"."+name, s.Properties[name], see)
		}
	}
	if s.Items != nil {
		see(path+"[]", *s.Items)
		walk(path+"[]", *s.Items, see)
	}
}

// unbounded says what is wrong with the bounds of one field; empty where nothing is.
func unbounded(s schema) string {
	switch {
	case s.Open || s.Embedded || s.AdditionalProperties != nil:
		return "takes any field"
	case s.Type == "string" && s.MaxLength == nil && s.Enum == nil && s.Format != "date-time":
		return "a string without maxLength, enum or format"
	case s.Type == "array" && s.MaxItems == nil:
		return "a list without maxItems"
	case s.Type == "":
		return "has no type"
	}
	return ""
}

func TestEveryStringAndListIsBounded(t *testing.T) {
	fields := 0
	for kind, root := range schemas(t) {
		walk(kind, root, func(path string, s schema) {
			fields++
			if problem := unbounded(s); problem != "" {
				t.Errorf("%s: %s", path, problem)
			}
		})
	}
	if fields < 100 {
		t.Errorf("looked at %d fields, want all of them", fields)
	}
}

// What users write reaches terminals, request paths and metric labels: every string of a spec says which characters it
// may have.
func TestEveryStringOfASpecHasAPatternOrAnEnum(t *testing.T) {
	strung := 0
	for kind, root := range schemas(t) {
		walk(kind, root, func(path string, s schema) {
			if !strings.HasPrefix(path, kind+".spec.") || s.Type != "string" {
				return
			}
			strung++
			if s.Pattern == "" && s.Enum == nil {
				t.Errorf("%s takes any character", path)
			}
			if s.Pattern != "" && (!strings.HasPrefix(s.Pattern, "^") || !strings.HasSuffix(s.Pattern, "$") ||
				regexp.MustCompile(s.Pattern).MatchString("a\x1b[2J")) {
				t.Errorf("%s takes an escape sequence: %s", path, s.Pattern)
			}
		})
	}
	if strung != 11 {
		t.Errorf("looked at %d strings, want 11", strung)
	}
}

func TestTheSearchForBoundsFindsWhatHasNone(t *testing.T) {
	bound := int64(1)
	object := schema{Type: "object", Properties: map[string]schema{
		"kind":    {Type: "string"},
		"free":    {Type: "string"},
		"bounded": {Type: "string", MaxLength: &bound},
		"list":    {Type: "array", Items: &schema{Type: "string"}},
		"pairs":   {Type: "object", AdditionalProperties: true},
		"inner":   {Type: "object", Properties: map[string]schema{"kind": {Type: "string"}}},
	}}
	var got []string
	walk("It", object, func(path string, s schema) {
		if unbounded(s) != "" {
			got = append(got, path)
		}
	})
	if diff := compare.Diff([]string{"It.free", "It.inner.kind", "It.list", "It.list[]", "It.pairs"}, got); diff != "" {
		t.Errorf("fields without bounds (-want +got):\n%s", diff)
	}
}

// undocumented says what is wrong with the description of a field; empty where nothing is.
func undocumented(path string, s schema) string {
	name := path[strings.LastIndex(path, ".")+1:]
	if strings.HasSuffix(name, "[]") {
		return "" // the list says it
	}
	first, _, _ := strings.Cut(s.Description, " ")
	switch {
	case s.Description == "":
		return "has no description"
	case !strings.HasSuffix(s.Description, "."):
		return fmt.Sprintf("%q is not a sentence", s.Description)
	case !strings.EqualFold(first, name) || !unicode.IsUpper(rune(first[0])):
		return fmt.Sprintf("the description begins with %q, want the name", first)
	}
	return ""
}

func TestEveryFieldSaysWhatItMeans(t *testing.T) {
	for kind, root := range schemas(t) {
		walk(kind, root, func(path string, s schema) {
			if problem := undocumented(path, s); problem != "" {
				t.Errorf("%s: %s", path, problem)
			}
		})
	}
}

func TestEveryTimeSaysItsFormatAndEveryOptionOfASpecItsDefault(t *testing.T) {
	for kind, root := range schemas(t) {
		walk(kind, root, func(path string, s schema) {
			option := strings.HasPrefix(path, kind+".spec.") &&
				!strings.Contains(path, "[]") && s.Properties == nil
			if text := strings.ToLower(s.Description); option && !strings.Contains(text, "default") &&
				!strings.Contains(text, "required") {
				t.Errorf("%s says neither its default nor that it is required: %s", path, s.Description)
			}
			if s.Format == "date-time" && !strings.Contains(strings.Join(strings.Fields(s.Description), " "), "RFC 3339") {
				t.Errorf("%s does not say its format: %s", path, s.Description)
			}
		})
	}
}
