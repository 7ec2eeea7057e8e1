// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/rewrite"
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

func TestPackageCommentsAndCodeNextToThemAreBothThere(t *testing.T) {
	t.Parallel()
	const v1 = "pkg/apis/operators/v1/"
	dir := fixture.Repository(t, "guide")
	code := fixture.Archive(t, "testdata/package-comments.txtar")
	code["doc.go"] = fixture.Read(t, dir, v1+"doc.go") + code["doc.go"]
	fixture.Write(t, filepath.Join(dir, v1), code)
	guide := layoutOn(t, dir, guideRequest)
	result, _, err := rewrite.Create(guide, mention.NewReader(guide))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"pkg/apis/operators/v2/doc.go": {"// Package v2 contains",
			"+groupName=operators.example.com", "package v2"},
		"pkg/apis/operators/shared/doc.go":         {"Ready() bool"},
		"pkg/apis/operators/shared/package_doc.go": {"// Package shared contains", "// Copyright 2019"},
	} {
		created := result.Changes[name]
		for _, text := range want {
			if created == nil || !strings.Contains(string(created.Content), text) {
				t.Errorf("%s has no %q: %v", name, text, created)
			}
		}
		if created != nil && (strings.Contains(string(created.Content), "go:build") ||
			strings.Contains(string(created.Content), "Describe")) {
			t.Errorf("%s:\n%s", name, created.Content)
		}
	}
	asked := guideRequest
	asked.ToKind = "Package"
	guide = layoutOn(t, dir, asked)
	if result, _, err = rewrite.Create(guide, mention.NewReader(guide)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(result.Blockers, func(f finding.Finding) bool {
		return strings.Contains(f.Text,
			"two files of the old version would be")
	}) {
		t.Errorf("blockers %v", result.Blockers)
	}
}
