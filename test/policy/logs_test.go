// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logging are the methods of slog.Logger that take keys, and the index of the first key. Methods of other types with
// these names take no text before a key.
var logging = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "InfoContext": 2, "WarnContext": 2,
	"ErrorContext": 2, "With": 0}

// People filter logs by key, so there is one list of them.
func TestLogsHaveTheKeysThatAreDocumented(t *testing.T) {
	used := make(map[string]bool)
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || ofNoProgram(name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			keys, problem := keysOf(call)
			if problem != "" {
				t.Errorf("%s: %s", name, problem)
			}
			for _, key := range keys {
				used[key] = true
			}
			return true
		})
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(string(read(t, "docs/logs.md")), -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(used)), documented); diff != "" {
		t.Errorf("%d keys; docs/logs.md (-used +documented):\n%s", len(used), diff)
	}
}

// ofNoProgram reports whether a file belongs to something that writes no log: tests, tools, examples, api-migrator.
func ofNoProgram(name string) bool {
	return slices.ContainsFunc([]string{"internal/testbed/", "test/", "test/bench/", "tools/", "examples/",
		"api-migrator/internal/cli/", "api-migrator/internal/"}, func(folder string) bool {
		return strings.HasPrefix(name, folder)
	})
}

// keysOf returns the keys of a call that logs.
func keysOf(call *ast.CallExpr) (keys []string, problem string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, ""
	}
	first, logs := logging[method.Sel.Name]
	if !logs || len(call.Args) <= first || first > 0 && !isText(call.Args[first-1]) {
		return nil, ""
	}
	for i := first; i < len(call.Args); i += 2 {
		literal, ok := call.Args[i].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return keys, method.Sel.Name + " has a key that is not a literal"
		}
		key, err := strconv.Unquote(literal.Value)
		if err != nil {
			return keys, err.Error()
		}
		keys = append(keys, key)
	}
	return keys, ""
}

// isText reports whether an expression is a string that stands there, or several of them.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(e.X)
	}
	return false
}
