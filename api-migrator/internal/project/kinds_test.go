// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

func TestTheMarkerNamesTheGroupThatTheCodeKeepsInAVariable(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := write(t, fixture.Archive(t, "testdata/group-in-a-variable.txtar"))
	p, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range p.Versions() {
		names = append(names, v.Name())
	}
	if got := strings.Join(names, " "); got != "widgets.example.com/v1" {
		t.Errorf("the versions are %q, want widgets.example.com/v1", got)
	}
}

func TestAMarkerBelongsToTheTypeBelowItInAGroupToo(t *testing.T) {
	t.Parallel()
	source := fixture.Archive(t, "testdata/marker-in-a-group.txtar")["types.go"]
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	group := file.Decls[0].(*ast.GenDecl)
	for i, want := range []bool{false, true, false} {
		if got := hasStorageMarker(&File{Syntax: file}, group, group.Specs[i]); got != want {
			t.Errorf("%s: %t, want %t", group.Specs[i].(*ast.TypeSpec).Name, got, want)
		}
	}
}
