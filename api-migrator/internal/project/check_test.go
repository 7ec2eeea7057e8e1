// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// Packages that do not compile, in every way that the checker tells apart, next to packages that do: a test in two
// packages sees one type, although the variant for the test has types of its own.
func TestWhatDoesNotCompileIsNamedAndTheRestIsChecked(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Folder(t)
	fixture.Write(t, dir, map[string]string{
		"go.mod":       "module example.com/x\n\ngo 1.24\n",
		"a/a.go":       "package a\n\nimport _ \"example.com/x/b\"\n\nvar X int = \"s\"\n",
		"b/b.go":       "package b\n\nimport _ \"example.com/x/a\"\n",
		"c/c.go":       "package c\n",
		"c/in_test.go": "package c\n\nimport _ \"example.com/x/d\"\n",
		"d/d.go":       "package d\n\nimport _ \"example.com/x/c\"\n",
		"i/i.go":       "package i\n\nimport _ \"example.com/x/j\"\n", "j/j.go": "package j\n\nimport _ \"example.com/x/k\"\n",
		"k/k.go":          "package k\n\nimport _ \"example.com/x/i\"\n",
		"api/vendor/v.go": "package vendor\n\nvar X int = \"s\"\n",
		"m/m.go":          "package m\n\nimport _ \"embed\"\n\n//go:embed none.txt\nvar s string\n",
		"e/e.go":          "package e\n\nimport \"example.com/missing/x\"\n\nvar _ = x.Y\n",
		"f/f.go":          "package f\n\nvar = 1\n",
		"g/g.go":          "package g\n\n// K is one.\ntype K struct{}\n",
		"g/in_test.go":    "package g\n\nfunc extra() K { return K{} }\n\nvar Extra = extra\n",
		"g/x_test.go": "package g_test\n\nimport (\n\t\"example.com/x/g\"\n\t\"example.com/x/h\"\n)\n\nfunc f() { h.Take(g.Extra()); " +
			"var n int = \"x\"; _ = n }\n",
		"h/h.go": "package h\n\nimport (\n\t\"encoding/json\"\n\n\t\"example.com/x/g\"\n)\n\n// Take takes one.\nfunc Take(k g.K) " +
			"([]byte, error) { return json.Marshal(k) }\n",
	})
	p, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, broken := range p.Broken {
		for _, problem := range broken.Problems {
			got = append(got, fmt.Sprintf("%s %v: %s [%s]", broken.Path, broken.InTests, problem.Text, problem.Missing))
		}
	}
	want := []string{
		"example.com/x/a false: import cycle not allowed: import stack: [example.com/x/a example.com/x/b example.com/x/a] []",
		"example.com/x/a false: a/a.go:3:10: could not import example.com/x/b (import cycle) []",
		"example.com/x/a false: a/a.go:5:13: cannot use \"s\" (untyped string constant) as int value in variable declaration []",
		"example.com/x/api/vendor false: api/vendor/v.go:3:13: cannot use \"s\" (untyped string constant) as int value in variable " +
			"declaration []",
		"example.com/x/c true: import cycle not allowed in test: import stack: [example.com/x/c example.com/x/d example.com/x/c] []",
		"example.com/x/e false: e/e.go:3:8: could not import example.com/missing/x (invalid package name: \"\") [example.com/missing/x]",
		"example.com/x/f false: f/f.go:3:5: expected 'IDENT', found '=' []",
		"example.com/x/f false: f/f.go:3:7: expected type, found 1 []",
		"example.com/x/g_test true: g/x_test.go:8:43: cannot use \"x\" (untyped string constant) as int value in variable declaration []",
		"example.com/x/i false: import cycle not allowed: import stack: [example.com/x/i example.com/x/j example.com/x/k " +
			"example.com/x/i] []",
		"example.com/x/j false: j/j.go:3:10: could not import example.com/x/k (import cycle) []",
		"example.com/x/m false: pattern none.txt: no matching files found []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, dir); err == nil {
		t.Error("loaded, although that was cancelled before")
	}
}

func TestAModuleThatTheGoCommandRefusesIsNamed(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	const tools = "module example.com/x/tools\n\ngo 1.21\n\nrequire example.com/x v0.0.0\n\nreplace example.com/x => ../\n"
	dir := fixture.Folder(t)
	fixture.Write(t, dir, map[string]string{"go.mod": "module example.com/x\n\ngo 1.24\n", "x.go": "package x\n",
		"tools/go.mod": tools, "tools/tools.go": "package tools\n\nimport _ \"example.com/x\"\n"})
	p, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Broken) != 1 || p.Broken[0].Path != "example.com/x/tools" || !strings.Contains(p.Broken[0].First(), "go.mod") ||
		len(p.Packages) != 1 {
		t.Errorf("%v and %d packages, want that of the module which is understood, and a word about the other one", p.Broken,
			len(p.Packages))
	}
	alone := fixture.Folder(t)
	fixture.Write(t, alone, map[string]string{"go.mod": strings.Replace(tools, "../", dir, 1), "tools.go": "package tools\n\n" +
		"import _ \"example.com/x\"\n"})
	_, err = Load(t.Context(), alone)
	fixture.WantProblem(t, err, "load packages of example.com/x/tools")
}

func TestEachModuleIsCheckedWithItsGoVersion(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Folder(t)
	const loops = "\n\nfunc f() {\n\tfor range 3 {\n\t}\n}\n"
	fixture.Write(t, dir, map[string]string{
		"go.mod":     "module example.com/x\n\ngo 1.24\n\nrequire example.com/x/api v0.0.0\n\nreplace example.com/x/api => ./api\n",
		"a/a.go":     "package a\n\nimport _ \"example.com/x/api/b\"" + loops,
		"api/go.mod": "module example.com/x/api\n\ngo 1.20\n",
		"api/b/b.go": "package b" + loops,
	})
	p, err := Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, broken := range p.Broken {
		got = append(got, broken.First())
	}
	want := []string{"api/b/b.go:4:12: cannot range over 3 (untyped int constant): requires go1.22 or later"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what does not compile (-want +got):\n%s", diff)
	}
}
