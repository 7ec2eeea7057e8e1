// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"fmt"
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/finding"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// succeeded applies a request that ends in another definition, and asserts what holds after every such one. both is a
// test for the migrated tree, of the package in folder.
func succeeded(t *testing.T, dir, folder, both string,
	asked request.Request) (plan *Plan, before, after map[string]string) {
	t.Helper()
	before = filesOf(t, dir)
	plan = planned(t, dir, asked)
	if len(plan.Blockers) > 0 {
		t.Fatalf("blockers: %v", plan.Blockers)
	}
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after = filesOf(t, dir)
	for name, content := range before {
		if strings.Contains(name, "crd") && after[name] != content && filepath.Base(name) != "kustomization.yaml" {
			t.Errorf("%s has changed", name)
		}
	}
	lay(t, dir, folder+"/both_test.go", both)
	checkInvariants(t, dir, before, after)
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || done {
		t.Errorf("apply again: %v, %v; want nothing to do", done, err)
	}
	return plan, before, after
}

// lay puts a file into a fixture.
func lay(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := tree.Put(dir, name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

// acceptable asserts that an API server would take a CRD that was written, and returns its name.
func acceptable(t *testing.T, file, content string) string {
	t.Helper()
	definition, err := crd.Parse(file, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	if problems := definition.CreateProblems(t.Context()); len(problems) > 0 || len(definition.Unknown) > 0 {
		t.Errorf("%s: %q %q", file, problems, definition.Unknown)
	}
	return definition.Name
}

// bothKinds is a test that registers the old and the new type in one scheme and looks for one kind of each.
func bothKinds(pkg, add string, imports []string, kinds map[string]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "package %s\n\nimport (\n\t\"testing\"\n\n\t\"k8s.io/apimachinery/pkg/runtime\"\n", pkg)
	for _, one := range imports {
		fmt.Fprintf(&out, "\t%s\n", one)
	}
	fmt.Fprintf(&out, ")\n\nfunc TestBothKindsAreRegistered(t *testing.T) {\n\tscheme := "+
		"runtime.NewScheme()\n\t%s\n\tfor want, object := range map[string]runtime.Object{\n", add)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&out, "\t\t%q: &%s{},\n", kind, kinds[kind])
	}
	out.WriteString("\t} {\n\t\tif found, _, err := scheme.ObjectKinds(object); err != nil || len(found) != 1 || " +
		"found[0].String() != want {\n\t\t\tt.Errorf(\"%T: %v, %v\", object, found, err)\n\t\t}\n\t}\n}\n")
	formatted, err := format.Source([]byte(out.String()))
	if err != nil {
		return out.String()
	}
	return string(formatted)
}

// guideSuccession is a migration of the guide's kind to another definition.
type guideSuccession struct {
	to, kind string
	pkg      string // of the new kind
	created  []string
	crd      string
	golden   bool
}

func (test guideSuccession) run(t *testing.T) {
	t.Helper()
	const old = "operators.example.com/v1, Kind=CatalogSourceConfig"
	asked := guideRequest
	asked.To, asked.ToKind = test.to, test.kind
	kind := cmp.Or(test.kind, "CatalogSourceConfig")
	imports := []string{`operatorsv1 "github.com/test-org/test-operator/pkg/apis/operators/v1"`}
	literal := "operatorsv1." + kind
	if test.pkg != "operators/v1" {
		imports, literal = append(imports, fmt.Sprintf(`created "github.com/test-org/test-operator/pkg/apis/%s"`,
			test.pkg)), "created."+kind
	}
	both := bothKinds("apis", "if err := AddToScheme(scheme); err != nil {\n\t\tt.Fatal(err)\n\t}", imports,
		map[string]string{old: "operatorsv1.CatalogSourceConfig", test.to + ", Kind=" + kind: literal})
	plan, before, after := succeeded(t, fixture(t, "guide"), "pkg/apis", both, asked)
	if diff := gocmp.Diff(test.created, newIn(before, after)); diff != "" {
		t.Errorf("new files (-want +got):\n%s", diff)
	}
	if got := acceptable(t, test.created[0], after[test.created[0]]); got != test.crd {
		t.Errorf("the new definition is %s, want %s", got, test.crd)
	}
	if test.golden {
		content, err := plan.Encode()
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(test.crd, ".", "-")
		golden.Compare(t, "../testdata/golden/guide-plan-"+name+".yaml", string(content))
		goldenTree(t, "guide-tree-"+name+".txt", before, after)
	}
}

