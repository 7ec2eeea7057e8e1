// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

// Change is what a release changes for one built-in resource, compared with the previous release: the version in which
// it is stored, or the versions that can be decoded. New resources and new versions change nothing for stored objects.
type Change struct {
	// Release makes the change; Since is the known release before it: "1.31", "1.30".
	Release string `json:"release"`
	Since   string `json:"since"`
	// Resource is resource.group: "endpointslices.discovery.k8s.io".
	Resource string `json:"resource"`
	// Before and After are the versions in which the two releases store the resource. After is empty if Release does
	// not have the resource.
	Before string `json:"before"`
	After  string `json:"after,omitempty"`
	// Lost are the versions that Release can no longer decode. Objects that are stored in one of them have to be
	// migrated before the upgrade.
	Lost []string `json:"lost,omitempty"`
}

// Changes returns the changes of all known releases up to target, sorted by release and then by resource. The target is
// a release that ReleaseTable knows, in its first form: "1.34".
func Changes(target string) []Change { return changes(tables(), target) }

func changes(all map[string]Table, target string) []Change {
	var found []Change
	known := inOrder(all)
	for i := 1; i < len(known) && compareReleases(known[i], target) <= 0; i++ {
		before, after := all[known[i-1]], all[known[i]]
		for _, r := range resourcesOf(before) {
			change := Change{Release: known[i], Since: known[i-1], Resource: r.String(),
				Before: before.Decodable[r].Versions[0].String()}
			now, has := after.Decodable[r]
			if has {
				change.After = now.Versions[0].String()
			}
			for _, gv := range before.Decodable[r].Versions {
				if !slices.Contains(now.Versions, gv) {
					change.Lost = append(change.Lost, gv.String())
				}
			}
			if change.Before != change.After || len(change.Lost) > 0 {
				found = append(found, change)
			}
		}
	}
	return found
}

// BuiltIn returns the built-in resources of all known releases up to target, sorted.
func BuiltIn(target string) []schema.GroupResource {
	all := map[schema.GroupResource]bool{}
	for minor, table := range tables() {
		if compareReleases(minor, target) <= 0 {
			for r := range table.Decodable {
				all[r] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), compareResources)
}

// resourcesOf returns the resources of a table, sorted.
func resourcesOf(t Table) []schema.GroupResource {
	return slices.SortedFunc(maps.Keys(t.Decodable), compareResources)
}

func compareResources(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

// inOrder returns the releases of tables, the oldest first.
func inOrder(all map[string]Table) []string {
	return slices.SortedFunc(maps.Keys(all), compareReleases)
}

// compareReleases compares two minor versions: "1.9" comes before "1.10".
func compareReleases(a, b string) int {
	switch x, y := version.MustParseGeneric(a), version.MustParseGeneric(b); {
	case x.LessThan(y):
		return -1
	case y.LessThan(x):
		return 1
	}
	return 0
}

// KnownRange describes the releases that Known returns as a range, from the oldest to the newest. It does not mention a
// missing release in between.
func KnownRange() string { return ranges(Known()) }

func ranges(known []string) string {
	var named []string
	for i := 0; i < len(known); {
		last := i
		for last+1 < len(known) && version.MustParseGeneric(known[last+
			1]).Minor() == version.MustParseGeneric(known[last]).Minor()+1 {
			last++
		}
		if last > i+1 {
			named = append(named, known[i]+" to "+known[last])
		} else {
			named = append(named, known[i:last+1]...)
		}
		i = last + 1
	}
	return strings.Join(named, ", ")
}
