// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestGoMayUseNineTenthsOfTheMemoryLimit(t *testing.T) {
	c := Options{}.container()
	value := ""
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			value = e.Value
		}
	}
	limit := c.Resources.Limits.Memory().Value()
	of, err := resource.ParseQuantity(strings.TrimSuffix(value, "B"))
	if err != nil || of.Value() > limit*9/10 || of.Value() < limit*8/10 {
		t.Errorf("GOMEMLIMIT=%q of %d bytes (%v), want 90 %%", value, limit, err)
	}
}
