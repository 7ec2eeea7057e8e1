// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"go/types"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatBecomesOfMissingAndEmptyValuesIsTold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoke, hub string // the field of each version
		want       string
	}{
		"the same": {"[]string `json:\"x\"`", "[]string `json:\"x\"`", ""},
		"a list that the hub omits": {"[]string `json:\"x\"`", "[]string `json:\"x,omitempty\"`",
			"null in a is absent in b; [] in a is absent in b, and comes back as null"},
		"a list that the spoke omits": {"[]string `json:\"x,omitempty\"`", "[]string `json:\"x\"`",
			"absent in a is null in b; [] in b is absent in a, and comes back as null"},
		"a map": {"map[string]int `json:\"x\"`", "map[string]int `json:\"x,omitempty\"`",
			"null in a is absent in b; {} in a is absent in b, and comes back as null"},
		"a number":                 {"int32 `json:\"x\"`", "int32 `json:\"x,omitempty\"`", "0 in a is absent in b"},
		"a pointer that one omits": {"*int32 `json:\"x,omitempty\"`", "*int32 `json:\"x\"`", "absent in a is null in b"},
		"a pointer and its value": {"*bool `json:\"x,omitempty\"`", "bool `json:\"x\"`",
			"absent and false in a are both false in b: one of them comes back as the other"},
		"a value and its pointer": {"string `json:\"x,omitempty\"`", "*string `json:\"x,omitempty\"`",
			"absent and \"\" in b are both absent in a: one of them comes back as the other"},
		"a struct, which omitempty does not omit": {"struct{} `json:\"x\"`", "struct{} `json:\"x,omitempty\"`", ""},
		"a struct, which omitzero omits": {"struct{} `json:\"x\"`", "struct{} `json:\"x,omitzero\"`",
			"an empty struct in a is absent in b"},
		"an interface":                {"interface{} `json:\"x,omitempty\"`", "interface{} `json:\"x\"`", "absent in a is null in b"},
		"a pointer to another type":   {"*int32 `json:\"x\"`", "string `json:\"x\"`", ""},
		"a field that is not in JSON": {"int32 `json:\"-\"`", "int32 `json:\"-,omitempty\"`", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg := checked(t, "p", "type A struct { X "+test.spoke+" }; type B struct { X "+test.hub+" }")
			named := func(name string) *types.Named { return pkg.Scope().Lookup(name).Type().(*types.Named) }
			d := newDecider(pkg, func(*types.Package) bool { return true })
			s := &survey{spokeName: "a", hubName: "b", keys: func(*types.Var) []string { return nil }}
			s.pair(d.kind(named("A"), named("B")), "", "")
			got := ""
			for _, field := range s.empty {
				got += field.How
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAnEmptyFieldIsInJSONIsWhatTheStandardLibraryWrites(t *testing.T) {
	t.Parallel()
	for declared, of := range map[string]reflect.Type{
		"int32": reflect.TypeFor[int32](), "bool": reflect.TypeFor[bool](), "string": reflect.TypeFor[string](),
		"*int32": reflect.TypeFor[*int32](), "[]string": reflect.TypeFor[[]string](), "[]byte": reflect.TypeFor[[]byte](),
		"map[string]int": reflect.TypeFor[map[string]int](), "interface{}": reflect.TypeFor[any](),
	} {
		for _, options := range []string{"", ",omitempty", ",omitzero"} {
			tag := `json:"x` + options + `"`
			pkg := checked(t, "p", fmt.Sprintf("type A struct { X %s `%s` }", declared, tag))
			e, ok := emptinessOf(fieldsOf(pkg.Scope().Lookup("A").Type(), "")[0])
			if !ok {
				t.Fatalf("%s%s: not known", declared, options)
			}
			whole := reflect.New(reflect.StructOf([]reflect.StructField{
				{Name: "X", Type: of, Tag: reflect.StructTag(tag)}})).Elem()
			if e.hasNil {
				wantForm(t, declared+options+", nil", e.none, whole)
			}
			switch of.Kind() {
			case reflect.Pointer:
				whole.Field(0).Set(reflect.New(of.Elem()))
			case reflect.Slice:
				whole.Field(0).Set(reflect.MakeSlice(of, 0, 0))
			case reflect.Map:
				whole.Field(0).Set(reflect.MakeMap(of))
			case reflect.Interface:
				continue // it has no empty value
			}
			wantForm(t, declared+options+", empty", e.empty, whole)
		}
	}
}

func wantForm(t *testing.T, what, want string, whole reflect.Value) {
	t.Helper()
	content, err := json.Marshal(whole.Interface())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.TrimSuffix(strings.TrimPrefix(string(content), `{"x":`), "}")
	if string(content) == "{}" {
		got = absent
	}
	if got != want {
		t.Errorf("%s: JSON has %s, decided is %s", what, got, want)
	}
}
