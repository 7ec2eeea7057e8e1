// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import "testing"

func TestEveryCombinationOfOptionsInEachLayout(t *testing.T) {
	multi := fixture(t, "kubebuilder")
	moveFolder(t, multi, "api/v1", "api/cache/v1")
	for name, project := range map[string]struct {
		dir     string
		request Request
	}{
		"guide":        {fixture(t, "guide"), guideRequest},
		"single group": {fixture(t, "kubebuilder"), memcachedRequest},
		"multi group":  {multi, memcachedRequest},
	} {
		for _, shared := range []string{SharedPackage, SharedNewest, SharedDuplicate} {
			for _, old := range []string{OldKeep, OldWrap, OldAlias, OldRemove} {
				for _, unexported := range []string{UnexportedInternal, UnexportedExport} {
					one := options{shared, old, unexported}
					t.Run(name+","+one.String(), func(t *testing.T) {
						t.Parallel()
						checkOutcome(t, project.dir, one.of(project.request))
					})
				}
			}
		}
	}
}
