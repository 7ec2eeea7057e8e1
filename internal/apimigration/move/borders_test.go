// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATestNextToThemDoesNotPartTypesThatAreSharedTogether(t *testing.T) {
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

func TestEachFileOfAPackageSaysForItselfWhatItUses(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "kubebuilder")
	for name, code := range map[string]string{
		"api/v1/names.go": "package v1\n\n// NameOf makes a name.\nfunc NameOf(part string) " +
			"string { return part }\n",
		"internal/controller/memcached_name.go": "package controller\n\nimport cachev1 " +
			"\"github.com/test-org/cache-operator/api/v1\"\n\nvar _ = cachev1.NameOf(cachev1.Memcached{}.Name)\n",
		"internal/controller/backup_controller.go": "package controller\n\nimport cachev1 " +
			"\"github.com/test-org/cache-operator/api/v1\"\n\nvar _ = cachev1.Backup{}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	asked := guideRequest
	asked.Kinds, asked.From, asked.To = []string{"Memcached"}, "cache.example.com/v1", "cache.example.com/v2"
	for _, d := range planned(t, dir, asked).Declarations {
		if d.Name == "NameOf" && d.To != "new" {
			t.Errorf("NameOf goes to %s (%s), want new: one file uses it, and the kind that moves", d.To, d.Reason)
		}
	}
}
