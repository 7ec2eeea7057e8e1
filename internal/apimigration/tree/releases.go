// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"path"
	"regexp"
	"strings"
)

// releaseNumber is the version in the name of a file that belongs to one release.
var releaseNumber = regexp.MustCompile(`v?\d+\.\d+\.\d+(-(alpha|beta|rc)\.?\d*)?`)

// Releases picks the manifests that belong to one release each, such as operator-1.2.0.yaml and operator-1.2.1.yaml:
// files of one folder whose names differ in the version number alone. They install an operator that was built before,
// so no one may change them. ClusterServiceVersions are none of them: their name has the version while it is being made.
func Releases(paths []string) map[string]bool {
	series := map[string][]string{}
	for _, name := range paths {
		base := path.Base(name)
		isManifest := strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".yml") || strings.HasSuffix(base, ".json")
		if isManifest && !strings.Contains(base, "clusterserviceversion") && releaseNumber.MatchString(base) {
			stem := path.Join(path.Dir(name), releaseNumber.ReplaceAllString(base, "*"))
			series[stem] = append(series[stem], name)
		}
	}
	releases := map[string]bool{}
	for _, names := range series {
		for _, name := range names {
			releases[name] = len(names) > 1
		}
	}
	return releases
}
