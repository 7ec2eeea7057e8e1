// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

var memcachedRequest = request.Request{
	Kinds: []string{"Memcached"}, From: "cache.example.com/v1", To: "cache.example.com/v1beta2",
	Storage: request.StorageNew, Unexported: request.UnexportedInternal, Consumers: []string{request.ConsumersAll},
}

// nested turns the fixture's folder api into a module of its own.
func nested(t *testing.T) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	files := fixture.Files(t, dir)
	const module = "module github.com/test-org/cache-operator\n"
	fixture.Write(t, dir, map[string]string{
		"api/go.mod": strings.Replace(files["go.mod"], module, "module github.com/test-org/cache-operator/api\n", 1),
		"api/go.sum": files["go.sum"],
		"go.mod": files["go.mod"] + "\nrequire github.com/test-org/cache-operator/api " +
			"v0.0.0-00010101000000-000000000000\n\n" +
			"replace github.com/test-org/cache-operator/api => ./api\n",
	})
	fixture.Commit(t, dir, "an API of its own")
	return dir
}

func TestAnAPIInAModuleOfItsOwnIsMigratedWithItsUsers(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	before := fixture.Files(t, dir)
	plan := planned(t, dir, memcachedRequest)
	fromAPI := migrated(t, filepath.Join(dir, "api", "v1"), memcachedRequest)
	if diff := cmp.Diff(plan, fromAPI.Plan); diff != "" {
		t.Errorf("the plan is another from the API's folder:\n%s", diff)
	}
	after := fixture.Files(t, dir)
	checkInvariants(t, dir, before, after)
	checkProject(t, filepath.Join(dir, "api"))
	want := []string{
		"api/shared/backup_types.go", "api/shared/doc.go", "api/shared/zz_generated.deepcopy.go",
		"api/v1beta2/groupversion_info.go", "api/v1beta2/memcached_types.go", "api/v1beta2/zz_generated.deepcopy.go",
	}
	if diff := cmp.Diff(want, newIn(before, after)); diff != "" {
		t.Errorf("new files (-want +got):\n%s", diff)
	}
	const user = "internal/controller/memcached_controller.go"
	for _, path := range []string{"cache-operator/api/v1beta2\"", "cache-operator/api/shared\""} {
		if !strings.Contains(after[user], path) {
			t.Errorf("%s does not import %s:\n%s", user, path, after[user])
		}
	}
	if out := fixture.Run(t, dir, "go", "run", "./cmd"); out != "true true\n" {
		t.Errorf("the scheme does not know the new version: %s", out)
	}
	p, err := project.Load(t.Context(), filepath.Join(dir, "api"))
	if err != nil {
		t.Fatal(err)
	}
	if importers := p.Versions()[1].Importers; len(importers) != 3 {
		t.Errorf("importers of the new version: %v", importers)
	}
}

// Code of another module that does not compile, and would have to be rewritten, blocks the plan as it would in the same
// module: what it does with the kind is not certain.
func TestAModuleThatUsesANestedAPIBreaksThePlanLikeAnyOtherImporter(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	fixture.Write(t, dir, map[string]string{"internal/controller/broken.go": "package controller\n\nvar _ = " +
		"cachev1.Memcached{}\n"})
	if blockers := outlined(t, filepath.Join(dir, "api"), memcachedRequest).Plan.Blockers; len(blockers) != 1 ||
		blockers[0].Where != "internal/controller" || !strings.Contains(blockers[0].Text, "does not compile, so that it is "+
		"not certain what it does with cache.example.com/v1: internal/controller/broken.go:3:9: undefined: cachev1") {
		t.Errorf("blockers: %v", blockers)
	}
}

