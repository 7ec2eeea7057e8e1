// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// TypesToCopy are what generators of DeepCopy methods read of a package's files: each type, with import paths in place
// of the names of imports, the DeepCopy methods that are written by hand, and the markers. names are those of packages,
// by their import paths, as far as they are known.
func TypesToCopy(files [][]byte, names map[string]string) (map[string]string, error) {
	declared := map[string]string{}
	var markers []string
	for _, text := range files {
		// Comments within types do not count, so the types are read without them.
		withComments, _, err := Parse(text)
		if err != nil {
			return nil, err
		}
		markers = append(markers, deepCopyMarkers(withComments)...)
		file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse Go file: %w", err)
		}
		if err := addTypes(declared, file, names); err != nil {
			return nil, err
		}
	}
	slices.Sort(markers)
	declared[""] = strings.Join(markers, "\n")
	return declared, nil
}

// deepCopyMarkers are the markers of a file that are about DeepCopy methods.
func deepCopyMarkers(file *ast.File) (markers []string) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if IsMarker(comment.Text) &&
				(strings.Contains(comment.Text, "k8s:deepcopy-gen") || strings.Contains(comment.Text, "kubebuilder:object:")) {
				markers = append(markers, comment.Text)
			}
		}
	}
	return markers
}

// addTypes adds the types and the DeepCopy methods of a file that was read without comments.
func addTypes(declared map[string]string, file *ast.File, names map[string]string) error {
	imports := map[string]string{} // paths, by the names that the file calls them by
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("read import: %w", err)
		}
		name, ok := names[importPath]
		if !ok {
			name = path.Base(importPath)
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = importPath
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil && strings.HasPrefix(decl.Name.Name, "DeepCopy") {
				var of bytes.Buffer
				if err := printer.Fprint(&of, token.NewFileSet(), decl.Recv.List[0].Type); err != nil {
					return fmt.Errorf("print receiver: %w", err)
				}
				declared[of.String()+"."+decl.Name.Name] = "method"
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				one, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				text, err := withPaths(one, imports)
				if err != nil {
					return err
				}
				declared[one.Name.Name] = text
			}
		}
	}
	return nil
}

// withPaths is a type with import paths in place of the names of imports. A name that no import is known to have is an
// error.
func withPaths(spec *ast.TypeSpec, imports map[string]string) (string, error) {
	unknown := ""
	ast.Inspect(spec, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if ident, ok := selector.X.(*ast.Ident); ok {
			importPath, known := imports[ident.Name]
			if !known {
				unknown = ident.Name
			}
			ident.Name = strconv.Quote(importPath)
		}
		return false
	})
	if unknown != "" {
		return "", fmt.Errorf("no import is called %s", unknown)
	}
	var out bytes.Buffer
	config := printer.Config{Mode: printer.RawFormat}
	if err := config.Fprint(&out, token.NewFileSet(), spec); err != nil {
		return "", fmt.Errorf("print type: %w", err)
	}
	return out.String(), nil
}
