// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package convert

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// The conversion imports packages that vendor does not have yet.
func TestTheConversionOfAModuleThatVendorsIsTested(t *testing.T) {
	t.Parallel()
	dir := fixture.Copy(t, "conversion")
	fixture.Run(t, dir, "go", "mod", "vendor")
	plan := scaffolded(t, dir, Request{Kind: "Gadget", Preserve: true})
	if diff := cmp.Diff([]string{"go mod vendor", "go test ./api/v1"}, plan.Tests); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, command := range plan.Tests {
		words := strings.Fields(command)
		fixture.Run(t, dir, words[0], words[1:]...)
	}
	if plan := scaffolded(t, dir, Request{Kind: "Gadget", Preserve: true}); len(plan.Files)+len(plan.Tests) != 0 {
		t.Errorf("a second run has %v, %v", plan.Files, plan.Tests)
	}
}
