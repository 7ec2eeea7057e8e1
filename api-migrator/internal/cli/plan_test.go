// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/move"
)

func TestASummaryNamesCommandsThatCanBeCopied(t *testing.T) {
	t.Parallel()
	got := summary(&move.Plan{Findings: []finding.Finding{{Text: "without a place"}}}, "my plan.yaml", "a b")
	for _, want := range []string{
		"    without a place\n", "Next: api-migrator diff -C 'a b' 'my plan.yaml', then api-migrator apply -C 'a b' " +
			"'my plan.yaml'\n", "api-migrator stages -C 'a b' 'my plan.yaml'\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
