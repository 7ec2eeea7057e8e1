// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package crd

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestLossByPruningIsWhatARealServerDoesToStoredObjects(t *testing.T) {
	fixture.NeedsGo(t)
	cluster := testbed.New(t, testbed.Options{})
	const folder, key = "/apis/example.com/v1/things", "/registry/example.com/things/one"
	cluster.Loses(key, "", "what the server drops is what the test looks at")
	for name, test := range pruningCases {
		t.Run(name, func(t *testing.T) {
			s := &server{t: t, cluster: cluster}
			old, next := test.crd(t, test.old, false), test.crd(t, test.next, false)
			d := parse(t, name, string(old))
			defer s.remove(d.Name)
			if test.preserves {
				s.holds(d, old)
			} else if !s.takes(http.MethodPost, crdsPath, old) {
				t.Fatal("the API server does not take the old CRD")
			}
			object := test.object(t)
			s.creates(folder, object)
			held := s.rewrites(d, next, folder, key)
			diff := cmp.Diff(object, held)
			if lost := diff != ""; lost != (len(test.want) > 0) {
				t.Errorf("the server takes something away: %t, want %t (-before +after):\n%s", lost, !lost, diff)
			}
		})
	}
}
