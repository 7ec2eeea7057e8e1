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
	want := map[string]string{"releases/op-1.2.0.yaml": "releases", "releases/op-1.10.0-rc1.yaml": "releases"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}

func TestBundlesBeforeTheLastOneAreOfReleases(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, version := range []string{"0.9.0", "0.10.0", "0.10.0-rc1"} {
		paths = append(paths, "olm/op/"+version+"/op.v"+version+".clusterserviceversion.yaml", "olm/op/"+version+"/crd.yaml")
	}
	got := Releases(append(paths, "olm/op/op.package.yaml", "olm/op/0.9.0/notes.md", "olm/op/0.8.0/crd.yaml",
		"bundle/v0.9.0/manifests/op.clusterserviceversion.yaml", "bundle/v0.9.0/manifests/crd.yaml",
		"bundle/v0.10.0/manifests/op.clusterserviceversion.yaml", "bundle/v0.10.0/metadata/annotations.yaml",
		"rc/1.0.0-rc2/op.clusterserviceversion.yaml", "rc/1.0.0-rc10/op.clusterserviceversion.yaml",
		"only/0.9.0/op.clusterserviceversion.yaml", "only/0.9.0/crd.yaml"))
	want := map[string]string{"olm/op/0.9.0/op.v0.9.0.clusterserviceversion.yaml": "olm/op", "olm/op/0.9.0/crd.yaml": "olm/op",
		"olm/op/0.10.0-rc1/op.v0.10.0-rc1.clusterserviceversion.yaml": "olm/op", "olm/op/0.10.0-rc1/crd.yaml": "olm/op",
		"rc/1.0.0-rc2/op.clusterserviceversion.yaml":            "rc",
		"bundle/v0.9.0/manifests/op.clusterserviceversion.yaml": "bundle", "bundle/v0.9.0/manifests/crd.yaml": "bundle"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}
