// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

func TestTheTargetsThatRunGeneratorsAreListed(t *testing.T) {
	t.Parallel()
	const (
		proto  = "k8s-proto: vendor\n\tPATH=dist:$$PATH go-to-protobuf \\\n\t\t--packages=x\n"
		script = "gen-k8scodegen:\n\t./hack/update-codegen.sh\n"
		crds   = "gen-crd: tools\n\tgo run ./hack/gen-crd-spec/main.go\n"
	)
	for name, test := range map[string]struct {
		makefile string
		files    map[string]string
		want     []string
	}{
		"for protobuf, clients and CRDs": {proto + script + crds, map[string]string{updateScript: "client-gen\n"},
			[]string{"./hack/update-codegen.sh", "make k8s-proto", "make gen-crd"}},
		"together in one target": {
			"codegen: vendor gen-proto gen-k8scodegen gen-crd manifests docs ## all\n" + proto + script + crds +
				"gen-proto: k8s-proto ui-proto\nmanifests:\n\tkustomize build\n",
			map[string]string{updateScript: "client-gen\n"}, []string{"make codegen"}},
		"not all of them in one target": {"codegen: gen-k8scodegen\n" + proto + script + crds, map[string]string{updateScript: "client-gen\n"},
			[]string{"make codegen", "make k8s-proto", "make gen-crd"}},
		"with an image that has generators": {
			"CODEGEN_IMAGE := quay.io/slok/kube-code-generator:v1.23.0\nupdate-codegen:\n\t@echo code\n\tdocker run --rm \\\n" +
				"\t-v $(PWD):/go $(CODEGEN_IMAGE)\ngenerate-crd:\n\tdocker run $(CODEGEN_IMAGE) update-crd.sh\n",
			nil, []string{"make update-codegen", "make generate-crd"}},
		"in files that the Makefile includes": {
			"include make/*.mk\n-include $(MAKE_DIR)/none.mk missing.mk\n", map[string]string{"make/build.mk": "build:\n\tgo build\n",
				"make/gen.mk": "sinclude make/more/last.mk Makefile\n" + crds, "make/more/last.mk": "clients:\n\tclient-gen --input x"},
			[]string{"make clients", "make gen-crd"}},
		"by a name alone": {"update-codegen:\n\t./tools/all.sh\nverify-codegen:\n\t./tools/all.sh --verify\n", nil,
			[]string{"make update-codegen"}},
		"for CRDs with controller-gen": {
			"CONTROLLER_GEN = $(shell pwd)/bin/controller-gen\nCRD_OPTIONS ?= \"crd:maxDescLen=400\"\n" +
				"gen-crds:\n\t$(CONTROLLER_GEN) $(CRD_OPTIONS) paths=./...\ndeepcopy:\n\t$(CONTROLLER_GEN) object paths=./...\n",
			nil, []string{"make gen-crds"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &project.Workspace{Root: t.TempDir(), Modules: []project.Module{{Path: "example.com/x", Dir: "."}}}
			s := begin(emptyLayout(t, w, "pkg/apis/cache/v1"), nil)
			fixture.Write(t, w.Root, map[string]string{"Makefile": test.makefile})
			fixture.Write(t, w.Root, test.files)
			found := s.generators()
			list := slices.Clone(found)
			for _, command := range s.makersOfCRDs() {
				if !slices.Contains(list, command) {
					list = append(list, command)
				}
			}
			if diff := cmp.Diff(test.want, s.underCodegen(list, found)); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}
