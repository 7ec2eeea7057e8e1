// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import "testing"

func TestImportsAreNamedAfterTheNewVersionAsAfterTheOldOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, version, want string }{
		{"cachev1", "v2", "cachev2"},
		{"cachev1alpha1", "v1beta1", "cachev1beta1"},
		{"cachev1a1", "v1beta1", "cachev1b1"},
		{"cachev1b2", "v1", "cachev1"},
		{"cacheV1Alpha", "v2", "cacheV2Alpha"},
		{"v1apps", "v2", "v2apps"},
		{"cache", "v2", "cachev2"},
	} {
		if got := withVersion(c.name, c.version); got != c.want {
			t.Errorf("%s for %s: %s, want %s", c.name, c.version, got, c.want)
		}
	}
}
