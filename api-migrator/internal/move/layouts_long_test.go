// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// The controllers of the guide's project need a client, so that a thousand packages are compiled below GOPATH.
func TestTheGuidesProjectIsMigratedBelowGOPATH(t *testing.T) {
	dir := belowGOPATH(t, "guide", "github.com/test-org/test-operator")
	checkBelowGOPATH(t, dir, guideRequest, "guide-tree.txt")
}

func TestACopyOfTheAPIInVendorIsLeftToGo(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	fixture.Run(t, dir, "go", "mod", "vendor")
	fixture.Commit(t, dir, "vendored")
	before := fixture.Files(t, dir)
	plan := planned(t, dir, memcachedRequest)
	if diff := cmp.Diff([]string{"go mod vendor"}, plan.Commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	for name, content := range fixture.Files(t, dir) {
		if strings.HasPrefix(name, "vendor/") && before[name] != content {
			t.Errorf("%s has changed", name)
		}
	}
	fixture.Run(t, dir, "go", "mod", "vendor")
	fixture.Run(t, dir, "go", "vet", "./...")
}
