// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestManifestsWhoseNamesDifferInTheirVersionAreOfReleases(t *testing.T) {
	t.Parallel()
	got := Releases([]string{"releases/op-1.2.0.yaml", "releases/op-1.10.0-rc1.yaml", "releases/notes-1.2.0.md",
		"releases/notes-1.3.0.md", "deploy/op-1.2.0.yaml", "crds.yaml", "olm/op.v0.1.0.clusterserviceversion.yaml",
		"olm/op.v0.2.0.clusterserviceversion.yaml", "charts/1.2.0/crd.yaml", "charts/1.3.0/crd.yaml"})
	want := map[string]bool{"releases/op-1.2.0.yaml": true, "releases/op-1.10.0-rc1.yaml": true,
		"deploy/op-1.2.0.yaml": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}
