// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Names of files and of folders that belong to one release have its version.
var (
	releaseNumber = regexp.MustCompile(`v?\d+\.\d+\.\d+(-(alpha|beta|rc)\.?\d*)?`)
	releaseFolder = regexp.MustCompile(`^` + releaseNumber.String() + `$`)
)

// Releases picks the manifests that belong to one release each, and gives the folder of their series for each:
//
//   - files of one folder whose names differ in the version number alone, such as operator-1.2.0.yaml and
//     operator-1.2.1.yaml. ClusterServiceVersions are none of them: their name has the version while it is being made.
//   - what is in bundles for the Operator Lifecycle Manager, in folders next to each other that are named after
//     versions, but for the highest one, which may be in the making.
//
// They install an operator that was built before, so no one may change them.
func Releases(paths []string) map[string]string {
	releases, series, bundles := map[string]string{}, map[string][]string{}, bundles(paths)
	for _, name := range paths {
		if !IsManifest(name) {
			continue
		}
		if parent, version, _ := cutRelease(name); len(bundles[parent]) > 0 {
			if version != bundles[parent][len(bundles[parent])-1] && slices.Contains(bundles[parent], version) {
				releases[name] = parent
			}
			continue
		}
		base := path.Base(name)
		if !isServiceVersion(base) && releaseNumber.MatchString(base) {
			stem := path.Join(path.Dir(name), releaseNumber.ReplaceAllString(base, "*"))
			series[stem] = append(series[stem], name)
		}
	}
	for stem, names := range series {
		for _, name := range names {
			if len(names) > 1 {
				releases[name] = path.Dir(stem)
			}
		}
	}
	return releases
}

// bundles are the versions with a ClusterServiceVersion, in their order, by the folder that holds them.
func bundles(paths []string) map[string][]string {
	found := map[string][]string{}
	for _, name := range paths {
		if parent, version, ok := cutRelease(name); ok && isServiceVersion(path.Base(name)) &&
			!slices.Contains(found[parent], version) {
			found[parent] = append(found[parent], version)
		}
	}
	for _, versions := range found {
		slices.SortFunc(versions, func(a, b string) int {
			return cmp.Or(semver.Compare(ordered(a), ordered(b)), strings.Compare(a, b))
		})
	}
	return found
}

// candidate is the number of a release candidate and its like, which stands behind a word.
var candidate = regexp.MustCompile(`-(alpha|beta|rc)(\d+)$`)

// ordered is a version whose parts are compared as numbers: rc2 is before rc10.
func ordered(version string) string {
	return "v" + candidate.ReplaceAllString(strings.TrimPrefix(version, "v"), "-$1.$2")
}

// cutRelease finds the innermost folder of a path that is named after a version.
func cutRelease(name string) (parent, version string, ok bool) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if releaseFolder.MatchString(path.Base(dir)) {
			return path.Dir(dir), path.Base(dir), true
		}
	}
	return "", "", false
}

func isServiceVersion(base string) bool {
	return IsManifest(base) && strings.Contains(base, "clusterserviceversion")
}

// IsManifest reports whether a file may hold objects, by the end of its name: YAML or JSON.
func IsManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}
