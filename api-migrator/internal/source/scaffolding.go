// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

// scaffolding matches the comments that kubebuilder and operator-sdk write into new files for their author, in all of
// their releases.
var scaffolding = regexp.MustCompile(`^//\s*(EDIT THIS FILE!|NOTE: json tags are required\.|` +
	`INSERT ADDITIONAL (SPEC|STATUS) FIELDS?\b|Important: Run "[^"]*" to regenerate code after modifying this file|` +
	`Add custom validation using kubebuilder tags: |` +
	`The following markers will use OpenAPI v3 schema to validate the value$|` +
	`More info: https://book\.kubebuilder\.io/reference/markers/crd-validation\.html$)`)

// WithoutScaffolding are the edits that remove the comments of a scaffold, line by line; of a comment that has no other
// lines, the empty line behind it, too.
func WithoutScaffolding(fset *token.FileSet, file *ast.File, source []byte) []Edit {
	var edits []Edit
	for _, group := range file.Comments {
		written := func(c *ast.Comment) bool { return !scaffolding.MatchString(c.Text) }
		if !slices.ContainsFunc(group.List, written) {
			edits = append(edits, Replacement(source, Span{offset(fset, group.Pos()), offset(fset, group.End())}, ""))
			continue
		}
		for _, comment := range group.List {
			if !written(comment) {
				edits = append(edits, Remove(fset, source, comment))
			}
		}
	}
	return edits
}
