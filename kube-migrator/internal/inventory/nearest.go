// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns the names that a user may have meant, at most three, the likeliest first. Of a name with dots, the
// part before the first dot is enough.
func Nearest(typed string, names []string) []string {
	type near struct {
		name     string
		distance int
	}
	typed = strings.ToLower(typed)
	var all []near
	for _, name := range names {
		first, _, _ := strings.Cut(name, ".")
		if d := min(editDistance(typed, name), editDistance(typed, first)); d <= len(typed)/3 {
			all = append(all, near{name, d})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance),
			cmp.Compare(a.name, b.name))
	})
	var nearby []string
	for _, n := range all[:min(nearest, len(all))] {
		nearby = append(nearby, n.name)
	}
	return nearby
}
