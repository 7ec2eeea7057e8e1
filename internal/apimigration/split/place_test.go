// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
)

// graphOf reads files given as text. Kinds need no metadata here: their names are given.
func graphOf(t *testing.T, sources map[string]string) *Graph {
	t.Helper()
	fset := token.NewFileSet()
	pkg := &project.Package{Path: "example.com/v1", Name: "v1"}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	var syntax []*ast.File
	for _, name := range []string{"c.go", "b.go", "a.go"} { // positions must not matter
		if sources[name] == "" {
			continue
		}
		file, err := parser.ParseFile(fset, name, "package v1\n"+sources[name], parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		syntax = append(syntax, file)
		pkg.Files = append([]*project.File{{Path: "v1/" + name, Syntax: file, Info: info}}, pkg.Files...)
	}
	config := types.Config{Importer: importer.Default()}
	checked, err := config.Check(pkg.Path, fset, syntax, info)
	if err != nil {
		t.Fatal(err)
	}
	pkg.Types = checked
	return NewGraph(pkg)
}

const kinds = "type K struct{ Spec KSpec }\ntype KSpec struct{ P Phase }\ntype R struct{ P Phase }\ntype Phase " +
	"struct{ Name string }\n"

func TestEachDeclarationGoesWhereItsUsersAre(t *testing.T) {
	for name, test := range map[string]struct {
		sources map[string]string
		of      string
		want    Destination
	}{
		"what only the moving kind uses": {map[string]string{"a.go": kinds}, "KSpec", New},
		"what both use":                  {map[string]string{"a.go": kinds}, "Phase", Shared},
		"what a method of the moving kind alone uses": {map[string]string{"a.go": kinds +
			"func (*K) M() { f() }\nfunc f() {}"}, "f", New},
		"a constructor of what is shared": {map[string]string{"a.go": kinds,
			"b.go": "func NewPhase() Phase { return Phase{} }"}, "NewPhase", Shared},
		"a constructor of the moving kind": {map[string]string{"a.go": kinds +
			"func NewK() *K { return &K{} }"}, "NewK", New},
		"what uses a kind of either side": {map[string]string{"a.go": kinds +
			"func both(K, R) {}"}, "both", Stay},
		"declarations without a use": {map[string]string{"a.go": kinds +
			"func idle() {}"}, "idle", Stay},
		"a constant named after a kind that stays": {map[string]string{"a.go": "type Ka struct{}\n" +
			kinds + "const groupR = \"R\""}, "groupR", Stay},
		"constants in a file of shared types": {
			map[string]string{"a.go": "type K struct{ P Phase }\ntype R struct{ P Phase }",
				"b.go": "type Phase string\nconst Running = \"Running\""}, "Running", Shared,
		},
		"a constant of that file that only one side uses": {
			map[string]string{"a.go": "type K struct{ P Phase }\ntype R struct{ P Phase }\nfunc (R) F() string { " +
				"return Failed }", "b.go": "type Phase string\nconst Failed = \"Failed\""}, "Failed", Shared,
		},
		"constants that count go together": {map[string]string{"a.go": kinds +
			"const (\n\tone = iota\n\ttwo\n)\nfunc (K) F() int { return two }"}, "one", New},
		"what registers a version": {map[string]string{"a.go": kinds +
			"var SchemeBuilder = 1\nfunc (K) A() int { return SchemeBuilder }\nfunc (R) A() int { return " +
			"SchemeBuilder }"}, "SchemeBuilder", Anchor},
		"a kind that stays, although the moving one mentions it": {
			map[string]string{"a.go": "type K struct{ R R }\ntype R struct{ Spec RSpec }\ntype RSpec struct{}"},
			"RSpec", Stay,
		},
		"the moving kind, although one that stays mentions it": {map[string]string{"a.go": "type K struct{ Spec " +
			"KSpec }\ntype KSpec struct{}\ntype R struct{ K K }"}, "KSpec", New},
		"what only the registration uses": {map[string]string{"a.go": kinds +
			"var AddToScheme = register\nfunc register() { println(name) }\nconst name = \"v1\"\nfunc (K) A() { " +
			"AddToScheme() }"}, "name", Anchor},
		"a type that is called like what registers a version": {
			map[string]string{"a.go": "type K struct{ R Resource }\ntype R struct{}\ntype Resource struct{}"},
			"Resource", New,
		},
		"a constant named after the moving kind": {map[string]string{"a.go": kinds +
			"const PickK = \"K\""}, "PickK", New},
		"a name that two kinds are part of": {map[string]string{"a.go": kinds +
			"const RKOther = \"\"\nfunc idle() {}"}, "RKOther", Stay},
		"a constant before a type without a use that is shared": {map[string]string{"a.go": kinds,
			"b.go": "const Label = \"\"\ntype Tool interface{ Get() Phase }"}, "Label", Shared},
		"a helper of a constructor of what is shared": {map[string]string{"a.go": kinds,
			"b.go": "func NewPhase() Phase { return Phase{Name: first()} }\nfunc first() string { return \"\" }"},
			"first", Shared},
	} {
		t.Run(name, func(t *testing.T) {
			graph := graphOf(t, test.sources)
			placements, err := Input{Graph: graph, Moving: []project.Kind{{Name: "K"}},
				Staying: []project.Kind{{Name: "R"}}}.Decide()
			if err != nil {
				t.Fatal(err)
			}
			for _, placement := range placements {
				if placement.Reason == "" || placement.Destination == "" {
					t.Errorf("%s has no place or no reason", placement.Name)
				}
				if placement.Names[0] == test.of && placement.Destination != test.want {
					t.Errorf("%s goes to %s (%s), want %s", test.of, placement.Destination, placement.Reason, test.want)
				}
			}
		})
	}
}

func TestTheReasonNamesTheFirstDeclarationInTheOrderOfFiles(t *testing.T) {
	graph := graphOf(t, map[string]string{"a.go": "type K struct{ A }\ntype A struct{}",
		"b.go": "type R struct{}\nfunc (K) M(B) {}\ntype B struct{}", "c.go": "func both(B, A) {}"})
	placements, err := Input{Graph: graph, Moving: []project.Kind{{Name: "K"}},
		Staying: []project.Kind{{Name: "R"}}}.Decide()
	if err != nil {
		t.Fatal(err)
	}
	last := placements[len(placements)-1]
	if want := "it uses A, which only kinds that move use"; last.Name != "both" || last.Reason != want {
		t.Errorf("%s: %s; want %s", last.Name, last.Reason, want)
	}
}

func TestAGroupIsCalledByItsFirstRealName(t *testing.T) {
	graph := graphOf(t, map[string]string{"a.go": "const (\n\t_ = iota\n\tLow\n)\nvar _ = Low"})
	if first, blank := graph.Declarations[0], graph.Declarations[1]; first.Name != "Low" || blank.Name != "_" {
		t.Errorf("got %q and %q, want Low and _", first.Name, blank.Name)
	}
}

func TestAnyNameOfAGroupCanBeAssigned(t *testing.T) {
	graph := graphOf(t, map[string]string{"a.go": kinds +
		"const (\n\tone = iota\n\ttwo\n)\nfunc (K) F() int { return two }"})
	placements, err := Input{
		Graph: graph, Moving: []project.Kind{{Name: "K"}}, Staying: []project.Kind{{Name: "R"}},
		Assign: map[string]Destination{"two": Stay},
	}.Decide()
	if err != nil {
		t.Fatal(err)
	}
	for _, placement := range placements {
		if placement.Name == "one" && placement.Destination != Stay {
			t.Errorf("one, two: %s (%s), want stay", placement.Destination, placement.Reason)
		}
	}
}

func TestWhatNothingDecidesAboutGoesWhereIdleSays(t *testing.T) {
	graph := graphOf(t, map[string]string{"a.go": kinds, "b.go": "const Label = \"\"", "c.go": "const hidden = \"\""})
	placements, err := Input{Graph: graph, Idle: Shared, Moving: []project.Kind{{Name: "K"}},
		Staying: []project.Kind{{Name: "R"}}}.Decide()
	if err != nil {
		t.Fatal(err)
	}
	for _, placement := range placements {
		if want, ok := map[string]Destination{"Label": Shared, "hidden": Stay}[placement.Name]; ok &&
			(placement.Destination != want || !placement.Guess) {
			t.Errorf("%s: %s, a guess: %t; want %s, as a guess", placement.Name,
				placement.Destination, placement.Guess, want)
		}
	}
}

func TestAKindWithAnotherNameInTheSamePackageCopiesWhatIsNamedAfterItAndWhatMentionsThat(t *testing.T) {
	graph := graphOf(t, map[string]string{"a.go": kinds + `
func (K) M() string { return helper(KSpec{}) + prefix }
func helper(KSpec) string { return "" }
const prefix = "p"
var SchemeBuilder = 1
`})
	placements, err := Input{
		Graph: graph, Moving: []project.Kind{{Name: "K"}}, Staying: []project.Kind{{Name: "R"}},
		NamedAfter: func(name string) bool { return strings.HasPrefix(name, "K") },
	}.Decide()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Destination{}
	for _, placement := range placements {
		got[placement.Name] = placement.Destination
	}
	want := map[string]Destination{"K": New, "KSpec": New, "helper": New, "prefix": Stay, "Phase": Stay,
		"R": Stay, "SchemeBuilder": Stay}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
