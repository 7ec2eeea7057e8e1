// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestTheGuidesKindIsMovedToAnotherGroupOrGivenAnotherNameInAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]guideSuccession{
		"another group": {
			to: "new-group.example.com/v1", pkg: "newgroup/v1",
			created: []string{
				"deploy/crds/new-group.example.com_catalogsourceconfigs_crd.yaml",
				"pkg/apis/addtoscheme_newgroup_v1.go", "pkg/apis/internal/shared/shared.go",
				"pkg/apis/newgroup/group.go", "pkg/apis/newgroup/v1/catalogsourceconfig.go",
				"pkg/apis/newgroup/v1/catalogsourceconfig_types.go",
				"pkg/apis/newgroup/v1/doc.go", "pkg/apis/newgroup/v1/register.go",
				"pkg/apis/newgroup/v1/zz_generated.deepcopy.go",
				"pkg/apis/shared/doc.go", "pkg/apis/shared/phase.go", "pkg/apis/shared/phase_types.go",
				"pkg/apis/shared/zz_generated.deepcopy.go",
			},
			crd: "catalogsourceconfigs.new-group.example.com",
		},
		"another name and version": {
			to: "operators.example.com/v2", kind: "CatalogSourceConfigurer", pkg: "operators/v2",
			created: []string{
				"deploy/crds/operators.example.com_catalogsourceconfigurers_crd.yaml",
				"pkg/apis/addtoscheme_operators_v2.go", "pkg/apis/operators/internal/shared/shared.go",
				"pkg/apis/operators/shared/doc.go", "pkg/apis/operators/shared/phase.go",
				"pkg/apis/operators/shared/phase_types.go", "pkg/apis/operators/shared/zz_generated.deepcopy.go",
				"pkg/apis/operators/v2/catalogsourceconfigurer.go",
				"pkg/apis/operators/v2/catalogsourceconfigurer_types.go",
				"pkg/apis/operators/v2/doc.go", "pkg/apis/operators/v2/register.go",
				"pkg/apis/operators/v2/zz_generated.deepcopy.go",
			},
			crd: "catalogsourceconfigurers.operators.example.com",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

func TestAnotherGroupOrNameGoesTogetherWithEveryOtherOption(t *testing.T) {
	t.Parallel()
	guide, kubebuilder := fixture.Repository(t, "guide"), kubebuilderFixture(t, "api")
	for _, shared := range []string{request.SharedPackage, request.SharedNewest, request.SharedDuplicate} {
		for _, old := range []string{request.OldKeep, request.OldWrap, request.OldAlias, request.OldRemove} {
			for _, one := range []struct {
				dir   string
				asked request.Request
			}{
				{guide, elsewhereWith("operators.example.com/v2", "Catalog",
					options{shared, old, request.UnexportedInternal}, guideRequest)},
				{guide, elsewhereWith("new.example.com/v1", "Catalog",
					options{shared, old, request.UnexportedExport}, guideRequest)},
				{kubebuilder, elsewhereWith("storage.example.com/v1", "MemoryCache",
					options{shared, old, request.UnexportedInternal}, memcachedRequest)},
			} {
				t.Run(one.asked.To+","+shared+","+old, func(t *testing.T) {
					checkSuccession(t, one.dir, one.asked)
				})
			}
		}
	}
}