func TestTheGuidesKindIsMovedToAnotherGroupAndGivenAnotherName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]guideSuccession{
		"another name": {
			to: "operators.example.com/v1", kind: "CatalogSourceConfigurer", pkg: "operators/v1",
			created: []string{
				"deploy/crds/operators.example.com_catalogsourceconfigurers_crd.yaml",
				"pkg/apis/operators/v1/catalogsourceconfigurer.go",
				"pkg/apis/operators/v1/catalogsourceconfigurer_register.go",
				"pkg/apis/operators/v1/catalogsourceconfigurer_types.go",
			},
			crd: "catalogsourceconfigurers.operators.example.com", golden: true,
		},
		"another group, name and version": {
			to: "new-group.example.com/v1alpha1", kind: "CatalogSourceConfigurer", pkg: "newgroup/v1alpha1",
			created: []string{
				"deploy/crds/new-group.example.com_catalogsourceconfigurers_crd.yaml",
				"pkg/apis/addtoscheme_newgroup_v1alpha1.go", "pkg/apis/internal/shared/shared.go",
				"pkg/apis/newgroup/group.go", "pkg/apis/newgroup/v1alpha1/catalogsourceconfigurer.go",
				"pkg/apis/newgroup/v1alpha1/catalogsourceconfigurer_types.go",
				"pkg/apis/newgroup/v1alpha1/doc.go", "pkg/apis/newgroup/v1alpha1/register.go",
				"pkg/apis/newgroup/v1alpha1/zz_generated.deepcopy.go",
				"pkg/apis/shared/doc.go", "pkg/apis/shared/phase.go", "pkg/apis/shared/phase_types.go",
				"pkg/apis/shared/zz_generated.deepcopy.go",
			},
			crd: "catalogsourceconfigurers.new-group.example.com", golden: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// Markers, strings and files that the guide's project has none of.
var kubebuilderParts = map[string]string{
	"internal/controller/owner.go": `package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds;backups,verbs=get;list;watch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=update
// +kubebuilder:rbac:groups=cache.example.com,resources=backups,verbs=delete

const (
	finalizer = "cache.example.com/memcached-finalizer"
	ownedBy   = "cache.example.com/memcached"
)

// options are those of the manager.
type options struct{ LeaderElectionID string }

// owner is what objects of a Memcached refer to.
func owner(memcached *cachev1.Memcached) (metav1.OwnerReference, options) {
	memcached.Finalizers = append(memcached.Finalizers, finalizer)
	memcached.Labels = map[string]string{ownedBy: memcached.Name}
	return *metav1.NewControllerRef(memcached, cachev1.GroupVersion.WithKind("Memcached")), options{LeaderElectionID: "f00.cache.example.com"}
}
`,
	"api/v1/memcached_webhook.go": `package v1

// +kubebuilder:webhook:path=/mutate-cache-example-com-v1-memcached,mutating=true,failurePolicy=fail,groups=cache.example.com,resources=memcacheds,verbs=create,versions=v1,name=mmemcached.kb.io

// Default sets what is missing.
func (m *Memcached) Default() { m.Spec.Size = max(m.Spec.Size, defaultSize(&m.Spec)) }

func defaultSize(spec *MemcachedSpec) int32 {
	return int32(len(spec.Place.Labels)) + memcachedSizes["small"]
}

var memcachedSizes = map[string]int32{"small": 1}

var _ interface{ Default() } = &Memcached{}
`,
	"config/crd/kustomization.yaml": "resources:\n- bases/cache.example.com_memcacheds.yaml # the cache\n- " +
		"bases/cache.example.com_backups.yaml\n# +kubebuilder:scaffold:crdkustomizeresource\n",
}

func kubebuilderFixture(t *testing.T, folder string) string {
	t.Helper()
	dir := fixture(t, "kubebuilder")
	for name, content := range kubebuilderParts {
		lay(t, dir, name, content)
	}
	const types = "api/v1/memcached_types.go"
	content, err := os.ReadFile(filepath.Join(dir, types))
	if err != nil {
		t.Fatal(err)
	}
	lay(t, dir, types, strings.Replace(string(content), "// +kubebuilder:subresource:status\n",
		"// +kubebuilder:subresource:status\n// +kubebuilder:resource:path=memcacheds,shortName=mc,categories=all\n",
		1))
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "more")
	if folder != "api" {
		moveFolder(t, dir, "api/v1", folder+"/v1")
	}
	return dir
}

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
				"PROJECT: the project has one group", "api/v1/memcached_webhook.go:3: is about a webhook of " +
					"cache.example.com/v1", "owner.go:14: \"cache.example.com/memcached-finalizer\" is a finalizer",
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

func TestAnotherGroupOrNameThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	before := filesOf(t, dir)
	for name, test := range map[string]struct {
		change func(*request.Request)
		want   string
	}{
		"a kind that exists": {func(r *request.Request) { r.To, r.ToKind = r.From, "OperatorGroup" },
			"operators.example.com/v1 has a kind OperatorGroup already"},
		"its own name": {func(r *request.Request) { r.To, r.ToKind = r.From, "CatalogSourceConfig" },
			"is the kind's name already"},
		"no name of a kind": {func(r *request.Request) { r.ToKind = "catalog-source" }, "is not the name of a kind"},
		"one name for two kinds": {func(r *request.Request) {
			r.Kinds,
				r.ToKind = []string{"CatalogSourceConfig", "OperatorGroup"}, "Both"
		}, "--to-kind is the new name of one kind, and 2 are named"},
		"no group":                 {func(r *request.Request) { r.To = "New_Group/v1" }, "is not a group"},
		"a group without a domain": {func(r *request.Request) { r.To = "operators/v1" }, "is not a group"},
		"storage in the old version": {func(r *request.Request) {
			r.To, r.Storage = "new.example.com/v1",
				request.StorageOld
		},
			"--storage old does not go with it"},
		"the same version and no name": {func(r *request.Request) { r.To = r.From }, "exists already"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := guideRequest
			asked.Kinds = slices.Clone(asked.Kinds)
			test.change(&asked)
			_, err := Make(t.Context(), dir, asked)
			wantProblem(t, err, test.want)
		})
	}
	if diff := gocmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("a refused request changed the tree:\n%s", diff)
	}
}

func TestANewNameThatIsTakenIsABlockerWithItsPlace(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	appendTo(t, filepath.Join(dir, "pkg/apis/operators/v1/operatorgroup.go"),
		"\n// CatalogSpec is taken.\ntype CatalogSpec struct{}\n")
	lay(t, dir, "deploy/crds/operators.example.com_catalogs_crd.yaml", "taken: true\n")
	asked := guideRequest
	asked.To, asked.ToKind = asked.From, "Catalog"
	plan := planned(t, dir, asked)
	var got []string
	for _, blocker := range plan.Blockers {
		got = append(got, blocker.Where+": "+blocker.Text)
	}
	want := []string{
		"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml: the new CRD would be " +
			"deploy/crds/operators.example.com_catalogs_crd.yaml, which exists already",
		"pkg/apis/operators/v1/operatorgroup.go:19: CatalogSourceConfigSpec is to be copied as CatalogSpec, which is " +
			"here already: rename one of them first",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}
