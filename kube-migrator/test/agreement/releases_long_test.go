// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package agreement_test

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Every release that is supported shows what it writes, and which process writes it.
func TestAServerOfEveryRelease(t *testing.T) {
	for _, release := range testbed.Releases() {
		t.Run(string(release), func(t *testing.T) {
			o := newObserver(t, testbed.New(t, testbed.Options{Release: release}))
			v := verdictOf(t, roundOf(t, o), "", "secrets")
			if v.Evidence != migrate.Observed || len(v.Servers) != 1 || !v.Servers[0].Answered {
				t.Errorf("the verdict is %+v", v)
			}
			minor := strings.Join(strings.Split(string(release), ".")[:2], ".")
			record(t, o, "one-server-of-"+minor)
		})
	}
}
