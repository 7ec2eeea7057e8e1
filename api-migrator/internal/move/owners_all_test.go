// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// The project's own test runs before and after, because an index that compares with one version compiles, too.
func TestAnIndexOfOwnersFindsChildrenOfBothVersions(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/owner-index.txtar"))
	fixture.Commit(t, dir, "with an index of owners")
	test := func() string {
		return fixture.Run(t, dir, "go", "test", "-count=1", "-v", "./internal/controller")
	}
	if out := test(); !strings.Contains(out, "a new child says cache.example.com/v1\n") {
		t.Errorf("before: %s", out)
	}
	outcome := migrated(t, dir, memcachedRequest)
	if out := test(); !strings.Contains(out, "a new child says cache.example.com/v1beta2\n") {
		t.Errorf("the fixture does not write the new version: %s", out)
	}
	for _, finding := range outcome.Plan.Findings {
		if strings.HasPrefix(finding.Where, "internal/controller/cronjob_controller.go") {
			t.Errorf("reported, but done: %s", finding)
		}
	}
}
