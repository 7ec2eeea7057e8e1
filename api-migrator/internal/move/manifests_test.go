// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

const (
	guideManifest    = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
	guideManifestNow = "deploy/crds/operators.example.com_catalogsourceconfigs_crd.yaml"
)

// checkManifests asserts that versions and manifests agree, and that manifests of other kinds have not changed.
func checkManifests(t *testing.T, dir string, before, after map[string]string) {
	t.Helper()
	violations, err := typed.Load(t, dir).Violations()
	if err != nil || len(violations) > 0 {
		t.Errorf("violations %q, %v", violations, err)
	}
	for _, other := range []string{"deploy/crds/operators_v1_operatorgroup_crd.yaml",
		"deploy/crds/operators_v1_catalogsourceconfig_cr.yaml", "config/crd/bases/cache.example.com_backups.yaml"} {
		_, bothMoved := after["deploy/crds/operators.example.com_operatorgroups_crd.yaml"]
		if after[other] != before[other] && !bothMoved {
			t.Errorf("%s has changed:\n%s", other, cmp.Diff(before[other], after[other]))
		}
	}
}

func TestAThirdVersionStoresOrDoesNotAsTheRequestSays(t *testing.T) {
	t.Parallel()
	const manifest = "config/crd/bases/cache.example.com_memcacheds.yaml"
	alphaTypes := fixture.Archive(t, "testdata/third-version.txtar")["api/v1alpha1/types.go"]
	for storage, want := range map[string]struct{ alpha, manifest string }{
		request.StorageNew: {strings.Replace(alphaTypes, "// +kubebuilder:storageversion\n", "", 1),
			"- name: v1beta2\n    served: true\n    storage: true\n"},
		request.StorageOld: {alphaTypes, "- name: v1alpha1\n    served: true\n    storage: true\n"},
	} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "kubebuilder")
			crd := strings.Replace(fixture.Read(t, dir, manifest), "storage: true", "storage: false", 1) +
				"  - name: v1alpha1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n      " +
				"  type: object\n"
			fixture.Write(t, dir, map[string]string{"api/v1alpha1/types.go": alphaTypes, manifest: crd})
			fixture.Commit(t, dir, "a third version")
			asked := memcachedRequest
			asked.Storage = storage
			if err := outcomeOf(t, dir, asked).write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			after := fixture.Files(t, dir)
			if compiles {
				checkManifests(t, dir, after, after) // exactly one version is marked, and the manifest agrees
			}
			if diff := cmp.Diff(want.alpha, after["api/v1alpha1/types.go"]); diff != "" {
				t.Errorf("the third version (-want +got):\n%s", diff)
			}
			if !strings.Contains(after[manifest], want.manifest) ||
				!strings.Contains(after[manifest], "  - name: v1beta2\n    served: true\n") {
				t.Errorf("the manifest lacks %q:\n%s", want.manifest, after[manifest])
			}
			// The new version is a copy of the one that the kind moves from, and not of the one that is stored.
			if n := strings.Count(after[manifest], "x-kubernetes-preserve-unknown-fields: true"); n != 2 {
				t.Errorf("%d versions have the schema of v1, want 2:\n%s", n, after[manifest])
			}
		})
	}
}
