// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

func TestManifestsOfReleasesAreLeftAloneAndReportedOnce(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	crd := fixture.Files(t, dir)[guideManifest]
	const bundle = "kind: ClusterServiceVersion\nspec:\n  customresourcedefinitions:\n    owned:\n" +
		"    - {kind: CatalogSourceConfig, name: catalogsourceconfigs.operators.example.com, version: v1}\n"
	fixture.Write(t, dir, map[string]string{"releases/op-1.0.0.yaml": crd, "releases/op-1.1.0-rc1.yaml": crd,
		"olm/1.0.0/crd.yaml": crd, "olm/1.0.0/op.clusterserviceversion.yaml": bundle,
		"olm/1.1.0/crd.yaml": crd, "olm/1.1.0/op.clusterserviceversion.yaml": bundle})
	fixture.Run(t, dir, "git", "add", ".")
	p := outlined(t, dir, guideRequest).Plan
	var found, changed []string
	for _, one := range p.Findings {
		if strings.HasPrefix(one.Where, "releases") || strings.HasPrefix(one.Where, "olm") {
			found = append(found, one.String())
		}
	}
	for _, edit := range p.Edits {
		if strings.HasPrefix(edit.File, "releases/") || strings.HasPrefix(edit.File, "olm/") {
			changed = append(changed, edit.File)
		}
	}
	const left = ": left as it is, with webhooks and roles in the same files: %s, by their names manifests of releases, %d in all"
	want := []string{
		"olm/1.1.0/crd.yaml: catalogsourceconfigs.operators.example.com: fields that the schema does not name are kept as " +
			"before: every object in the schema says x-kubernetes-preserve-unknown-fields: true now. Remove it where they should " +
			"be dropped",
		"olm/1.1.0/op.clusterserviceversion.yaml:5: owns kinds that move in operators.example.com/v1 only: " +
			"list the new version in the ClusterServiceVersion, too",
		"olm" + fmt.Sprintf(left, "1.0.0/crd.yaml", 1),
		"releases" + fmt.Sprintf(left, "op-1.0.0.yaml", 2),
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"olm/1.1.0/crd.yaml"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}
