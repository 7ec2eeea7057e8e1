// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// deepcopy-gen writes the methods in another order and style than controller-gen.
func TestDeepCopyMethodsByDeepCopyGenStayWhereNoTypeChanges(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	const file = "api/v1/zz_generated.deepcopy.go"
	fixture.Write(t, dir, map[string]string{
		file: strings.Replace(fixture.Read(t, dir, file), "by controller-gen", "by deepcopy-gen", 1),
		"Makefile": "generate:\n\tcontroller-gen object paths=./...\n" +
			"deepcopy:\n\tdeepcopy-gen --input-dirs example.com/api/v1\n",
	})
	fixture.Commit(t, dir, "with deepcopy-gen")
	for shared, want := range map[string]struct {
		changes bool
		finding string
	}{
		request.SharedOld: {false, "api/v1beta2/zz_generated.deepcopy.go: is written in the form of controller-gen"},
		request.SharedPackage: {true, "api/shared/zz_generated.deepcopy.go: is written in the form of controller-gen, like " +
			"api/v1/zz_generated.deepcopy.go, api/v1beta2/zz_generated.deepcopy.go"},
	} {
		asked := memcachedRequest
		asked.Shared = shared
		plan := planned(t, dir, asked)
		if len(plan.Blockers) > 0 {
			t.Errorf("%s: blockers %v", shared, plan.Blockers)
		}
		if changes := slices.ContainsFunc(plan.Edits, func(e Edit) bool { return e.File == file }); changes != want.changes {
			t.Errorf("%s: %s changes is %v, want %v", shared, file, changes, want.changes)
		}
		var found []string
		for _, one := range plan.Findings {
			if strings.Contains(one.Text, "the form of controller-gen") {
				found = append(found, one.String())
			}
		}
		text := []string{want.finding + ", but deepcopy-gen is the project's generator: run that"}
		if diff := cmp.Diff(text, found); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", shared, diff)
		}
		if !slices.Contains(plan.Commands, "make deepcopy") {
			t.Errorf("%s: commands %v lack make deepcopy", shared, plan.Commands)
		}
	}
}
