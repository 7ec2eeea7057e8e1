// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import "testing"

func TestManifestsOfKustomizationsAreNoExamples(t *testing.T) {
	t.Parallel()
	for file, kustomization := range map[string]string{
		"a.yaml": "kustomization.yaml", "deploy/a.yaml": "kustomization.yml", "overlay/patches/a.json": "overlay/Kustomization",
	} {
		if isExample(file, []string{file, kustomization}) {
			t.Errorf("%s is an example next to %s", file, kustomization)
		}
		if !isExample(file, []string{file, "other/kustomization.yaml"}) {
			t.Errorf("%s is no example", file)
		}
	}
}
