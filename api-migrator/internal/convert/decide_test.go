// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checked is a package with the declarations given.
func checked(t *testing.T, name, declarations string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name+".go", "package "+name+"\n"+strings.ReplaceAll(declarations, "; ", "\n"),
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{}).Check(name, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// decided compares A of a package with B of the hub's.
func decided(spoke, hub *types.Package) (*decider, []string) {
	d := newDecider(spoke, func(*types.Package) bool { return true })
	s := &survey{spokeName: "a", hubName: "b", spokeKeys: map[string][]string{}, hubKeys: map[string][]string{},
		keys: func(*types.Var) []string { return nil }}
	s.pair(d.kind(spoke.Scope().Lookup("A").Type().(*types.Named),
		hub.Scope().Lookup("B").Type().(*types.Named)), "", "")
	var fields []string
	for _, field := range append(s.rote, s.differing...) {
		fields = append(fields, fmt.Sprintf("%s: %s", field.Path, field.How))
	}
	return d, fields
}

func TestFieldsAreConvertedOnlyWhereNothingCanBeLost(t *testing.T) {
	t.Parallel()
	const same, structure = "the same type", "types of the same structure"
	for name, test := range map[string]struct {
		declarations string
		want         []string
	}{
		"the same basic type": {"type A struct { X int32 }; type B struct { X int32 }",
			[]string{"X: " + same}},
		"a narrower integer": {"type A struct { X int32 }; type B struct { X int64 }",
			[]string{"X: int32 in a, int64 in b"}},
		"an integer that Go would make a character": {"type A struct { X int32 }; type B struct { X string }",
			[]string{"X: int32 in a, string in b"}},
		"a string and its enumeration": {"type E string; type A struct { X string }; type B struct { X E }",
			[]string{"X: " + structure}},
		"a value and a pointer": {"type A struct { X string }; type B struct { X *string }",
			[]string{"X: string in a, *string in b"}},
		"slices of enumerations": {"type E string; type A struct { X []string }; type B struct { X []E }",
			[]string{"X[]: " + structure}},
		"a map with keys of different types": {"type E string; type A struct { X map[string]int }; type B struct { " +
			"X map[E]int }", []string{"X.*: " + same}},
		"a map whose keys cannot be converted": {"type A struct { X map[string]int }; type B struct { X map[int]int }",
			[]string{"X: map[string]int in a, map[int]int in b"}},
		"structs that differ in a tag": {
			"type P struct { Y int `json:\"y\"` }; type Q struct { Y int `json:\"y,omitempty\"` }; type A struct { X " +
				"P }; type B struct { X Q }", []string{"X.y: " + same},
		},
		"a name in JSON goes before one in Go": {
			"type A struct { X int `json:\"y\"`; Y int `json:\"x\"` }; type B struct { X int `json:\"x\"`; Y int " +
				"`json:\"y\"` }", []string{"y: " + same, "x: " + same},
		},
		"a name in Go counts where JSON has another": {"type A struct { X int `json:\"y\"` }; type B struct { X int " +
			"`json:\"z\"` }", []string{"y = z: " + same}},
		"the fields of an embedded struct": {
			"type C struct { X int `json:\"x\"`}; type A struct { C `json:\",inline\"` }; type B struct { X int " +
				"`json:\"x\"`}", []string{"x: " + same},
		},
		"an embedded struct of the same type": {
			"type C struct { X int `json:\"x\"`}; type A struct { C `json:\",inline\"` }; type B struct { C " +
				"`json:\",inline\"` }", []string{"(C): " + same},
		},
		"a type that says itself what its JSON is": {
			"type P struct { x int }; func (P) MarshalJSON() ([]byte, error) { return nil, nil }; type Q struct { x " +
				"int }; type A struct { X P }; type B struct { X Q }",
			[]string{"X: p.P in a, p.Q in b"},
		},
		"a pointer to one": {
			"type P struct { x int }; func (P) MarshalJSON() ([]byte, error) { return nil, nil }; type Q struct { x " +
				"int }; type A struct { X *P }; type B struct { X *Q }",
			[]string{"X: p.P in a, p.Q in b"},
		},
		"a type that contains itself": {
			"type P struct { C []P; N int }; type Q struct { C []Q; N int }; type A struct { X *P }; type B struct { X *Q }", []string{"X.C[]: as above", "X.N: " + same},
		},
		"a map that contains itself": {
			"type P map[string]P; type Q map[string]Q; type A struct { X P; Y int }; type B struct { X Q; Y int }",
			[]string{"Y: " + same, "X: p.P in a, p.Q in b"},
		},
		"a type that contains itself twice": {
			"type P []map[string]P; type Q []map[string]Q; type A struct { X, Y P }; type B struct { X, Y Q }",
			[]string{"X[]: map[string]p.P in a, map[string]p.Q in b", "Y[]: map[string]p.P in a, map[string]p.Q in b"},
		},
		"an embedded struct that is declared before": {
			"type C struct { Y int }; type A struct { X int; C; Z int }; type B struct { Z, Y, X int }",
			[]string{"X: " + same, "Y: " + same, "Z: " + same},
		},
		"fields of one side alone": {"type A struct { X int }; type B struct { Y int }",
			[]string{"X: only in a", "Y: only in b"}},
		"structs without names": {"type A struct { X struct { Y int } }; type B struct { X struct { Z int } }",
			[]string{"X: struct{Y int} in a, struct{Z int} in b"}},
		"a field that is unexported": {"type A struct { x int }; type B struct { x int }",
			[]string{"x: int in a, int in b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg := checked(t, "p", test.declarations)
			_, got := decided(pkg, pkg)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Code in the spoke's package cannot name what another package does not export.
func TestWhatTheHubDoesNotExportIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	const types = "type Mode string; type mode string; type part struct { N int; s int }; type Shown struct { N int; " +
		"M mode }; "
	spoke := checked(t, "a", types+"type common struct { Paused bool }; type A struct { X mode; Y mode; Z *part; S "+
		"[]mode; M map[mode]int; W Shown; common; Own mode; Last int }")
	hub := checked(t, "b", types+"type common struct { Paused bool }; type B struct { X Mode; Y mode; Z *part; S "+
		"[]mode; M map[mode]int; W Shown; common; Own string; Last int }")
	d, got := decided(spoke, hub)
	const structure, same = ": types of the same structure", ": the same type"
	want := []string{
		"X" + structure, "W.N" + same, "Paused" + same, "Own" + structure, "Last" + same,
		"Y: a.mode in a, b.mode in b", "Z: *a.part in a, *b.part in b", "S: []a.mode in a, []b.mode in b",
		"M: map[a.mode]int in a, map[b.mode]int in b", "W.M: a.mode in a, b.mode in b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := &renderer{spoke: spoke, hub: hub, version: "V2", imports: newImports("m", spoke)}
	r.name(d.pairs)
	r.functions(d.pairs)
	if code := r.out.String(); strings.Contains(code, "b.mode(") || strings.Contains(code, "b.part)") ||
		strings.Contains(code, "common") || !strings.Contains(code, "out.Paused = in.Paused") {
		t.Errorf("does not compile:\n%s", code)
	}
}

func TestNamesBecomeUnexportedAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"Widget": "widget", "DNSRecord": "dnsRecord", "DNS": "dns", "A": "a",
		"AWidget": "aWidget", "V2Widget": "v2Widget", "widget": "widget"} {
		if got := lower(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
