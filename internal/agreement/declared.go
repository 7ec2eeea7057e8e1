// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// declared decides what the StorageVersion objects of the resource are worth. An object is agreement only if it names
// exactly the servers that live, and each of them is known to publish. Otherwise its entries are only versions that may
// have been written.
func (f findings) declared() report {
	var whys []string
	for _, d := range f.declarations {
		if why := f.uncountable(d); why != "" {
			whys = append(whys, why)
			continue
		}
		r := report{evidence: migrate.Declared, how: "each publishes it as a StorageVersion", declared: d.ID}
		for _, e := range d.Entries {
			r.answers = append(r.answers, answer{server: f.leases.HostOf(e.Server) + " by its StorageVersion",
				served: true, hash: e.Hash(f.target.Kind)})
		}
		return r
	}
	return report{why: strings.Join(whys, "; ")}
}

// onlyDecodable reports whether all live servers can decode only the version that they all write: each has declared it
// for itself, in an object that is agreement.
func (f findings) onlyDecodable() bool {
	for _, d := range f.declarations {
		if f.uncountable(d) != "" {
			continue
		}
		return !slices.ContainsFunc(d.Entries, func(e snapshot.Entry) bool {
			return len(e.Decodable) != 1 || e.Decodable[0] != e.Version || e.Version != d.Entries[0].Version
		})
	}
	return false
}

// uncountable returns why a StorageVersion object is not agreement, or "".
func (f findings) uncountable(d snapshot.StorageVersion) string {
	if f.target.Origin == migrate.Custom {
		return "StorageVersions do not cover custom resources"
	}
	var ids []string
	for _, e := range d.Entries {
		ids = append(ids, e.Server)
	}
	live, want := f.leases.Names(), snapshot.KubernetesAPI
	if f.target.Origin == migrate.Aggregated {
		want, live = snapshot.OurAPI, nil
		if len(ids) > 0 {
			live = f.leases.Kin(ids[0])
		}
	}
	slices.Sort(ids)
	switch {
	case f.leases.Doubled != "":
		return "two API servers renew the identity Lease " + f.leases.Doubled
	case d.API != want:
		return "the servers of this resource do not publish in " + d.API
	case !f.leases.Known:
		return f.leases.Why
	case len(live) == 0 || !slices.Equal(ids, live):
		return fmt.Sprintf("the StorageVersion names %s, and identity Leases show %d",
			phrase.Count(len(ids), "API server", "API servers"), len(live))
	case f.target.Origin == migrate.Aggregated && (f.service == nil || len(f.service.All()) != len(ids)):
		return "the number of servers behind the APIService is unknown"
	case f.target.Origin != migrate.Aggregated && !f.publishing:
		return f.notPublishing
	}
	return ""
}
