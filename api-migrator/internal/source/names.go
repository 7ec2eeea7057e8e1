// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"go/ast"
	"regexp"
)

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]`)

// Identifier drops from a name what no identifier may have.
func Identifier(name string) string { return notIdentifier.ReplaceAllString(name, "") }

// NamesOf are the names that a spec declares.
func NamesOf(spec ast.Spec) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return []string{spec.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
		return names
	}
	return nil
}
