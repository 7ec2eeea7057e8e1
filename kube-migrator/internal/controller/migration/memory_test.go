// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAWorkerMayUseNineTenthsOfItsMemoryLimit(t *testing.T) {
	c := (&jobs{}).pod(nil).Containers[0]
	limit := c.Resources.Limits.Memory().Value()
	if len(c.Env) != 1 || c.Env[0].Name != "GOMEMLIMIT" {
		t.Fatalf("environment %+v, want GOMEMLIMIT", c.Env)
	}
	of, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[0].Value, "B"))
	if err != nil || of.Value() > limit*9/10 || of.Value() < limit*8/10 {
		t.Errorf("GOMEMLIMIT=%q of %d bytes (%v), want 90 %%", c.Env[0].Value, limit, err)
	}
}
