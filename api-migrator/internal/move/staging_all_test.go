// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

func TestEveryCommitOfAMigrationCompiles(t *testing.T) {
	t.Parallel()
	dir := nested(t)
	fixture.Run(t, dir, "git", "config", "user.name", "An Author")
	fixture.Run(t, dir, "git", "config", "user.email", "author@example.com")
	fixture.Run(t, dir, "git", "tag", beforeMigration)
	plan := planned(t, dir, memcachedRequest)
	fixture.Append(t, dir, "PROJECT", "\n")
	_, err := ApplyInCommits(t.Context(), dir, plan)
	fixture.WantProblem(t, err, "uncommitted changes: PROJECT")
	fixture.Run(t, dir, "git", "checkout", "-q", "PROJECT")
	if done, err := ApplyInCommits(t.Context(), filepath.Join(dir, "api"), plan); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	if out := fixture.Run(t, dir, "git", "status", "--porcelain", "--ignored"); len(out) > 0 {
		t.Errorf("left behind: %s", out)
	}
	if out := fixture.Run(t, dir, "git", "log", "-1", "--format=%an <%ae>"); out != "An Author <author@example.com>\n" {
		t.Errorf("the author is %s", out)
	}
	subjects := compiling(t, dir, dir, filepath.Join(dir, "api"))
	want := []string{
		"Share code with cache.example.com/v1beta2",
		"Add Memcached in cache.example.com/v1beta2",
		"Deprecate Memcached in cache.example.com/v1",
		"Use Memcached of cache.example.com/v1beta2",
		"Define Memcached in cache.example.com/v1beta2",
		"List Memcached in cache.example.com/v1beta2",
	}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
}
