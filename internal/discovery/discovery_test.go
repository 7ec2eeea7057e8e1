// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThePreferredVersionOfAGroupComesFirst(t *testing.T) {
	group := preferredFirst(metav1.APIGroup{Name: "b.io",
		PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1"},
		Versions:         []metav1.GroupVersionForDiscovery{{Version: "v2"}, {Version: "v1"}, {Version: "v0"}}})
	var got []string
	for _, v := range group.Versions {
		got = append(got, v.Version)
	}
	if want := []string{"v1", "v2", "v0"}; !slices.Equal(got, want) {
		t.Errorf("versions %v, want %v", got, want)
	}
}

func TestTheEndpointIsTheStorageVersionIfItCanBeRewrittenThere(t *testing.T) {
	able := func(name string) Version { return Version{name, []string{"list", "patch"}} }
	unable := func(name string) Version { return Version{name, []string{"list", "update"}} }
	for name, test := range map[string]struct {
		versions []Version
		storage  string
		want     string
	}{
		"the storage version":             {[]Version{able("v1"), able("v2")}, "v2", "v2"},
		"the first one if it is unknown":  {[]Version{able("v1"), able("v2")}, "", "v1"},
		"the first one if it is unserved": {[]Version{able("v1"), able("v2")}, "v3", "v1"},
		"one that can be patched":         {[]Version{unable("v1"), able("v2")}, "v1", "v2"},
		"none":                            {[]Version{unable("v1")}, "v1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Endpoint(test.versions, test.storage); got != test.want {
				t.Errorf("endpoint %q, want %q", got, test.want)
			}
		})
	}
}
