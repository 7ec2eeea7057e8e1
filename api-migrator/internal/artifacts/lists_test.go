// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

func TestArgumentsOfGeneratorsThatNameTheOldVersionAlone(t *testing.T) {
	t.Parallel()
	const (
		v2      = "cache.example.com/v2"
		storage = "storage.example.com/v1"
		apis    = "pkg/apis/cache/v1"
	)
	for name, test := range map[string]struct {
		dir, to, makefile string
		want              []string
	}{
		"another group with a version of the same name": {apis, storage,
			"clients:\n\tgenerate-groups.sh all a b cache:v1\n\tclient-gen --input cache/v1 --out pkg/client\n",
			[]string{
				"Makefile:2: generates code for cache:v1: add storage:v1 (storage.example.com/v1) before it runs again",
				"Makefile:3: generates code for cache/v1: add storage/v1 (storage.example.com/v1) before it runs again",
			}},
		"the new group is listed already": {apis, storage,
			"clients:\n\tgenerate-groups.sh all a b \"cache:v1 storage:v1alpha1,v1\"\n", nil},
		"the new version of another group is listed": {apis, v2,
			"clients:\n\tgenerate-groups.sh all a b \"cache:v1 other:v2\"\n",
			[]string{"Makefile:2: generates code for cache:v1: add cache:v2 before it runs again"}},
		"on lines that a command goes on in": {apis, v2,
			"proto:\n\tPATH=dist:$$PATH go-to-protobuf \\\n\t\t--go-header-file=./hack/cache/v1.txt \\\n" +
				"\t\t--packages=example.com/x/pkg/apis/cache/v1 \\\n\t\t--proto-import=vendor\n" +
				"\ttouch pkg/apis/cache/v1/generated.proto\n",
			[]string{"Makefile:4: generates code for pkg/apis/cache/v1: add pkg/apis/cache/v2 before it runs again"}},
		"where a generator writes": {apis, v2,
			"api:\n\topenapi-gen --input-dirs x/cache/v1 \\\n\t\t--output-package x/cache/v1 --report-filename=x/cache/v1\n",
			[]string{"Makefile:2: generates code for cache/v1: add cache/v2 before it runs again"}},
		"variables for the image of kube-code-generator": {apis, v2,
			"update-codegen:\n\tdocker run --rm \\\n\t-e GROUPS_VERSION=\"cache:v1\" \\\n" +
				"\t-e GENERATION_TARGETS=\"deepcopy,client\" \\\n\t$(CODEGEN_IMAGE)\n",
			[]string{"Makefile:3: generates code for cache:v1: add cache:v2 before it runs again"}},
		"a variable that names the folder": {apis, storage,
			"TYPES := $(shell find pkg/apis/cache/v1 -type f)\nproto: $(TYPES)\n\tgo-to-protobuf --packages=x\n",
			[]string{"Makefile:1: TYPES is made of pkg/apis/cache/v1 alone: add pkg/apis/storage/v1 (storage.example.com/v1), " +
				"unless it is about that version"}},
		"a variable of a Makefile without generators": {apis, v2, "TYPES := $(shell find pkg/apis/cache/v1 -type f)\n", nil},
		"versions in a folder api": {"api/v1", storage,
			"clients:\n\tclient-gen --input-base x --input api/v1 --out pkg/client\n",
			[]string{"Makefile:2: generates code for api/v1: add api/storage/v1 (storage.example.com/v1) before it runs again"}},
		"the tag of an image": {apis, v2, "IMAGE = example.com/cache:v1.2\nclients:\n\tlister-gen\n\techo cache:v1\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &project.Workspace{Root: t.TempDir(), Modules: []project.Module{{Path: "example.com/x", Dir: "."}}}
			s := begin(emptyLayoutTo(t, w, test.dir, test.to), nil)
			fixture.Write(t, w.Root, map[string]string{"Makefile": test.makefile, "PROJECT": "domain: example.com\n"})
			s.noteVersionLists()
			var got []string
			for _, one := range s.Findings {
				got = append(got, one.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
