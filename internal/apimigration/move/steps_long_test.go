// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import "testing"

func TestEveryCommitOfEveryKindOfMigrationCompiles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Request){
		"the newest version has what is shared": func(r *Request) { r.Shared = SharedNewest },
		"each version has what is shared":       func(r *Request) { r.Shared = SharedDuplicate },
		"the old kind wraps the new one":        func(r *Request) { r.Old = OldWrap },
		"the old names are aliases":             func(r *Request) { r.Old = OldAlias },
		"nothing old is left of the newest":     func(r *Request) { r.Old, r.Shared = OldRemove, SharedNewest },
		"another group":                         func(r *Request) { r.To = "store.example.com/v1" },
		"another kind":                          func(r *Request) { r.To, r.ToKind = r.From, "Cache" },
		"another group, version and kind":       func(r *Request) { r.To, r.ToKind = "store.example.com/v2", "Cache" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, "kubebuilder")
			run(t, dir, "git", "config", "user.name", "t")
			run(t, dir, "git", "config", "user.email", "t@example.com")
			request := memcachedRequest
			change(&request)
			if done, err := ApplyInCommits(t.Context(), dir, planned(t, dir, request)); err != nil || !done {
				t.Fatalf("apply: %v, %v", done, err)
			}
			t.Log(compiling(t, dir, dir))
		})
	}
}
