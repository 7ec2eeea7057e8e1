// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// rest.Request joins several segments and resolves "..", so that a name of a server could lead anywhere. A path comes
// in one piece: a constant, or what internal/apipath has made (I3).
func TestRequestPathsComeInOnePiece(t *testing.T) {
	calls := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || path != root &&
			strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(filepath.ToSlash(path), "/bench/"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "AbsPath" {
				calls++
				if why := inOnePiece(call); why != "" {
					t.Errorf("%s: AbsPath %s: build the path with internal/apipath", files.Position(call.Pos()), why)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls < 10 {
		t.Errorf("%d calls of AbsPath were found: the test looks in the wrong place", calls)
	}
}

// inOnePiece returns why a call's path is made of parts.
func inOnePiece(call *ast.CallExpr) string {
	switch {
	case len(call.Args) != 1:
		return fmt.Sprintf("has %d arguments", len(call.Args))
	case call.Ellipsis.IsValid():
		return "has a list of segments"
	}
	switch call.Args[0].(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		return ""
	}
	return "has a path that is put together"
}
