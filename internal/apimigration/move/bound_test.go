// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

// What makes objects, or says which group, version and kind they are of, must not come from the new version: the old
// one's callers would get other objects.
func TestTheOldVersionKeepsWhatMeansSomethingElseInEach(t *testing.T) {
	t.Parallel()
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
			dir := fixture(t, "guide")
			write(t, dir, archived(t, "bound-to-a-version"))
			run(t, dir, "go", "test", "./pkg/apis/operators")
			asked.Consumers = []string{request.ConsumersNone}
			outcome, err := Make(t.Context(), dir, asked)
			if err != nil || len(outcome.Plan.Blockers) > 0 {
				t.Fatalf("blockers %v, %v", outcome.Plan.Blockers, err)
			}
			found := false
			for _, finding := range outcome.Plan.Findings {
				found = found || strings.Contains(finding.Text,
					"CatalogSourceConfigRef is a type of its own in each version: it needs CatalogSourceConfig")
			}
			if !found {
				t.Errorf("no finding names the type that both versions have: %v", outcome.Plan.Findings)
			}
			if err := outcome.write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			run(t, dir, "go", "test", "./pkg/apis/operators")
		})
	}
}
