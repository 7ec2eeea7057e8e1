// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestEveryCommitOfEveryKindOfMigrationCompiles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*request.Request){
		"the newest version has what is shared": func(r *request.Request) { r.Shared = request.SharedNewest },
		"each version has what is shared":       func(r *request.Request) { r.Shared = request.SharedDuplicate },
		"the old kind wraps the new one":        func(r *request.Request) { r.Old = request.OldWrap },
		"the old names are aliases":             func(r *request.Request) { r.Old = request.OldAlias },
		"nothing old is left of the newest": func(r *request.Request) {
			r.Old, r.Shared = request.OldRemove,
				request.SharedNewest
		},
		"another group": func(r *request.Request) { r.To = "store.example.com/v1" },
		"another kind":  func(r *request.Request) { r.To, r.ToKind = r.From, "Cache" },
		"another group, version and kind": func(r *request.Request) {
			r.To, r.ToKind = "store.example.com/v2",
				"Cache"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "kubebuilder")
			fixture.Run(t, dir, "git", "config", "user.name", "t")
			fixture.Run(t, dir, "git", "config", "user.email", "t@example.com")
			fixture.Run(t, dir, "git", "tag", beforeMigration)
			asked := memcachedRequest
			change(&asked)
			if done, err := ApplyInCommits(t.Context(), dir, planned(t, dir, asked)); err != nil || !done {
				t.Fatalf("apply: %v, %v", done, err)
			}
			t.Log(compiling(t, dir, dir))
		})
	}
}
