// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package typeschema

import (
	"encoding/json"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// samples reads the types of this package's tests as a project is read.
func samples(t *testing.T) *types.Scope {
	t.Helper()
	fixture.NeedsGo(t)
	loaded, err := packages.Load(&packages.Config{Context: t.Context(), Tests: true, Mode: packages.NeedName |
		packages.NeedTypes | packages.NeedSyntax | packages.NeedImports | packages.NeedCompiledGoFiles |
		packages.NeedForTest}, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range loaded {
		if pkg.ForTest != "" && pkg.Types.Scope().Lookup("Oddities") != nil {
			return pkg.Types.Scope()
		}
	}
	t.Fatal("the types of the tests were not read")
	return nil
}

// fill sets every field that can be set, so that nothing is omitted.
func fill(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, depth-1)
		}
	case reflect.Slice:
		if v.Type().Elem() == reflect.TypeFor[byte]() {
			v.SetBytes([]byte(`{"a": 1}`)) // which is raw JSON in some types
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Interface:
		if v.NumMethod() > 0 {
			return
		}
		v.Set(reflect.ValueOf(map[string]any{"key": 1}))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}

// writtenForm is how a value has been written, as far as the outcome shows.
func writtenForm(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "list"
	}
	return "scalar"
}

func TestMembersAreWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	scope := samples(t)
	for name, value := range map[string]any{
		"Kind": &Kind{}, "Spec": &Spec{}, "Status": &Status{}, "Template": &Template{}, "Oddities": &Oddities{private: 1},
		"Shadowing": &Shadowing{}, "Ambiguous": &Ambiguous{},
	} {
		fill(reflect.ValueOf(value).Elem(), 5)
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		want, got := map[string]string{}, map[string]string{}
		for key, value := range object {
			want[key] = writtenForm(value)
		}
		for _, one := range members(scope.Lookup(name).Type()) {
			kind, unknown := formOf(pointee(one.field.Type()), true)
			got[one.name] = map[form]string{scalar: "scalar", list: "list", keyed: "object", fields: "object"}[kind]
			if kind == anything {
				got[one.name] = want[one.name]
			}
			if wantUnknown := slices.Contains([]string{"custom", "byPointer", "withTime"}, one.name); wantUnknown !=
				(unknown != "") {
				t.Errorf("%s: the form of %s is unknown for %q", name, one.name, unknown)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members of %s (-encoding/json +members):\n%s", name, diff)
		}
	}
}

