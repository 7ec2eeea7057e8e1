// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// A module that says go 1.16 gets no later Go: no one raises that for a conversion.
func TestWhatIsWrittenNeedsNoNewGo(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile(filepath.Join("..", "testdata", "golden", "conversion.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile(`(?m)^-- \S+\.go --\n`).Split(string(written), -1)[1:]
	for _, text := range append(files, preserveText) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		config := &types.Config{GoVersion: "go1.16", Importer: nothing{}, Error: func(err error) {
			if known := (types.Error{}); errors.As(err, &known) &&
				regexp.MustCompile(`requires? go`).MatchString(known.Msg) {
				t.Errorf("%s:%d: %s", file.Name.Name, fset.Position(known.Pos).Line, known.Msg)
			}
		}}
		_, _ = config.Check("p", fset, []*ast.File{file}, nil) // what it imports is missing
	}
}

type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not there") }

// Below GOPATH a folder vendor is part of the paths that types have.
func TestWhatIsVendoredIsImportedByItsOwnPath(t *testing.T) {
	t.Parallel()
	named := func(importPath, pkg, name string) *types.Named {
		return types.NewNamed(types.NewTypeName(token.NoPos, types.NewPackage("example.com/p/vendor/"+importPath, pkg),
			name, nil), types.NewStruct(nil, nil), nil)
	}
	duration, list := named(project.MetaPackage, "v1", "Duration"), named("example.com/list", "list", "List")
	if got := short(duration); got != "metav1.Duration" {
		t.Errorf("in reports: %s", got)
	}
	r := &renderer{imports: newImports("example.com/p", types.NewPackage("example.com/p/v1", "v1"))}
	if got := r.typ(duration) + " " + r.typ(list); got != "metav1.Duration list.List" {
		t.Errorf("in code: %s", got)
	}
	const imports = "\t\"example.com/list\"\n\tmetav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n"
	if got := r.imports.block(); got != imports {
		t.Errorf("imports: %s, want %s", got, imports)
	}
	json := named(extensionsPackage, "v1", "JSON")
	w := &writer{root: &pair{spoke: duration, hub: json}}
	if w.anyJSON() != json.Obj() {
		t.Error("a type that holds any JSON is not found")
	}
}
