// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
)

func TestAKubebuilderProjectsKindIsMovedToAnotherGroupAndGivenAnotherName(t *testing.T) {
	t.Parallel()
	const old = "cache.example.com/v1, Kind=Memcached"
	for name, test := range map[string]struct {
		folder, to, kind string
		pkg, crd         string
		has              map[string][]string
		lacks            map[string][]string
		findings         []string
	}{
		"one group, which becomes two": {
			folder: "api", to: "storage.example.com/v1", pkg: "api/storage/v1",
			crd: "config/crd/bases/storage.example.com_memcacheds.yaml",
			has: map[string][]string{
				"api/storage/v1/groupversion_info.go": {"storage v1 API group", "+groupName=storage.example.com\n",
					`Group: "storage.example.com", Version: "v1"`},
				"api/storage/v1/memcached_types.go": {"path=memcacheds,shortName=mc",
					`"github.com/test-org/cache-operator/api/shared"`},
				"internal/controller/owner.go": {
					"groups=cache.example.com,resources=memcacheds;backups,verbs=get;list;watch\n// " +
						"+kubebuilder:rbac:groups=storage.example.com,resources=memcacheds,verbs=get;list;watch\n",
					"groups=cache.example.com,resources=memcacheds/status,verbs=update\n// " +
						"+kubebuilder:rbac:groups=storage.example.com,resources=memcacheds/status,verbs=update\n",
					`storagev1.GroupVersion.WithKind("Memcached")`,
				},
				"config/rbac/role.yaml": {"- watch\n- apiGroups:\n  - storage.example.com\n  resources:\n  - memcacheds\n  verbs:\n"},
				"cmd/main.go": {
					"cachev1.AddToScheme(scheme))\n\tutilruntime.Must(storagev1.AddToScheme(scheme))",
				},
				"PROJECT": {"  group: storage\n  kind: Memcached\n  path: " +
					"github.com/test-org/cache-operator/api/storage/v1\n  version: v1\n",
					"  group: cache\n  kind: Memcached\n"},
				"config/crd/kustomization.yaml": {"- bases/cache.example.com_memcacheds.yaml # the cache\n- " +
					"bases/storage.example.com_memcacheds.yaml # the cache\n- bases/cache"},
			},
			findings: []string{
				"PROJECT: the project has one group", "api/v1/memcached_webhook.go:3: is a webhook of " +
					"Memcached at /mutate-cache-example-com-v1-memcached",
				"owner.go:14: \"cache.example.com/memcached-finalizer\" is a finalizer",
				"owner.go:15: \"cache.example.com/memcached\" is a label",
				"owner.go:25: \"f00.cache.example.com\" is the name of a lock",
			},
		},
		"several groups, and another name": {
			folder: "api/cache", to: "storage.example.org/v1beta2", kind: "MemoryCache", pkg: "api/storage/v1beta2",
			crd: "config/crd/bases/storage.example.org_memorycaches.yaml",
			has: map[string][]string{
				"api/storage/v1beta2/memorycache_types.go": {
					"// MemoryCache is the Schema for the memorycaches API\n",
					"path=memorycaches,shortName=mc,categories=all\n", "type MemoryCacheStatus struct",
				},
				"api/storage/v1beta2/memorycache_webhook.go": {"func defaultSize(spec *MemoryCacheSpec)",
					`memoryCacheSizes["small"]`, "= &MemoryCache{}"},
				"PROJECT": {"  domain: example.org\n  group: storage\n  kind: MemoryCache\n  " +
					"path: github.com/test-org/cache-operator/api/storage/v1beta2\n  version: v1beta2\n"},
				"internal/controller/owner.go": {
					"groups=storage.example.org,resources=memorycaches,verbs=get;list;watch\n",
					"func owner(memcached *storagev1beta2.MemoryCache)",
				},
			},
			findings: []string{"owner.go:25: \"Memcached\" names the old kind"},
		},
		"several groups in apis, and another name in the same version": {
			folder: "apis/cache", to: "cache.example.com/v1", kind: "MemoryCache", pkg: "apis/cache/v1",
			crd: "config/crd/bases/cache.example.com_memorycaches.yaml",
			has: map[string][]string{
				"apis/cache/v1/memorycache_types.go": {"// +kubebuilder:resource:path=memorycaches,categories=all\n",
					"SchemeBuilder.Register(&MemoryCache{}, &MemoryCacheList{})"},
				"apis/cache/v1/memorycache_webhook.go": {"func defaultSizeMemoryCache(spec *MemoryCacheSpec)",
					"= &MemoryCache{}"},
				"PROJECT": {"  group: cache\n  kind: MemoryCache\n  path: " +
					"github.com/test-org/cache-operator/apis/cache/v1\n  version: v1\n"},
			},
			lacks:    map[string][]string{"PROJECT": {"multigroup"}},
			findings: []string{"the short name mc belongs to Memcached"},
		},
	} {
		if !compiles && test.kind != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := kubebuilderFixture(t, test.folder)
			asked := guideRequest
			asked.Kinds, asked.From, asked.To, asked.ToKind = []string{"Memcached"},
				"cache.example.com/v1", test.to, test.kind
			kind := cmp.Or(test.kind, "Memcached")
			const module = "github.com/test-org/cache-operator/"
			imports := []string{fmt.Sprintf("cachev1 %q", module+test.folder+"/v1")}
			add, literal := "cachev1.AddToScheme(scheme)", "cachev1."+kind
			if test.pkg != test.folder+"/v1" {
				imports, literal = append(imports, fmt.Sprintf("created %q", module+test.pkg)), "created."+kind
				add += "\n\tcreated.AddToScheme(scheme)"
			}
			both := bothKinds("controller", add, imports,
				map[string]string{old: "cachev1.Memcached", test.to + ", Kind=" + kind: literal})
			plan, _, after := succeeded(t, dir, "internal/controller", both, asked)
			acceptable(t, test.crd, after[test.crd])
			for file, texts := range test.has {
				for _, text := range texts {
					if !strings.Contains(after[file], text) {
						t.Errorf("%s lacks %q:\n%s", file, text, after[file])
					}
				}
			}
			for file, texts := range test.lacks {
				for _, text := range texts {
					if strings.Contains(after[file], text) {
						t.Errorf("%s has %q:\n%s", file, text, after[file])
					}
				}
			}
			for _, want := range test.findings {
				if !slices.ContainsFunc(plan.Findings, func(f finding.Finding) bool {
					return strings.Contains(f.Where+": "+
						f.Text, want)
				}) {
					t.Errorf("no finding says %q: %v", want, plan.Findings)
				}
			}
		})
	}
}
