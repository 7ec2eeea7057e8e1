// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

func TestADownstreamProgramCompilesAndGoFixMovesItToTheNewNames(t *testing.T) {
	t.Parallel()
	for _, one := range []options{{request.SharedPackage, request.OldWrap, request.UnexportedInternal},
		{request.SharedNewest, request.OldAlias, request.UnexportedExport}} {
		t.Run(one.String(), func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, "guide")
			appendTo(t, filepath.Join(dir, "pkg/apis/operators/v1/phase.go"),
				"\n// DefaultPhase is where objects begin.\nvar DefaultPhase = Phase{Name: PhaseInitial}\n")
			commit(t, dir, "with a variable")
			program := downstreamOf(t, dir)
			want := string(run(t, program, "go", "run", "."))
			checkUsesEveryName(t, dir)

			if err := checkOutcome(t, dir, one.of(guideRequest)).write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			checkProject(t, dir)
			if diff := cmp.Diff(want, string(run(t, program, "go", "run", "."))); diff != "" {
				t.Errorf("the program does something else (-before +after):\n%s", diff)
			}
			// Both as docs/api-migrator.md says: go fix drops all it has found in a package if an old name stands
			// within the arguments of an old function, hence functions come second. With -trimpath, go fix applies the
			// edits that the build cache has of an equal package to that one's folder.
			run(t, program, "go", "fix", "-trimpath=false", "-inline", "-inline.lazy_edits", "./...")
			run(t, program, "go", "fix", "-trimpath=false", "-inline", "./...")
			left := []string{
				"CatalogSourceConfig", "CatalogSourceConfigList", "DefaultPhase", "OperatorGroup", "OperatorGroupKind",
				"OperatorGroupList", "OperatorGroupSpec", "OperatorGroupStatus", "SchemeBuilder", "SchemeGroupVersion",
			}
			if diff := cmp.Diff(left, namesOfV1(t, read(t, program, "main.go"))); diff != "" {
				t.Errorf("names of the old version that are left (-want +got):\n%s\n%s", diff,
					read(t, program, "main.go"))
			}
			run(t, program, "go", "vet", ".")
			if diff := cmp.Diff(want, string(run(t, program, "go", "run", "."))); diff != "" {
				t.Errorf("the fixed program does something else (-before +after):\n%s", diff)
			}
		})
	}
}

// downstreamOf makes a module next to a project, which uses it.
func downstreamOf(t *testing.T, dir string) string {
	t.Helper()
	program, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(read(t, dir, "go.mod"), "module github.com/test-org/test-operator",
		"module example.com/downstream", 1)
	module += "\nrequire github.com/test-org/test-operator v0.0.0\n\nreplace github.com/test-org/test-operator => " +
		dir + "\n"
	for name, content := range map[string]string{"go.mod": module, "go.sum": read(t, dir, "go.sum"),
		"main.go": archived(t, "downstream")["main.go"]} {
		if err := os.WriteFile(filepath.Join(program, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return program
}

// checkUsesEveryName keeps the program from forgetting a name.
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
	if diff := cmp.Diff(names, namesOfV1(t, archived(t, "downstream")["main.go"])); diff != "" {
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

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// checkProject vets a project, which compiles it, and runs its own tests.
func checkProject(t *testing.T, dir string) {
	t.Helper()
	run(t, dir, "go", "vet", "./...")
	run(t, dir, "go", "test", "-vet=off", "./...")
}
