// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"regexp"
	"slices"
)

// ByRisk returns the resources in the order in which they are worth migrating; the argument is not changed.
// The rule, most important first:
//  1. what can be migrated before what cannot;
//  2. custom resources whose storedVersions claim a version that is no longer served: only the definition still
//     keeps it readable;
//  3. custom resources whose storedVersions claim any version besides the storage version;
//  4. by the least stable version that is served, claimed or stored, alpha before beta before the rest: those are
//     removed first;
//  5. resources whose preferred served version is not the storage version: one of the two is on its way out;
//  6. by name, so that the order is always the same.
func ByRisk(resources []Resource) []Resource {
	sorted := slices.Clone(resources)
	slices.SortStableFunc(sorted, func(a, b Resource) int {
		return cmp.Or(
			slices.Compare(a.risk(), b.risk()),
			cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	return sorted
}

// risk is the sort key of rules 1 to 5; less is riskier.
func (r Resource) risk() []int {
	last := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	stale := r.Stale()
	unserved := slices.ContainsFunc(stale, func(version string) bool { return !r.serves(version) })
	stability := stageOf(r.StorageVersion.Version)
	for _, version := range r.Versions {
		stability = min(stability, stageOf(version.Name))
	}
	for _, version := range stale {
		stability = min(stability, stageOf(version))
	}
	preferredElsewhere := len(r.Versions) > 0 && r.StorageVersion.Version != "" && r.Versions[0].Name != r.StorageVersion.Version
	return []int{last(r.Problem == nil), last(unserved), last(len(stale) > 0), int(stability), last(preferredElsewhere)}
}

func (r Resource) serves(version string) bool {
	return slices.ContainsFunc(r.Versions, func(v Version) bool { return v.Name == version })
}

// Stale returns the versions that a custom resource's definition claims to be stored besides its storage version.
func (r Resource) Stale() []string {
	if r.CRD == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.CRD.StoredVersions), func(version string) bool { return version == r.CRD.StorageVersion })
}

// stage is how far a version is on its way to being stable.
type stage int

const (
	alpha stage = iota
	beta
	stable
)

var prerelease = regexp.MustCompile(`^v[0-9]+(alpha|beta)[0-9]*$`)

func stageOf(version string) stage {
	switch m := prerelease.FindStringSubmatch(version); {
	case m == nil:
		return stable
	case m[1] == "alpha":
		return alpha
	}
	return beta
}
