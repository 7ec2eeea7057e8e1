// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATestBesideThemDoesNotPartTypesThatAreSharedTogether(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	for name, code := range map[string]string{
		"check.go": `package v1

// Problem is found by a check.
type Problem struct{ text string }

func (p *Problem) Error() string { return p.text }

// Check finds problems.
type Check struct{}

// Run runs it.
func (c Check) Run() error { return &Problem{text: "all"} }

// Check checks.
func (c *CatalogSourceConfig) Check() error { return Check{}.Run() }

// Check checks.
func (g *OperatorGroup) Check() error { return Check{}.Run() }
`,
		"operatorgroup_test.go": `package v1

import "testing"

func TestCheck(t *testing.T) {
	if (&OperatorGroup{}).Check() == nil {
		t.Error("it has no problem")
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, "pkg/apis/operators/v1", name), []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan := planned(t, dir, guideRequest)
	if len(plan.Blockers) > 0 {
		t.Errorf("the blockers are %v, want none", plan.Blockers)
	}
}
