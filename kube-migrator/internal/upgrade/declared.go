// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Declared parses what API servers declare they can decode: a list of StorageVersions of either API, as JSON. If
// several servers have entries for a resource, only versions that all of them can decode count. The version that the
// first server writes comes first.
func Declared(list []byte) (map[schema.GroupResource][]schema.GroupVersion, error) {
	var declared struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Status struct {
				StorageVersions []struct {
					EncodingVersion   string   `json:"encodingVersion"`
					DecodableVersions []string `json:"decodableVersions"`
				} `json:"storageVersions"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(list, &declared); err != nil {
		return nil, fmt.Errorf("read StorageVersions: %w", err)
	}
	all := map[schema.GroupResource][]schema.GroupVersion{}
	for _, item := range declared.Items {
		servers := item.Status.StorageVersions
		if len(servers) == 0 {
			continue
		}
		resource := storageversion.ResourceOf(item.Metadata.Name)
		var versions []schema.GroupVersion
		for _, text := range servers[0].DecodableVersions {
			gv, err := schema.ParseGroupVersion(text)
			if err != nil {
				return nil, fmt.Errorf("read StorageVersion %s: %w", item.Metadata.Name, err)
			}
			everywhere := true
			for _, s := range servers[1:] {
				everywhere = everywhere && slices.Contains(s.DecodableVersions, text)
			}
			if everywhere {
				versions = append(versions, gv)
			}
		}
		written := servers[0].EncodingVersion
		slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
			return cmp.Or(cmp.Compare(rank(a, written), rank(b, written)), cmp.Compare(a.Group, b.Group),
				-version.CompareKubeAwareVersionStrings(a.Version, b.Version))
		})
		all[resource] = versions
	}
	return all, nil
}

// NewTable builds a table from what the servers of a release declare: the list of their StorageVersions
// (internal.apiserver.k8s.io), as JSON, and the kinds that discovery shows. It omits resources without a kind.
func NewTable(release string, list []byte, kinds map[schema.GroupResource]string) (Table, error) {
	declared, err := Declared(list)
	if err != nil {
		return Table{}, err
	}
	table := Table{Release: release, Decodable: map[schema.GroupResource]Decodable{}}
	for resource, versions := range declared {
		if kind := kinds[resource]; kind != "" && len(versions) > 0 {
			table.Decodable[resource] = Decodable{Kind: kind, Versions: versions}
		}
	}
	return table, nil
}

// rank puts the version that is written first.
func rank(gv schema.GroupVersion, written string) int {
	if gv.String() == written {
		return 0
	}
	return 1
}
