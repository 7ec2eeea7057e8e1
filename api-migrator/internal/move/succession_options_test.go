// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"maps"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// elsewhereWith returns a request for another group, name or version with options.
func elsewhereWith(to, kind string, o options, asked request.Request) request.Request {
	asked = o.of(asked)
	asked.To, asked.ToKind = to, kind
	return asked
}

// checkSuccession plans a request, and asserts that nothing is lost.
func checkSuccession(t *testing.T, dir string, asked request.Request) map[string]string {
	t.Helper()
	outcome := outcomeOf(t, dir, asked)
	for _, blocker := range outcome.Plan.Blockers {
		t.Errorf("blocked: %s: %s", blocker.Where, blocker.Text)
	}
	if outcome.Plan.Copy == nil {
		t.Error("the plan claims that a cluster converts")
	}
	after := fixture.Files(t, dir)
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

// With the tag long, all combinations are planned.
func TestAnotherGroupOrNameGoesTogetherWithOtherOptions(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
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
	dir := clientGen(t, fixture.Archive(t, "testdata/register-by-hand.txtar"))
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

// Without the step, the cluster would drop the status of every copy.
func TestTheStatusIsCopiedWhereOnlyTheManifestHasTheSubresource(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	const types = "pkg/apis/operators/v1/catalogsourceconfig_types.go"
	without := strings.Replace(fixture.Read(t, dir, types), "// +kubebuilder:subresource:status\n", "", 1)
	fixture.Write(t, dir, map[string]string{types: without})
	asked := guideRequest
	asked.To, asked.ToKind = asked.From, "Catalog"
	var commands string
	for _, step := range outlined(t, dir, asked).Plan.Copy.Steps {
		commands += strings.Join(step.Commands, "\n")
	}
	if !strings.Contains(commands, "--subresource=status") || !strings.Contains(commands, "del(.status)") {
		t.Errorf("no step copies the status of the objects:\n%s", commands)
	}
}
