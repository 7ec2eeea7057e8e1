// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

func TestKeysOfListsAreReadWhereControllerToolsReadsThem(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "a.go", fixture.Archive(t, "testdata/list-keys.txtar")["a.go"],
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{}).Check("v1", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scaffold{project: &project.Project{Packages: []*project.Package{{Types: pkg,
		Files: []*project.File{{Syntax: file}}}}}}
	want := map[string]string{
		"Doc": "doc", "None": "", "Apart": "near own", "Trailing": "trailing", "After": "", "Lonely": "lonely",
		"Typed": "type", "TypedApart": "apart", "TypedGroup": "group trailing", "TypedBare": "", "Both": "field",
	}
	for field := range pkg.Scope().Lookup("A").Type().Underlying().(*types.Struct).Fields() {
		if got := strings.Join(s.listKeys(field), " "); got != want[field.Name()] {
			t.Errorf("%s: %q, want %q", field.Name(), got, want[field.Name()])
		}
	}
}

func TestManyKeysAreOnLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	short := map[string][]string{"spec.parts": {"name"}, "spec.ports": {"port", "protocol"}}
	const want = `preserve.Keys{"spec.parts": {"name"}, "spec.ports": {"port", "protocol"}}`
	if got := keysLiteral("preserve", short); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	long := map[string][]string{"spec.template.spec.containers": {"name"}, "spec.template.spec.containers[].ports": {"containerPort"}}
	const lines = "preserve.Keys{\n\"spec.template.spec.containers\": {\"name\"},\n" +
		"\"spec.template.spec.containers[].ports\": {\"containerPort\"},\n}"
	if got := keysLiteral("preserve", long); got != lines {
		t.Errorf("got %s, want %s", got, lines)
	}
}
