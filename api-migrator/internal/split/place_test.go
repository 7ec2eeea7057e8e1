// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// graphOf reads the files of a package. Kinds need no metadata here: the tests give their names.
func graphOf(t *testing.T, sources map[string]string) *Graph {
	t.Helper()
	fset := token.NewFileSet()
	pkg := &project.Package{Path: "example.com/v1", Name: "v1"}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	var syntax []*ast.File
	for _, name := range []string{"c.go", "b.go", "a.go"} { // positions do not matter
		if sources[name] == "" {
			continue
		}
		file, err := parser.ParseFile(fset, name, sources[name], parser.ParseComments)
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

// Each archive in testdata/cases is a package with the kinds K, which moves, and R, which stays. The section "goes" lists
// where each declaration goes; go test -update writes it.
func TestEachDeclarationGoesWhereItsUsersAre(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			placements, err := Input{Graph: graphOf(t, fixture.Archive(t, file)), Moving: []project.Kind{{Name: "K"}},
				Staying: []project.Kind{{Name: "R"}}, Separate: true}.Decide()
			if err != nil {
				t.Fatal(err)
			}
			var goes strings.Builder
			for _, placement := range placements {
				if placement.Reason == "" {
					t.Errorf("%s has no reason", placement.Name)
				}
				fmt.Fprintf(&goes, "%s: %s\n", strings.Join(placement.Names, ", "), placement.Destination)
			}
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "goes" })
			archive.Files = append(archive.Files, txtar.File{Name: "goes", Data: []byte(goes.String())})
			golden.Compare(t, file, string(txtar.Format(archive)))
		})
	}
}

func TestTheReasonNamesTheFirstDeclarationInTheOrderOfFiles(t *testing.T) {
	graph := graphOf(t, fixture.Archive(t, "testdata/reason.txtar"))
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
	graph := graphOf(t, fixture.Archive(t, "testdata/blank.txtar"))
	if first, blank := graph.Declarations[0], graph.Declarations[1]; first.Name != "Low" || blank.Name != "_" {
		t.Errorf("got %q and %q, want Low and _", first.Name, blank.Name)
	}
}

func TestAnyNameOfAGroupCanBeAssigned(t *testing.T) {
	graph := graphOf(t, fixture.Archive(t, "testdata/group.txtar"))
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
	graph := graphOf(t, fixture.Archive(t, "testdata/idle.txtar"))
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

func TestAGuessSaysWhetherAnythingUsesTheDeclaration(t *testing.T) {
	graph := graphOf(t, fixture.Archive(t, "testdata/idle.txtar"))
	byName := map[string]*Declaration{}
	for _, d := range graph.Declarations {
		byName[d.Name] = d
	}
	placements, err := Input{Graph: graph, Moving: []project.Kind{{Name: "K"}}, Staying: []project.Kind{{Name: "R"}},
		Users: []map[*Declaration]bool{{byName["Label"]: true, byName["K"]: true, byName["R"]: true}}}.Decide()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Label": "the files that use it use code that moves and code that stays, or neither",
		"hidden": "nothing uses it"}
	for _, placement := range placements {
		if reason, ok := want[placement.Name]; ok && (placement.Reason != reason || !placement.Guess) {
			t.Errorf("%s: %s, a guess: %t; want %s, as a guess", placement.Name, placement.Reason, placement.Guess, reason)
		}
		if placement.Name == "_" && placement.Guess {
			t.Errorf("_ at %v is a guess, although it uses nothing", placement.Pos())
		}
	}
}

func TestAKindWithAnotherNameInTheSamePackageCopiesWhatIsNamedAfterItAndWhatMentionsThat(t *testing.T) {
	graph := graphOf(t, fixture.Archive(t, "testdata/another-name.txtar"))
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
