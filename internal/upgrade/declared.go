// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// NewTable makes a table of what servers say of themselves: the list of their StorageVersions
// (internal.apiserver.k8s.io), as JSON, and the kinds that discovery shows. Where several servers speak, what all of
// them can decode counts. A resource without a kind is left out.
func NewTable(release string, list []byte, kinds map[schema.GroupResource]string) (Table, error) {
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
		return Table{}, fmt.Errorf("read StorageVersions: %w", err)
	}
	table := Table{Release: release, Decodable: map[schema.GroupResource]Decodable{}}
	for _, item := range declared.Items {
		at := strings.LastIndex(item.Metadata.Name, ".")
		servers := item.Status.StorageVersions
		if at < 0 || len(servers) == 0 {
			continue
		}
		resource := schema.GroupResource{Group: item.Metadata.Name[:at], Resource: item.Metadata.Name[at+1:]}
		if resource.Group == "core" {
			resource.Group = ""
		}
		d := Decodable{Kind: kinds[resource]}
		for _, text := range servers[0].DecodableVersions {
			gv, err := schema.ParseGroupVersion(text)
			if err != nil {
				return Table{}, fmt.Errorf("read StorageVersion %s: %w", item.Metadata.Name, err)
			}
			everywhere := true
			for _, s := range servers[1:] {
				everywhere = everywhere && slices.Contains(s.DecodableVersions, text)
			}
			if everywhere {
				d.Versions = append(d.Versions, gv)
			}
		}
		written := servers[0].EncodingVersion
		slices.SortFunc(d.Versions, func(a, b schema.GroupVersion) int {
			return cmp.Or(cmp.Compare(rank(a, written), rank(b, written)), cmp.Compare(a.Group, b.Group),
				-version.CompareKubeAwareVersionStrings(a.Version, b.Version))
		})
		if d.Kind != "" && len(d.Versions) > 0 {
			table.Decodable[resource] = d
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
