// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
)

func TestPackageCommentsAndCodeNextToThemAreBothThere(t *testing.T) {
	t.Parallel()
	const v1 = "pkg/apis/operators/v1/"
	dir := fixture.Repository(t, "guide")
	code := fixture.Archive(t, "testdata/package-comments.txtar")
	code["doc.go"] = fixture.Read(t, dir, v1+"doc.go") + code["doc.go"]
	fixture.Write(t, filepath.Join(dir, v1), code)
	guide := decided.Layout(t, dir, decided.Guide())
	result, _, err := Create(guide, mention.NewReader(guide))
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
	asked := decided.Guide()
	asked.ToKind = "Package"
	guide = decided.Layout(t, dir, asked)
	if result, _, err = Create(guide, mention.NewReader(guide)); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(result.Blockers, func(f finding.Finding) bool {
		return strings.Contains(f.Text,
			"two files of the old version would be")
	}) {
		t.Errorf("blockers %v", result.Blockers)
	}
}
