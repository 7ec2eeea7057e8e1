// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"regexp"
	"slices"
)

// ByRisk returns the resources in the order in which they are worth migrating, without changing the argument: those
// that can be migrated before those that cannot, then by Risk, then by name, so that the order is always the same.
func ByRisk(resources []Resource) []Resource {
	sorted := slices.Clone(resources)
	slices.SortStableFunc(sorted, func(a, b Resource) int {
		return cmp.Or(
			rank(a.Problem != nil)-rank(b.Problem != nil),
			b.Risk()-a.Risk(),
			cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	return sorted
}

// MostRisk is the greatest Risk.
const MostRisk = 23

// Risk estimates how soon a version that may be stored will be removed, from 0 to MostRisk. The rules, most important
// first:
//  1. custom resources whose storedVersions contain a version that is no longer served: only the CRD keeps its objects
//     readable;
//  2. custom resources whose storedVersions contain any version besides the storage version;
//  3. the least stable version that is served, listed or stored: alpha before beta before the rest, because those are
//     removed first;
//  4. resources whose preferred served version is not the storage version: one of the two will be removed.
func (r Resource) Risk() int {
	stale := r.Stale()
	unserved := slices.ContainsFunc(stale, func(version string) bool { return !r.serves(version) })
	stability := stageOf(r.StorageVersion.Version)
	for _, version := range r.Versions {
		stability = min(stability, stageOf(version.Name))
	}
	for _, version := range stale {
		stability = min(stability, stageOf(version))
	}
	preferredElsewhere := len(r.Versions) > 0 && r.StorageVersion.Version != "" &&
		r.Versions[0].Name != r.StorageVersion.Version
	return 12*rank(unserved) + 6*rank(len(stale) > 0) + 2*int(stable-stability) + rank(preferredElsewhere)
}

func rank(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (r Resource) serves(version string) bool {
	return slices.ContainsFunc(r.Versions, func(v Version) bool { return v.Name == version })
}

// Stale returns the versions, other than its storage version, that a custom resource's CRD lists as stored.
func (r Resource) Stale() []string {
	if r.CRD == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.CRD.StoredVersions),
		func(version string) bool { return version == r.CRD.StorageVersion })
}

// stage is how close a version is to being stable.
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
