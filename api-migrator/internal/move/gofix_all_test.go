// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestADownstreamProgramCompilesAndGoFixMovesItToTheNewNames(t *testing.T) {
	t.Parallel()
	dir := withVariable(t)
	want := fixture.Run(t, downstreamOf(t, dir), "go", "run", ".")
	checkUsesEveryName(t, dir)
	for _, one := range []options{{request.SharedPackage, request.OldWrap, request.UnexportedInternal},
		{request.SharedNewest, request.OldAlias, request.UnexportedExport}} {
		t.Run(one.String(), func(t *testing.T) {
			t.Parallel()
			dir := withVariable(t)
			program := downstreamOf(t, dir)
			if err := checkOutcome(t, dir, one.of(guideRequest)).write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			checkProject(t, dir)
			if diff := cmp.Diff(want, fixture.Run(t, program, "go", "run", ".")); diff != "" {
				t.Errorf("the program does something else (-before +after):\n%s", diff)
			}
			// Both commands are those of docs/api-migrator.md. go fix drops all edits of a package in which an old name
			// stands within the arguments of an old function, hence functions come second. With -trimpath, go fix takes
			// the edits of an equal package from the build cache and applies them in the folder of that one.
			fixture.Run(t, program, "go", "fix", "-trimpath=false", "-inline", "-inline.lazy_edits", "./...")
			fixture.Run(t, program, "go", "fix", "-trimpath=false", "-inline", "./...")
			left := []string{
				"CatalogSourceConfig", "CatalogSourceConfigList", "DefaultPhase", "OperatorGroup", "OperatorGroupKind",
				"OperatorGroupList", "OperatorGroupSpec", "OperatorGroupStatus", "SchemeBuilder", "SchemeGroupVersion",
			}
			if diff := cmp.Diff(left, namesOfV1(t, fixture.Read(t, program, "main.go"))); diff != "" {
				t.Errorf("names of the old version that are left (-want +got):\n%s\n%s", diff,
					fixture.Read(t, program, "main.go"))
			}
			fixture.Run(t, program, "go", "vet", ".")
			if diff := cmp.Diff(want, fixture.Run(t, program, "go", "run", ".")); diff != "" {
				t.Errorf("the fixed program does something else (-before +after):\n%s", diff)
			}
		})
	}
}

// withVariable is the guide's project with a variable of a type that moves.
func withVariable(t *testing.T) string {
	t.Helper()
	dir := fixture.Repository(t, "guide")
	fixture.Append(t, dir, "pkg/apis/operators/v1/phase.go",
		"\n// DefaultPhase is where objects begin.\nvar DefaultPhase = Phase{Name: PhaseInitial}\n")
	fixture.Commit(t, dir, "with a variable")
	return dir
}

// downstreamOf makes a module that uses a project, in a folder of its own.
func downstreamOf(t *testing.T, dir string) string {
	t.Helper()
	program := fixture.Folder(t)
	module := strings.Replace(fixture.Read(t, dir, "go.mod"), "module github.com/test-org/test-operator",
		"module example.com/downstream", 1)
	module += "\nrequire github.com/test-org/test-operator v0.0.0\n\nreplace github.com/test-org/test-operator => " +
		dir + "\n"
	fixture.Write(t, program, map[string]string{"go.mod": module, "go.sum": fixture.Read(t, dir, "go.sum"),
		"main.go": fixture.Archive(t, "testdata/downstream.txtar")["main.go"]})
	return program
}

// checkUsesEveryName asserts that the program uses every exported name of the version.
func checkUsesEveryName(t *testing.T, dir string) {
	t.Helper()
	p, err := project.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range p.Versions() {
		for _, name := range v.Package.Types.Scope().Names() {
			if ast.IsExported(name) {
				names = append(names, name)
			}
		}
	}
	if diff := cmp.Diff(names, namesOfV1(t, fixture.Archive(t, "testdata/downstream.txtar")["main.go"])); diff != "" {
		t.Errorf("names that the program uses (-exported +used):\n%s", diff)
	}
}

func namesOfV1(t *testing.T, source string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if ident, ok := selector.X.(*ast.Ident); ok && ident.Name == "operatorsv1" {
				names[selector.Sel.Name] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(names))
}
