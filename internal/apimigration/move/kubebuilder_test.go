// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKubebuilderProjectsAreMigratedInEachLayout(t *testing.T) {
	for _, folder := range []string{"api", "api/cache", "apis/cache"} {
		t.Run(folder, func(t *testing.T) {
			dir := fixture(t, "kubebuilder")
			if folder != "api" {
				moveFolder(t, dir, "api/v1", folder+"/v1")
			}
			before := filesOf(t, dir)
			asked := guideRequest
			asked.Kinds, asked.From, asked.To = []string{"Memcached"}, "cache.example.com/v1",
				"cache.example.com/v1beta2"
			plan := planned(t, dir, asked)
			if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
				t.Fatalf("apply: %v, %v", done, err)
			}
			after := filesOf(t, dir)
			checkInvariants(t, dir, before, after)
			if folder == "api" {
				goldenTree(t, "kubebuilder-tree.txt", before, after)
			}
			want := []string{
				folder + "/shared/backup_types.go", folder + "/shared/doc.go", folder +
					"/shared/zz_generated.deepcopy.go",
				folder + "/v1beta2/groupversion_info.go", folder + "/v1beta2/memcached_types.go", folder +
					"/v1beta2/zz_generated.deepcopy.go",
			}
			if diff := cmp.Diff(want, newIn(before, after)); diff != "" {
				t.Errorf("new files (-want +got):\n%s", diff)
			}
			if out := string(run(t, dir, "go", "run", "./cmd")); out != "true true\n" {
				t.Errorf("the scheme does not know the new version: %s", out)
			}
			if n := strings.Count(after["PROJECT"], "path: github.com/test-org/cache-operator/"+folder+
				"/v1beta2\n  version: v1beta2\n"); n != 1 {
				t.Errorf("PROJECT lists the new version %d times:\n%s", n, after["PROJECT"])
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
	run(t, dir, "git", "mv", from, to)
	for name, content := range filesOf(t, dir) {
		if changed := strings.ReplaceAll(content, "-operator/"+from, "-operator/"+to); changed != content {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(t, dir, "gofmt", "-w", ".")
	run(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qam", "moved")
}
