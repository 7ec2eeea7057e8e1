// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// docs/evidence.md promises these.
func TestEveryControlPlaneOfEveryReleaseIsMigratedWithoutAFlag(t *testing.T) {
	// anonymous servers have no identity Lease.
	anonymous := topology{1, []string{"--feature-gates=APIServerIdentity=false"}, ownAddress, migrate.Verified}
	for _, release := range []testbed.Release{testbed.V130, testbed.V132, testbed.V134, testbed.V136, testbed.V137} {
		all := map[string]topology{"single": single, "several": several, "balanced": balanced, "proxied": proxied}
		if release < testbed.V136 {
			all["anonymous"] = anonymous
		}
		for name, one := range all {
			t.Run(string(release)+"/"+name, func(t *testing.T) { one.migrates(t, release) })
		}
	}
}
