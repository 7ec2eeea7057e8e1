// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"slices"
	"testing"
)

func TestUncoveredIsWhatNobodyAccountsFor(t *testing.T) {
	kind := Kind{Group: "demo.example.com", Version: "v1", Kind: "Widget", Plural: "widgets"}
	v1, v2, v3 := kind.Hash("demo.example.com/v1"), kind.Hash("demo.example.com/v2"), kind.Hash("demo.example.com/v3")
	held := map[string]int{"demo.example.com/v1": 3, "demo.example.com/v2": 1, "enc:aescbc:v1:key1": 2}
	for name, c := range map[string]struct {
		claimed, shown, want []string
	}{
		"claimed":                 {claimed: []string{v2, v1}},
		"claimed and shown":       {claimed: []string{v1}, shown: []string{v3, v2}},
		"nobody knows":            {claimed: []string{unknownHash}},
		"one is missing":          {claimed: []string{v1, v3}, want: []string{"demo.example.com/v2"}},
		"shown, but not what was": {shown: []string{v2}, want: []string{"demo.example.com/v1"}},
	} {
		if got := (Truth{Held: held, Claimed: c.claimed, kind: kind}).Uncovered(c.shown...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
