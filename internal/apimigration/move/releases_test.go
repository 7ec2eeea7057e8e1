// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/fixture"
)

func TestManifestsOfReleasesAreLeftAloneAndReportedOnce(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	crd := fixture.Files(t, dir)[guideManifest]
	fixture.Write(t, dir, map[string]string{"releases/op-1.0.0.yaml": crd, "releases/op-1.1.0-rc1.yaml": crd})
	fixture.Run(t, dir, "git", "add", ".")
	s := manifestsOf(t, dir, guideRequest)
	var found []string
	for _, one := range s.Findings {
		if strings.HasPrefix(one.Where, "releases") {
			found = append(found, one.String())
		}
	}
	for name := range s.Changes {
		if strings.HasPrefix(name, "releases/") {
			t.Errorf("%s is changed", name)
		}
	}
	if len(found) != 1 || !strings.Contains(found[0], "op-1.0.0.yaml, by their names manifests of releases, 2 in all") ||
		s.Changes[guideManifestNow] == nil {
		t.Errorf("findings %q", found)
	}
}
