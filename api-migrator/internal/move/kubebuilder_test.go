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
)

// The folder of a version decides where new packages go, and how importers and PROJECT name them. A plan shows that,
// and planning compiles the outcome. The files differ only in import paths, so one layout is written and run.
func TestKubebuilderProjectsAreMigratedInEachLayout(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"api", "api/cache", "apis/cache"} {
		if !compiles && folder != "api" {
			continue
		}
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "kubebuilder")
			if folder != "api" {
				moveFolder(t, dir, "api/v1", folder+"/v1")
			}
			before := fixture.Files(t, dir)
			outcome := checkMade(t, dir, memcachedRequest)
			after := outcome.files(before)
			want := []string{
				folder + "/shared/backup_types.go", folder + "/shared/doc.go", folder +
					"/shared/zz_generated.deepcopy.go",
				folder + "/v1beta2/groupversion_info.go", folder + "/v1beta2/memcached_types.go", folder +
					"/v1beta2/zz_generated.deepcopy.go",
			}
			if diff := cmp.Diff(want, newIn(before, after)); diff != "" {
				t.Errorf("new files (-want +got):\n%s", diff)
			}
			if n := strings.Count(after["PROJECT"], "path: github.com/test-org/cache-operator/"+folder+
				"/v1beta2\n  version: v1beta2\n"); n != 1 {
				t.Errorf("PROJECT lists the new version %d times:\n%s", n, after["PROJECT"])
			}
			if folder != "api" {
				return
			}
			goldenTree(t, "kubebuilder-tree.txt", before, after)
			if err := outcome.write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(after, fixture.Files(t, dir)); diff != "" {
				t.Errorf("something else was written than planned (-planned +written):\n%s", diff)
			}
			checkInvariants(t, dir, before, after)
			if out := fixture.Run(t, dir, "go", "run", "./cmd"); out != "true true\n" {
				t.Errorf("the scheme does not know the new version: %s", out)
			}
		})
	}
}

// moveFolder moves a package of a fixture, and commits.
func moveFolder(t *testing.T, dir, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
		t.Fatal(err)
	}
	fixture.Run(t, dir, "git", "mv", from, to)
	for name, content := range fixture.Files(t, dir) {
		if changed := strings.ReplaceAll(content, "-operator/"+from, "-operator/"+to); changed != content {
			fixture.Write(t, dir, map[string]string{name: changed})
		}
	}
	fixture.Run(t, dir, "gofmt", "-w", ".")
	fixture.Commit(t, dir, "moved")
}
