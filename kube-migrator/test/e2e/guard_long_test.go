// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// 1.30 is the oldest release that serves what the guard consists of.
func TestTheGuardHoldsOnEveryRelease(t *testing.T) {
	for _, release := range testbed.Releases() {
		t.Run(string(release), func(t *testing.T) {
			g := newGuarded(t, testbed.Options{Release: release, Users: []testbed.User{{Name: "forger"}},
				Flags: []string{"--allow-privileged"}})
			t.Run("the worker changes nothing", func(t *testing.T) { g.in(t).tryTheWorker() })
			t.Run("the worker rewrites everything", func(t *testing.T) { g.in(t).rewriteEverything() })
			t.Run("no one else writes reports and records", func(t *testing.T) { g.in(t).forge() })
			t.Run("the controller starts nothing but workers", func(t *testing.T) { g.in(t).tryJobs() })
			t.Run("the controller grants nothing but rewrites", func(t *testing.T) { g.in(t).tryGrants() })
		})
	}
}
