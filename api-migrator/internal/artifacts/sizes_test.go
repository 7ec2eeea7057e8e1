// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// kubectl apply without --server-side keeps the whole CRD in an annotation, for which API servers have a limit.
func TestAManifestThatBecomesTooLargeForAClientSideApplyIsAFinding(t *testing.T) {
	t.Parallel()
	const (
		limit = 262144
		name  = "catalogsourceconfigs"
	)
	dir := fixture.Repository(t, "guide")
	manifest := fixture.Read(t, dir, guideManifest)
	otherGroup := decided.Guide()
	otherGroup.To = "catalogs.example.com/v1"
	for what, test := range map[string]struct {
		asked       request.Request
		description int
		want        string // the file and the CRD of the finding
	}{
		"two versions are too large": {decided.Guide(), limit * 2 / 3, guideManifestNow + ": " + name + ".operators.example.com has "},
		"two versions are not":       {decided.Guide(), limit / 3, ""},
		"one version is already":     {decided.Guide(), limit, ""},
		"a new CRD is": {otherGroup, limit, "deploy/crds/catalogs.example.com_" + name + "_crd.yaml: " + name +
			".catalogs.example.com has "},
		"a new CRD is not": {otherGroup, limit * 2 / 3, ""},
	} {
		fixture.Write(t, dir, map[string]string{guideManifest: strings.Replace(manifest, "openAPIV3Schema:\n",
			"openAPIV3Schema:\n      description: "+strings.Repeat("x", test.description)+"\n", 1)})
		var got string
		for _, one := range manifestsOf(t, dir, test.asked).Findings {
			if found, _, ok := strings.Cut(one.String(), " bytes as JSON: kubectl apply keeps it in an annotation"); ok {
				got += strings.TrimRight(found, "0123456789")
			}
		}
		if got != test.want {
			t.Errorf("%s: finding %q, want %q", what, got, test.want)
		}
	}
}
