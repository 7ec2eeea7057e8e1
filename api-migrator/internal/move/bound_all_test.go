// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// The old version keeps its own functions that create objects, and its own names of group, version and kind: with those
// of the new version, callers of the old one would get other objects.
func TestTheOldVersionKeepsWhatMeansSomethingElseInEach(t *testing.T) {
	t.Parallel()
	bound := fixture.Archive(t, "testdata/bound-to-a-version.txtar")
	before := fixture.Copy(t, "guide")
	fixture.Write(t, before, bound)
	fixture.Run(t, before, "go", "test", "./pkg/apis/operators")
	for _, asked := range []request.Request{
		options{request.SharedPackage, request.OldWrap, request.UnexportedInternal}.of(guideRequest),
		func() request.Request {
			renamed := options{request.SharedNewest, request.OldAlias, request.UnexportedExport}.of(guideRequest)
			renamed.ToKind = "CatalogSourceConfigurer"
			return renamed
		}(),
	} {
		t.Run(asked.Old, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "guide")
			fixture.Write(t, dir, bound)
			asked.Consumers = []string{request.ConsumersNone}
			outcome := migrated(t, dir, asked)
			found := false
			for _, finding := range outcome.Plan.Findings {
				found = found || strings.Contains(finding.Text,
					"CatalogSourceConfigRef is a type of its own in each version: it needs CatalogSourceConfig")
			}
			if !found {
				t.Errorf("no finding names the type that both versions have: %v", outcome.Plan.Findings)
			}
			fixture.Run(t, dir, "go", "test", "./pkg/apis/operators")
		})
	}
}
