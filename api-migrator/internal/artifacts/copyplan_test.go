// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
)

func TestTheStepThatInstallsTheCRDSaysWhichNamesBothHave(t *testing.T) {
	t.Parallel()
	const (
		begin = "Install the new CRD. As long as the old one is there too, kubectl get "
		end   = " answers for one of the two only: name the resource with its group, "
	)
	old := crd.Names{Group: "cache.example.com", Kind: "Memcached", Plural: "memcacheds"}
	for name, test := range map[string]struct {
		successor crd.Names
		short     []string
		want      string
	}{
		"another group": {crd.Names{Group: "storage.example.com", Plural: "memcacheds"}, nil,
			begin + "memcacheds" + end + "memcacheds.cache.example.com or memcacheds.storage.example.com."},
		"another group, with short names": {crd.Names{Group: "storage.example.com", Plural: "memcacheds"}, []string{"mc"},
			begin + "memcacheds and kubectl get mc" + end + "memcacheds.cache.example.com or memcacheds.storage.example.com."},
		"another group and another name, with short names": {crd.Names{Group: "storage.example.com", Plural: "caches"},
			[]string{"mc"}, begin + "mc" + end + "memcacheds.cache.example.com or caches.storage.example.com."},
		"another group and another name": {crd.Names{Group: "storage.example.com", Plural: "caches"}, nil, "Install the new CRD."},
		"another name":                   {crd.Names{Group: "cache.example.com", Plural: "caches"}, nil, "Install the new CRD."},
	} {
		s := &copying{Layout: &layout.Layout{Successions: []layout.Succession{{Old: old, Successor: test.successor}}},
			created: map[string]NewCRD{"Memcached": {Files: []string{"crd.yaml"}, ShortNames: test.short}}}
		if got := s.install().Do; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