func TestAGoWorkOfTheProjectIsUsedAndNoneIsLeftBehind(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	mod := fixture.Files(t, dir)["go.mod"]
	mod, _, _ = strings.Cut(mod, "\nreplace ")
	mod, _, _ = strings.Cut(mod, "\nrequire github.com/test-org/cache-operator/api")
	fixture.Write(t, dir, map[string]string{"go.mod": mod, "go.work": "go 1.26.0\n\nuse (\n\t.\n\t./api\n)\n"})
	fixture.Commit(t, dir, "with go.work")
	before := fixture.Files(t, dir)
	migrated(t, dir, memcachedRequest)
	after := fixture.Files(t, dir)
	for _, name := range []string{"go.work", "go.mod", "api/go.mod"} {
		if before[name] != after[name] {
			t.Errorf("%s has changed:\n%s", name, after[name])
		}
	}
	for _, name := range newIn(before, after) {
		if !strings.HasPrefix(name, "api/") {
			t.Errorf("%s is left behind", name)
		}
	}
	fixture.Run(t, dir, "go", "vet", "./...", "./api/...")
	if _, err := os.Stat(filepath.Join(dir, "go.work.sum")); err == nil {
		t.Error("go.work.sum is left behind")
	}
}

// clientGen gives the fixture the layout of projects with generated clients: the kinds in one types.go, below pkg/apis.
func clientGen(t *testing.T, register map[string]string) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	moveFolder(t, dir, "api/v1", "pkg/apis/cache/v1")
	files := fixture.Files(t, dir)
	const folder = "pkg/apis/cache/v1/"
	types := strings.Replace(files[folder+"memcached_types.go"],
		"\nfunc init() {\n\tSchemeBuilder.Register(&Memcached{}, &MemcachedList{}, &Backup{}, &BackupList{})\n}\n", "",
		1)
	_, backup, _ := strings.Cut(files[folder+"backup_types.go"], "\n)\n")
	types = strings.ReplaceAll(types+backup, "// +kubebuilder:object:root=true\n",
		"// +genclient\n// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object\n")
	for _, name := range []string{"memcached_types.go", "backup_types.go", "groupversion_info.go"} {
		fixture.Run(t, dir, "git", "rm", "-q", folder+name)
	}
	fixture.Write(t, dir, map[string]string{folder + "types.go": types})
	fixture.Write(t, dir, fixture.Archive(t, "testdata/client-gen.txtar"))
	for name, content := range register {
		fixture.Write(t, dir, map[string]string{folder + name: content})
	}
	fixture.Commit(t, dir, "with types.go")
	return dir
}

func TestProjectsWithGeneratedClientsAreMigrated(t *testing.T) {
	t.Parallel()
	byHand := fixture.Archive(t, "testdata/register-by-hand.txtar")
	generated := "//go:build !ignore_autogenerated\n\n" +
		strings.Replace(byHand["register.go"], "package v1\n",
			"// Code generated by register-gen. DO NOT EDIT.\n\npackage v1\n", 1)
	for name, register := range map[string]map[string]string{
		"addKnownTypes by hand":   byHand,
		"addKnownTypes generated": {"zz_generated.register.go": generated},
	} {
		if !compiles && register["register.go"] == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := clientGen(t, register)
			before := fixture.Files(t, dir)
			migrated(t, dir, memcachedRequest)
			after := fixture.Files(t, dir)
			checkInvariants(t, dir, before, after)
			if out := fixture.Run(t, dir, "go", "run", "./cmd"); out != "true true\n" {
				t.Errorf("the scheme does not know the new version: %s", out)
			}
			for file, content := range register {
				if after["pkg/apis/cache/v1/"+file] != content {
					t.Errorf("the old version registers other kinds:\n%s", after["pkg/apis/cache/v1/"+file])
				}
				moved := after["pkg/apis/cache/v1beta2/"+file]
				if strings.Contains(moved, "Backup") || !strings.Contains(moved,
					"&Memcached{},\n\t\t&MemcachedList{},\n\t)") {
					t.Errorf("the new version registers other kinds:\n%s", moved)
				}
			}
			const types = "pkg/apis/cache/v1beta2/types.go"
			if strings.Contains(after[types], "type Backup") || !strings.Contains(after[types], "// +genclient\n") {
				t.Errorf("%s:\n%s", types, after[types])
			}
		})
	}
}
