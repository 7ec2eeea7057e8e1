// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"maps"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

// elsewhereWith are combinations of another group, name or version with other options.
func elsewhereWith(to, kind string, o options, asked request.Request) request.Request {
	asked = o.of(asked)
	asked.To, asked.ToKind = to, kind
	return asked
}

// checkSuccession plans a request, and asserts that nothing is lost. That the result compiles is a part of planning.
func checkSuccession(t *testing.T, dir string, asked request.Request) map[string]string {
	t.Helper()
	outcome, err := Make(t.Context(), dir, asked)
	if err != nil {
		t.Fatal(err)
	}
	for _, blocker := range outcome.Plan.Blockers {
		t.Errorf("blocked: %s: %s", blocker.Where, blocker.Text)
	}
	if outcome.Plan.Copy == nil {
		t.Error("the plan claims that a cluster converts")
	}
	after := filesOf(t, dir)
	for name, content := range outcome.After {
		if after[name] = string(content); content == nil {
			delete(after, name)
			continue
		}
		if strings.HasSuffix(name, ".go") {
			checkFile(t, name, content)
		}
	}
	return maps.Clone(after)
}

// All combinations are tested in long.
func TestAnotherGroupOrNameGoesTogetherWithOtherOptions(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	const (
		types = "pkg/apis/operators/v1/catalogsourceconfig_types.go"
		code  = "pkg/apis/operators/v1/catalogsourceconfig.go"
	)
	both := elsewhereWith("new.example.com/v1", "",
		options{request.SharedPackage, request.OldKeep, request.UnexportedInternal}, guideRequest)
	both.Kinds = []string{"CatalogSourceConfig", "OperatorGroup"}
	for name, test := range map[string]struct {
		asked request.Request
		has   map[string]string
	}{
		"wrap": {
			elsewhereWith("new.example.com/v1", "Catalog",
				options{request.SharedNewest, request.OldWrap, request.UnexportedExport}, guideRequest),
			map[string]string{types: "Spec   newv1.CatalogSpec", code: "CSCFinalizer = newv1.CSCFinalizer",
				"pkg/apis/new/v1/phase.go": "package v1"},
		},
		"alias": {
			elsewhereWith("operators.example.com/v2", "Catalog",
				options{request.SharedDuplicate, request.OldAlias, request.UnexportedInternal}, guideRequest),
			map[string]string{types: "type CatalogSourceConfig operatorsv2.Catalog\n",
				"pkg/apis/operators/v1/register.go": "CatalogSourceConfigKind = \"CatalogSourceConfig\""},
		},
		"remove": {
			elsewhereWith("new.example.com/v1", "", options{request.SharedPackage, request.OldRemove,
				request.UnexportedInternal}, guideRequest),
			map[string]string{"pkg/apis/shared/phase.go": "package shared",
				"pkg/apis/new/v1/catalogsourceconfig_types.go": "type CatalogSourceConfig struct"},
		},
		"both kinds": {
			both,
			map[string]string{
				"pkg/apis/new/v1/phase.go":                                 "func NewPhase(",
				"deploy/crds/new.example.com_operatorgroups_crd.yaml":      "name: operatorgroups.new.example.com",
				"pkg/controller/operatorgroup/operatorgroup_controller.go": "group *newv1.OperatorGroup",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := checkSuccession(t, dir, test.asked)
			for file, text := range test.has {
				if !strings.Contains(after[file], text) {
					t.Errorf("%s lacks %q:\n%s", file, text, after[file])
				}
			}
		})
	}
}

func TestAKindWithAnotherNameIsRegisteredInThePackagesOneList(t *testing.T) {
	t.Parallel()
	dir := clientGen(t, map[string]string{"register.go": registerByHand})
	asked := memcachedRequest
	asked.To, asked.ToKind = asked.From, "MemoryCache"
	after := checkSuccession(t, dir, asked)
	const register, types = "pkg/apis/cache/v1/register.go", "pkg/apis/cache/v1/memorycache_types.go"
	if want := "\t\t&Memcached{},\n\t\t&MemoryCache{},\n\t\t&MemcachedList{},\n\t\t&MemoryCacheList{},\n\t\t&Backup{},\n"; !strings.Contains(after[register], want) {
		t.Errorf("%s lacks %q:\n%s", register, want, after[register])
	}
	if !strings.Contains(after[types], "// +genclient\n") || strings.Contains(after[types], "Backup") {
		t.Errorf("%s:\n%s", types, after[types])
	}
}

const trickyTypes = `package v1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemcachedBase is embedded.
type MemcachedBase struct {
	// Memcached names another one.
	MemcachedRef string ` + "`json:\"memcachedRef,omitempty\"`" + `
}

// MemcachedHolder embeds.
type MemcachedHolder struct {
	MemcachedBase ` + "`json:\",inline\"`" + `
}

// MemcachedMode counts.
type MemcachedMode int

// The modes.
const (
	MemcachedModeA MemcachedMode = iota
	ModeB
)

// String is for people.
func (m MemcachedMode) String() string { return [...]string{"Memcached", "B"}[m] }

// Hold uses everything: Memcacheds, the Memcached and memcacheds.
func (m *Memcached) Hold() string {
	h := MemcachedHolder{MemcachedBase: MemcachedBase{MemcachedRef: "Memcached"}}
	memoryCache := ModeB
	return fmt.Sprint(h.MemcachedBase.MemcachedRef, memoryCache, MemcachedModeA)
}

// Of makes.
func Of[T any](v T, _ *Memcached) (T, metav1.Object) { return v, &Memcached{} }
`

const trickyUse = `package controller

import v1 "github.com/test-org/cache-operator/api/v1"

// use uses v1.Memcached and v1.MemcachedList.
func use(list *v1.MemcachedList) int {
	n := 0
	for _, memcached := range list.Items {
		_, object := v1.Of(3, &memcached)
		n += len(object.GetName()) + len(v1.MemcachedHolder{MemcachedBase: v1.MemcachedBase{}}.MemcachedRef) + int(v1.ModeB)
	}
	return n
}
`

func TestEmbeddedCountedAndGenericCodeFollowsAnotherName(t *testing.T) {
	t.Parallel()
	dir := kubebuilderFixture(t, "api")
	lay(t, dir, "api/v1/extra.go", trickyTypes)
	lay(t, dir, "internal/controller/use.go", trickyUse)
	for to, test := range map[string]struct{ file, has, use string }{
		"cache.example.com/v1": {"api/v1/memorycache_extra.go",
			"MemoryCacheModeA MemoryCacheMode = iota\n\tModeBMemoryCache\n",
			"v1.MemoryCacheHolder{MemoryCacheBase: v1.MemoryCacheBase{}}.MemcachedRef) + int(v1.ModeBMemoryCache)"},
		"cache.example.com/v2": {"api/v2/extra.go", "MemoryCacheModeA MemoryCacheMode = iota\n\tModeB\n",
			"v2.MemoryCacheHolder{MemoryCacheBase: v2.MemoryCacheBase{}}.MemcachedRef) + int(v2.ModeB)"},
	} {
		after := checkSuccession(t, dir, elsewhereWith(to, "MemoryCache",
			options{request.SharedPackage, request.OldKeep, request.UnexportedInternal}, memcachedRequest))
		for file, text := range map[string]string{test.file: test.has, "internal/controller/use.go": test.use} {
			if !strings.Contains(after[file], text) {
				t.Errorf("%s lacks %q:\n%s", file, text, after[file])
			}
		}
	}
}
