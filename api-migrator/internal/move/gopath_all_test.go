// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all || long

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

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// belowGOPATH puts a fixture below GOPATH, without go.mod and with its dependencies in vendor.
func belowGOPATH(t *testing.T, name, importPath string) string {
	t.Helper()
	gopath := fixture.Folder(t)
	dir := filepath.Join(gopath, "src", filepath.FromSlash(importPath))
	if err := tree.Copy(filepath.Join("..", "testdata", name), dir); err != nil {
		t.Fatal(err)
	}
	fixture.Run(t, dir, "go", "mod", "vendor")
	for _, name := range []string{"go.mod", "go.sum", "vendor/modules.txt"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	fixture.Write(t, dir, map[string]string{"Gopkg.toml": "[prune]\n"})
	fixture.Run(t, dir, "git", "init", "-q")
	fixture.Commit(t, dir, "before")
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
	before := fixture.Files(t, dir)
	migrated(t, filepath.Join(dir, "vendor", ".."), asked)
	after := fixture.Files(t, dir)
	t.Setenv("GO111MODULE", "off")
	fixture.Run(t, dir, "go", "test", "-trimpath", "./...") // builds and vets, too
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
