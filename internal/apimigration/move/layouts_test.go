// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

var memcachedRequest = request.Request{
	Kinds: []string{"Memcached"}, From: "cache.example.com/v1", To: "cache.example.com/v1beta2",
	Storage: request.StorageNew, Unexported: request.UnexportedInternal, Consumers: []string{request.ConsumersAll},
}

// commit commits all that has changed in a fixture.
func commit(t *testing.T, dir, message string) {
	t.Helper()
	run(t, dir, "git", "add", "-A", ".")
	run(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", message)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := tree.Put(dir, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
}

// nested makes a module of its own of the fixture's folder api.
func nested(t *testing.T) string {
	t.Helper()
	dir := fixture(t, "kubebuilder")
	files := filesOf(t, dir)
	const module = "module github.com/test-org/cache-operator\n"
	write(t, dir, map[string]string{
		"api/go.mod": strings.Replace(files["go.mod"], module, "module github.com/test-org/cache-operator/api\n", 1),
		"api/go.sum": files["go.sum"],
		"go.mod": files["go.mod"] + "\nrequire github.com/test-org/cache-operator/api " +
			"v0.0.0-00010101000000-000000000000\n\n" +
			"replace github.com/test-org/cache-operator/api => ./api\n",
	})
	commit(t, dir, "an API of its own")
	return dir
}

func TestAnAPIInAModuleOfItsOwnIsMigratedWithItsUsers(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	before := filesOf(t, dir)
	plan := planned(t, dir, memcachedRequest)
	fromAPI := planned(t, filepath.Join(dir, "api", "v1"), memcachedRequest)
	if diff := cmp.Diff(plan, fromAPI); diff != "" {
		t.Errorf("the plan is another from the API's folder:\n%s", diff)
	}
	if done, err := Apply(t.Context(), filepath.Join(dir, "api"), plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after := filesOf(t, dir)
	checkInvariants(t, dir, before, after)
	checkInvariants(t, filepath.Join(dir, "api"), nil, nil)
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
	if out := string(run(t, dir, "go", "run", "./cmd")); out != "true true\n" {
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

func TestAModuleThatUsesANestedAPIBreaksThePlanLikeAnyOtherImporter(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	write(t, dir, map[string]string{"internal/controller/broken.go": "package controller\n\nvar _ = " +
		"cachev1.Memcached{}\n"})
	_, err := Make(t.Context(), filepath.Join(dir, "api"), memcachedRequest)
	wantProblem(t, err, "the code does not compile: internal/controller/broken.go:3")
}

func TestAGoWorkOfTheProjectIsUsedAndNoneIsLeftBehind(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	mod := filesOf(t, dir)["go.mod"]
	mod, _, _ = strings.Cut(mod, "\nreplace ")
	mod, _, _ = strings.Cut(mod, "\nrequire github.com/test-org/cache-operator/api")
	write(t, dir, map[string]string{"go.mod": mod, "go.work": "go 1.26.0\n\nuse (\n\t.\n\t./api\n)\n"})
	commit(t, dir, "with go.work")
	before := filesOf(t, dir)
	if done, err := Apply(t.Context(), dir, planned(t, dir, memcachedRequest), false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after := filesOf(t, dir)
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
	run(t, dir, "go", "vet", "./...", "./api/...")
	if _, err := os.Stat(filepath.Join(dir, "go.work.sum")); err == nil {
		t.Error("go.work.sum is left behind")
	}
}

// belowGOPATH puts a fixture where projects stood before there were modules, with its dependencies in vendor.
func belowGOPATH(t *testing.T, name, importPath string) string {
	t.Helper()
	gopath, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(gopath, "src", filepath.FromSlash(importPath))
	if err := tree.Copy(filepath.Join("..", "testdata", name), dir); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "go", "mod", "vendor")
	for _, name := range []string{"go.mod", "go.sum", "vendor/modules.txt"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, map[string]string{"Gopkg.toml": "[prune]\n"})
	run(t, dir, "git", "init", "-q")
	commit(t, dir, "before")
	t.Setenv("GOPATH", gopath)
	return dir
}

func TestAProjectWithoutGoModIsMigratedBelowGOPATH(t *testing.T) {
	dir := belowGOPATH(t, "kubebuilder", "github.com/test-org/cache-operator")
	checkBelowGOPATH(t, dir, memcachedRequest, "kubebuilder-tree.txt")
}

// checkBelowGOPATH migrates a project without go.mod and compares the outcome with that of the same project with one.
func checkBelowGOPATH(t *testing.T, dir string, asked request.Request, goldenName string) {
	t.Helper()
	before := filesOf(t, dir)
	plan := planned(t, filepath.Join(dir, "vendor", ".."), asked)
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after := filesOf(t, dir)
	t.Setenv("GO111MODULE", "off")
	run(t, dir, "go", "test", "-trimpath", "./...") // builds and vets, too
	content, err := os.ReadFile(filepath.Join("..", "testdata", "golden", goldenName))
	if err != nil {
		t.Fatal(err)
	}
	var changed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if after[name] != before[name] {
			fmt.Fprintf(&changed, "-- %s --\n%s", name, after[name])
		}
	}
	if diff := cmp.Diff(string(content), changed.String()); diff != "" {
		t.Errorf("not as with a go.mod (-want +got):\n%s", diff)
	}
}

// clientGen gives the fixture the layout of projects with generated clients: the kinds in one types.go, below pkg/apis.
func clientGen(t *testing.T, register map[string]string) string {
	t.Helper()
	dir := fixture(t, "kubebuilder")
	moveFolder(t, dir, "api/v1", "pkg/apis/cache/v1")
	files := filesOf(t, dir)
	const folder = "pkg/apis/cache/v1/"
	types := strings.Replace(files[folder+"memcached_types.go"],
		"\nfunc init() {\n\tSchemeBuilder.Register(&Memcached{}, &MemcachedList{}, &Backup{}, &BackupList{})\n}\n", "",
		1)
	_, backup, _ := strings.Cut(files[folder+"backup_types.go"], "\n)\n")
	types = strings.ReplaceAll(types+backup, "// +kubebuilder:object:root=true\n",
		"// +genclient\n// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object\n")
	for _, name := range []string{"memcached_types.go", "backup_types.go", "groupversion_info.go"} {
		run(t, dir, "git", "rm", "-q", folder+name)
	}
	write(t, dir, map[string]string{
		folder + "types.go": types,
		folder + "doc.go": "/*\nCopyright 2024 The Test Organisation.\n*/\n\n// " +
			"+k8s:deepcopy-gen=package,register\n// +groupName=cache.example.com\n\n// Package v1 is the v1 version " +
			"of the API.\npackage v1\n",
	})
	for name, content := range register {
		write(t, dir, map[string]string{folder + name: content})
	}
	commit(t, dir, "with types.go")
	run(t, dir, "go", "vet", "./...")
	return dir
}

func TestProjectsWithGeneratedClientsAreMigrated(t *testing.T) {
	t.Parallel()
	byHand := archived(t, "register-by-hand")
	generated := "//go:build !ignore_autogenerated\n\n" +
		strings.Replace(byHand["register.go"], "package v1\n",
			"// Code generated by register-gen. DO NOT EDIT.\n\npackage v1\n", 1)
	for name, register := range map[string]map[string]string{
		"addKnownTypes by hand":   byHand,
		"addKnownTypes generated": {"zz_generated.register.go": generated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := clientGen(t, register)
			before := filesOf(t, dir)
			if done, err := Apply(t.Context(), dir, planned(t, dir, memcachedRequest), false); err != nil || !done {
				t.Fatalf("apply: %v, %v", done, err)
			}
			after := filesOf(t, dir)
			checkInvariants(t, dir, before, after)
			if out := string(run(t, dir, "go", "run", "./cmd")); out != "true true\n" {
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
