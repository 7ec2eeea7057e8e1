// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"slices"
	"strings"
	"testing"
)

func TestUncoveredIsWhatNoOneAccountsFor(t *testing.T) {
	kind := Kind{Group: "demo.example.com", Version: "v1", Kind: "Widget", Plural: "widgets"}
	v1, v2, v3 := kind.Hash("demo.example.com/v1"), kind.Hash("demo.example.com/v2"), kind.Hash("demo.example.com/v3")
	held := map[string]int{"demo.example.com/v1": 3, "demo.example.com/v2": 1, "enc:aescbc:v1:key1": 2}
	for name, c := range map[string]struct {
		claimed, shown, want []string
	}{
		"claimed":                 {claimed: []string{v2, v1}},
		"claimed and shown":       {claimed: []string{v1}, shown: []string{v3, v2}},
		"no one knows":            {claimed: []string{unknownHash}},
		"one is missing":          {claimed: []string{v1, v3}, want: []string{"demo.example.com/v2"}},
		"shown, but not what was": {shown: []string{v2}, want: []string{"demo.example.com/v1"}},
	} {
		if got := (Truth{Held: held, Claimed: c.claimed,
			kind: kind}).Uncovered(c.shown...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestEveryWayInWhichARecordCanBeWrongIsNamed(t *testing.T) {
	kind := Kind{Group: "demo.example.com", Version: "v1", Kind: "Widget", Plural: "widgets"}
	const v1, v2, v3 = "demo.example.com/v1", "demo.example.com/v2", "demo.example.com/v3"
	hashes := func(versions ...string) (all []string) {
		for _, v := range versions {
			all = append(all, kind.Hash(v))
		}
		return all
	}
	for name, c := range map[string]struct {
		truth  Truth
		unseen []string
		want   []string // how each violation begins
	}{
		"everything is accounted for": {
			truth: Truth{Held: map[string]int{v1: 1, v2: 2}, Claimed: hashes(v1, v2), Seen: hashes(v2),
				Current: kind.Hash(v2), Stored: []string{v1, v2}},
		},
		"a version that nothing accounts for": {
			truth: Truth{Held: map[string]int{v1: 1, v2: 2}, Claimed: hashes(v2)},
			want:  []string{"I1 violated: etcd holds 1 objects as " + v1},
		},
		"a version of a server that the trigger has not seen yet": {
			truth: Truth{Held: map[string]int{v1: 1, v2: 2}, Claimed: hashes(v1), Seen: hashes(v1)}, unseen: hashes(v2),
		},
		"a version of a server that the trigger has seen": {
			truth: Truth{Held: map[string]int{v1: 1, v2: 2}, Claimed: hashes(v1),
				Seen: hashes(v1, v2)}, unseen: hashes(v2),
			want: []string{"I1 violated: etcd holds 2 objects as " + v2,
				"I1 violated: API servers are recorded as writing " + kind.Hash(v2)},
		},
		"no one can name what is stored": {
			truth: Truth{Held: map[string]int{v1: 1}, Claimed: []string{unknownHash},
				Seen: hashes(v2), Stored: []string{v1}},
		},
		"migrated, and so it is": {
			truth: Truth{Held: map[string]int{v2: 1}, Claimed: hashes(v2), Seen: hashes(v2),
				Current: kind.Hash(v2), Migrated: true},
		},
		"migrated, and a new server writes another version": {
			truth: Truth{Held: map[string]int{v2: 1, v3: 1}, Claimed: hashes(v2), Seen: hashes(v2),
				Current: kind.Hash(v2), Migrated: true}, unseen: hashes(v3),
		},
		"migrated, and it is not": {
			truth: Truth{Held: map[string]int{v1: 4, v2: 1}, Claimed: hashes(v1, v2),
				Current: kind.Hash(v2), Migrated: true},
			want: []string{
				"I2 violated: Migrated is True, and persistedStorageVersionHashes are",
				"I2 violated: Migrated is True, and etcd holds 4 objects as " + v1,
			},
		},
		"migrated, and anything may be stored": {
			truth: Truth{Held: map[string]int{v2: 1}, Claimed: append(hashes(v2), unknownHash),
				Current: kind.Hash(v2), Migrated: true},
			want: []string{"I2 violated: Migrated is True, and persistedStorageVersionHashes are"},
		},
		"storedVersions lacks a version": {
			truth: Truth{Held: map[string]int{v1: 1, v2: 1}, Claimed: hashes(v1, v2), Stored: []string{v2}},
			want:  []string{"I2 violated: etcd holds 1 objects as " + v1 + ", status.storedVersions"},
		},
		"what is encrypted cannot be looked into": {
			truth: Truth{Held: map[string]int{"enc:aescbc:v1:key1": 1}, Claimed: hashes(v2), Current: kind.Hash(v2),
				Migrated: true, Stored: []string{v2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.truth.kind = kind
			got := c.truth.Violations(c.unseen...)
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("violations:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
