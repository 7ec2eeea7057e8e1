// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/finding"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

func TestImportersUseTheCopyOfTheKindsThatTheCodeIsAbout(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	const name = "pkg/controller/both/both.go"
	const before = `// Package both is about two kinds.
package both

import (
	v1 "github.com/test-org/test-operator/pkg/apis/operators/v1"
)

// Running is about a kind that moves.
func Running(config *v1.CatalogSourceConfig) bool {
	return config.Status.CurrentPhase.Phase.Name == v1.PhaseRunning
}

// Failed is about one that stays.
func Failed(group *v1.OperatorGroup) *v1.Phase {
	return v1.NewPhase(v1.PhaseFailed, group.Name)
}

// Start is about both.
func Start(config *v1.CatalogSourceConfig, group *v1.OperatorGroup) string {
	config.Status.CurrentPhase.Phase = v1.Phase{Name: v1.PhaseInitial}
	group.Status.CurrentPhase.Phase = v1.Phase{Name: v1.PhaseInitial}
	return v1.PhaseInitial
}

// Idle is about neither.
var Idle v1.Phase
`
	write(t, dir, map[string]string{name: before})
	outcome := checkOutcome(t, dir, options{request.SharedDuplicate, request.OldWrap,
		request.UnexportedInternal}.of(guideRequest))
	want := strings.NewReplacer(
		`	v1 "github.com/test-org/test-operator/pkg/apis/operators/v1"`,
		"	v1 \"github.com/test-org/test-operator/pkg/apis/operators/v1\"\n	\"github.com/test-org/test-operator/pkg/apis/operators/v2\"",
		"*v1.CatalogSourceConfig", "*v2.CatalogSourceConfig",
		"v1.PhaseRunning", "v2.PhaseRunning",
		"config.Status.CurrentPhase.Phase = v1.Phase{Name: v1.PhaseInitial}",
		"config.Status.CurrentPhase.Phase = v2.Phase{Name: v2.PhaseInitial}",
	).Replace(before)
	if diff := cmp.Diff(want, string(outcome.After[name])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, place := range []string{name + ":22", name + ":26"} {
		if !slices.ContainsFunc(outcome.Plan.Findings, func(f finding.Finding) bool {
			return f.Where == place && strings.Contains(f.Text, "the code around does not say which is meant")
		}) {
			t.Errorf("%s is not reported: %v", place, outcome.Plan.Findings)
		}
	}
}
