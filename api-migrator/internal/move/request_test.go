// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// parsed is a file without types.
func parsed(t *testing.T, name, text string) *project.File {
	t.Helper()
	file, _, err := source.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &project.File{Path: name, Source: []byte(text), Syntax: file}
}

func TestFilesWhoseCommentsAreNotWhereTheySeemAreRefused(t *testing.T) {
	t.Parallel()
	const imports = "package a\n\nimport _ \"example.com/x/api/v1\"\n\n"
	windows := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	for name, test := range map[string]struct {
		source  string
		refused bool
	}{
		"a comment of several lines, with CRLF":      {windows(imports + "/* a\nb */\nvar x int\n"), true},
		"a comment of several lines, with LF":        {imports + "/* a\nb */\nvar x int\n", false},
		"comments of one line, with CRLF":            {windows(imports + "// a\n// b\nvar x /* c */ int\n"), false},
		"a file that has nothing to do with the API": {windows("package a\n\n/* a\nb */\nvar x int\n"), false},
	} {
		p, old := &project.Project{}, &project.Version{Package: &project.Package{Path: "example.com/x/api/v1"}}
		p.Packages = []*project.Package{{Files: []*project.File{parsed(t, "a b.go", test.source)}}}
		if err := checkComments(p, old); test.refused {
			fixture.WantProblem(t, err, "a b.go has CRLF line endings")
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