// parse reads a schema.
func parse(t *testing.T, text string) *structuralschema.Structural {
	t.Helper()
	v1, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(text), v1); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := scheme.Convert(v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	schema, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

const keep = "x-kubernetes-preserve-unknown-fields: true"

func TestFieldsThatPruningDropsAreNamed(t *testing.T) {
	t.Parallel()
	kind := samples(t).Lookup("Kind").Type()
	for name, test := range map[string]struct {
		spec   string // the schema of the object's spec
		fields string // the fields of Spec that the case is about
		want   []string
	}{
		"a schema without fields drops each": {
			`{type: object}`, "", []string{
				"spec.Merged", "spec.byName", "spec.config", "spec.custom", "spec.free", "spec.labels", "spec.parts", "spec.paused",
				"spec.port", "spec.size", "spec.template",
			},
		},
		"a schema that keeps unknown fields drops none": {`{type: object, ` + keep + `}`, "", nil},
		"an embedded struct's fields are named in the object": {
			`{type: object, properties: {paused: {type: boolean}}}`, "paused", nil,
		},
		"a named field is not inlined": {
			`{type: object, properties: {mode: {type: string}}}`, "Merged mode", []string{"spec.Merged"},
		},
		"a map whose keys are not named": {
			`{type: object, properties: {labels: {type: object}}}`, "labels", []string{"spec.labels.*"},
		},
		"a map whose values are named": {
			`{type: object, properties: {labels: {type: object, additionalProperties: {type: string}}}}`, "labels", nil,
		},
		"a map of anything keeps scalars": {
			`{type: object, properties: {labels: {type: object, additionalProperties: true}}}`, "labels", nil,
		},
		"a map of anything keeps no more than scalars": {
			`{type: object, properties: {free: {type: object, additionalProperties: true}}}`, "free",
			[]string{"spec.free.*.*"},
		},
		"an object of anything drops the fields of a struct": {
			`{type: object, additionalProperties: true}`, "template", []string{"spec.template.metadata"},
		},
		"an object of anything drops the fields of a list's structs": {
			`{type: object, additionalProperties: true}`, "parts", []string{"spec.parts[].name", "spec.parts[].parts"},
		},
		"a type within itself is followed as far as the schema goes": {
			`{type: object, properties: {parts: {type: array, items: {type: object, properties: {name: {type: string}, ` +
				`parts: {type: array, items: {type: object, properties: {parts: {type: array, items: {type: object, ` +
				keep + `}}}}}}}}}}`, "parts", []string{"spec.parts[].parts[].name"},
		},
		"the metadata of a template": {
			`{type: object, properties: {template: {type: object, properties: {metadata: {type: object}}}}}`, "template",
			[]string{
				"spec.template.metadata.annotations", "spec.template.metadata.finalizers",
				"spec.template.metadata.generateName", "spec.template.metadata.labels", "spec.template.metadata.name",
				"spec.template.metadata.namespace", "spec.template.metadata.ownerReferences",
			},
		},
		"the metadata of an embedded resource": {
			`{type: object, properties: {template: {type: object, x-kubernetes-embedded-resource: true, ` +
				`properties: {metadata: {type: object}}}}}`, "template", nil,
		},
		"what a field can hold at all": {
			`{type: object, properties: {config: {type: object}}}`, "config", []string{"spec.config.*"},
		},
		"what a field can hold is dropped where it is named": {
			`{type: object, properties: {config: {type: object, ` + keep + `, properties: {a: {type: object}}}}}`, "config",
			[]string{"spec.config.a.*"},
		},
		"what only a method writes": {
			`{type: object, properties: {custom: {type: object, properties: {parts: {type: array, items: ` +
				`{type: string}}}}}}`, "custom", []string{"spec.custom.* by Custom"},
		},
		"what a method of a pointer would write": {
			`{type: object, properties: {byName: {type: object, additionalProperties: {type: object}}}}`, "byName",
			[]string{"spec.byName.*.value"},
		},
		"a value that the API server refuses": {
			`{type: object, properties: {parts: {type: string}, custom: {type: string}, labels: {type: array, items: ` +
				`{type: string}}, port: {x-kubernetes-int-or-string: true}, template: {type: string}}}`,
			"parts custom labels port template", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dropped, err := Dropped(kind, parse(t, `{type: object, properties: {spec: `+test.spec+`, status: {`+keep+`}}}`))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, field := range dropped {
				name, _, _ := strings.Cut(strings.TrimPrefix(field.Path, "spec."), ".")
				name = strings.TrimSuffix(name, "[]")
				if test.fields != "" && !slices.Contains(strings.Fields(test.fields), name) {
					continue
				}
				text := field.Path
				if field.Unknown != "" {
					text += " by " + field.Unknown
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldsSayWhereTheyAreDeclared(t *testing.T) {
	t.Parallel()
	kind := samples(t).Lookup("Kind").Type()
	dropped, err := Dropped(kind, parse(t, `{type: object, properties: {spec: {type: object}, status: {type: object}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Field{}
	for _, field := range dropped {
		field.Pos = 0
		got[field.Path] = field
	}
	maps.DeleteFunc(got, func(path string, _ Field) bool {
		return !slices.Contains([]string{"spec.Merged", "spec.paused", "status.phase"}, path)
	})
	want := map[string]Field{
		"spec.Merged":  {Path: "spec.Merged", Struct: "Spec", Name: "Merged", Inline: true},
		"spec.paused":  {Path: "spec.paused", Struct: "Common", Name: "Paused"},
		"status.phase": {Path: "status.phase", Struct: "Status", Name: "Phase"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if parent := (Field{Path: "spec.parts[].name"}).Parent(); parent != "spec.parts[]" {
		t.Errorf("the parent is %q", parent)
	}
}

func TestFieldsAreLostThatWereKeptBefore(t *testing.T) {
	t.Parallel()
	fields := func(paths ...string) (all []Field) {
		for _, path := range paths {
			all = append(all, Field{Path: path})
		}
		return all
	}
	lost, missing := Lost(fields("spec.a", "spec.b.c", "spec.l[]"),
		fields("spec.a.x", "spec.aa", "spec.b", "spec.b.c", "spec.l[].x"))
	if diff := cmp.Diff(fields("spec.aa", "spec.b"), lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fields("spec.a.x", "spec.b.c", "spec.l[].x"), missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}
