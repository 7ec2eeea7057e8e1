// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// hooked is a kubebuilder project with webhooks, and other files.
func hooked(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/webhooks.txtar"))
	fixture.Write(t, dir, files)
	fixture.Commit(t, dir, "with webhooks")
	return dir
}

// changed changes what sends to webhooks, before any code has changed, and returns the files afterwards.
func changed(t *testing.T, dir string, asked request.Request) (changeset.Result, map[string]string) {
	t.Helper()
	all, err := Change(t.Context(), decided.Layout(t, dir, asked), nil)
	if err != nil {
		t.Fatal(err)
	}
	after := fixture.Files(t, dir)
	for name, change := range all.Changes {
		after[name] = string(change.Content)
	}
	return all, after
}

func isAt(place, text string) func(finding.Finding) bool {
	return func(one finding.Finding) bool { return one.Where == place && strings.Contains(one.Text, text) }
}

func wantFinding(t *testing.T, report finding.Report, place, text string) {
	t.Helper()
	if !slices.ContainsFunc(report.Findings, isAt(place, text)) {
		t.Errorf("no finding %s: %s among %v", place, text, report.Findings)
	}
}
