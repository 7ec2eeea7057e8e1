// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// The two APIs in which API servers publish what they store. That of kube-apiserver is alpha, off by default, and
// covers neither custom resources nor, as a rule, aggregated ones. Ours is for servers that cannot use it.
const (
	kubernetesAPI = "internal.apiserver.k8s.io"
	ourAPI        = "migration.k8s.io"
)

// unservedFor is how long looks at one resource do not ask for an API that is not served. A round always asks.
const unservedFor = time.Minute

// declaration is a StorageVersion object: what API servers publish about one resource. An entry remains if its server
// is restarted without the API's feature gate, and for up to two hours if the server crashes, so by itself it proves
// nothing.
type declaration struct {
	api     string // the group
	id      string // identifies one state of the object
	entries []entry
}

// entry is what one server published.
type entry struct {
	// server is the name of its identity Lease. version is the group/version in which it encodes.
	server, version string
	// decodable are the versions that it can decode.
	decodable []string
}

// hash returns the hash of the version for a kind, or "" if the kind is unknown or nothing is stored.
func (e entry) hash(kind string) string {
	gv, err := schema.ParseGroupVersion(e.version)
	if err != nil || gv.Version == "" || kind == "" {
		return ""
	}
	return storageversion.Hash(gv.WithKind(kind))
}

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
		r := report{evidence: migrate.Declared, how: "each publishes it as a StorageVersion", declared: d.id}
		for _, e := range d.entries {
			r.answers = append(r.answers, answer{server: f.leases.hostOf(e.server) + " by its StorageVersion",
				served: true, hash: e.hash(f.target.Kind)})
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
		return !slices.ContainsFunc(d.entries, func(e entry) bool {
			return len(e.decodable) != 1 || e.decodable[0] != e.version || e.version != d.entries[0].version
		})
	}
	return false
}

// uncountable returns why a StorageVersion object is not agreement, or "".
func (f findings) uncountable(d declaration) string {
	if f.target.Origin == migrate.Custom {
		return "StorageVersions do not cover custom resources"
	}
	var ids []string
	for _, e := range d.entries {
		ids = append(ids, e.server)
	}
	live, want := f.leases.names(), kubernetesAPI
	if f.target.Origin == migrate.Aggregated {
		want, live = ourAPI, nil
		if len(ids) > 0 {
			live = f.leases.kin(ids[0])
		}
	}
	slices.Sort(ids)
	switch {
	case f.leases.doubled != "":
		return "two API servers renew the identity Lease " + f.leases.doubled
	case d.api != want:
		return "the servers of this resource do not publish in " + d.api
	case !f.leases.known:
		return f.leases.why
	case len(live) == 0 || !slices.Equal(ids, live):
		return fmt.Sprintf("the StorageVersion names %s, and identity Leases show %d",
			phrase.Count(len(ids), "API server", "API servers"), len(live))
	case f.target.Origin == migrate.Aggregated && (f.service == nil || len(f.service.all()) != len(ids)):
		return "the number of servers behind the APIService is unknown"
	case f.target.Origin != migrate.Aggregated && !f.publishing:
		return f.notPublishing
	}
	return ""
}

// declarations reads StorageVersion objects.
type declarations struct {
	client *client

	mu       sync.Mutex
	unserved map[string]time.Time // by API
}

func newDeclarations(c *client) *declarations {
	return &declarations{client: c, unserved: map[string]time.Time{}}
}

// storageVersion contains the fields that are read of an object of either API.
type storageVersion struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		StorageVersions []struct {
			APIServerID     string `json:"apiServerID"`
			EncodingVersion string `json:"encodingVersion"`
			// DecodableVersions are all versions from which the server can convert, served or not.
			DecodableVersions []string `json:"decodableVersions"`
		} `json:"storageVersions"`
	} `json:"status"`
}

func (v *storageVersion) declaration(api string) declaration {
	d := declaration{api: api, id: string(v.Metadata.UID) + "/" + v.Metadata.ResourceVersion}
	for _, s := range v.Status.StorageVersions {
		d.entries = append(d.entries, entry{server: s.APIServerID, version: s.EncodingVersion,
			decodable: s.DecodableVersions})
	}
	return d
}

// all lists the objects of both APIs, by resource.
func (d *declarations) all(ctx context.Context) (map[schema.GroupResource][]declaration, error) {
	found := map[schema.GroupResource][]declaration{}
	for _, api := range []string{kubernetesAPI, ourAPI} {
		body, _, err := d.client.get(ctx, storageVersionsPath(api))
		if d.missing(api, err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list StorageVersions of %s: %w", api, err)
		}
		var list struct {
			Items []storageVersion `json:"items"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("decode StorageVersions of %s: %w", api, err)
		}
		for i := range list.Items {
			r := storageversion.ResourceOf(list.Items[i].Metadata.Name)
			found[r] = append(found[r], list.Items[i].declaration(api))
		}
	}
	return found, nil
}

// of reads the objects of one resource.
func (d *declarations) of(ctx context.Context, target migrate.Target) ([]declaration, error) {
	if target.Origin == migrate.Custom {
		return nil, nil
	}
	api := kubernetesAPI
	if target.Origin == migrate.Aggregated {
		api = ourAPI
	}
	d.mu.Lock()
	since, unserved := d.unserved[api]
	d.mu.Unlock()
	if unserved && time.Since(since) < unservedFor {
		return nil, nil
	}
	body, _, err := d.client.get(ctx, objectPath(storageVersionsPath(api), storageversion.ObjectName(target.GroupResource())))
	if d.missing(api, err) || statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get StorageVersion of %s: %w", target.GroupResource(), err)
	}
	var object storageVersion
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("decode StorageVersion of %s: %w", target.GroupResource(), err)
	}
	return []declaration{object.declaration(api)}, nil
}

// missing reports whether an answer says that the API is not served, or not to us, and remembers it.
func (d *declarations) missing(api string, err error) bool {
	missing := statusOf(err) == http.StatusForbidden || statusOf(err) == http.StatusNotFound && !namesObject(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if missing {
		d.unserved[api] = time.Now()
	} else {
		delete(d.unserved, api)
	}
	return missing
}

func storageVersionsPath(api string) string { return "/apis/" + api + "/v1alpha1/storageversions" }
