// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package crd

import (
	"net/http"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestVerdictsAreThoseOfARealServer(t *testing.T) {
	fixture.NeedsGo(t)
	cluster := testbed.New(t, testbed.Options{})
	for name, pair := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			s := &server{t: t, cluster: cluster}
			if next := parse(t, "new", pair[1]); !next.isV1() {
				same(t, "create in v1beta1", next.CreateProblems(t.Context()),
					s.takes(http.MethodPost, crdsPath, asJSON(t, pair[1])))
			}
			old, oldBody := inV1(t, "old", pair[0])
			next, nextBody := inV1(t, "new", pair[1])

			held := s.takes(http.MethodPost, crdsPath, oldBody)
			same(t, "create old", old.CreateProblems(t.Context()), held)
			if held {
				s.establish(old.Name, old.storedVersions())
				same(t, "update", next.UpdateProblems(t.Context(), old), s.replaces(old.Name, nextBody))
				s.remove(old.Name)
			}
			same(t, "create new", next.CreateProblems(t.Context()), s.takes(http.MethodPost, crdsPath, nextBody))
			s.remove(next.Name)
		})
	}
}
