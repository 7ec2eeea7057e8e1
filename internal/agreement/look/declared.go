// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// unservedFor is how long looks at one resource do not ask for an API that is not served. A round always asks.
const unservedFor = time.Minute

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

func (v *storageVersion) declaration(api string) snapshot.StorageVersion {
	d := snapshot.StorageVersion{API: api, ID: string(v.Metadata.UID) + "/" + v.Metadata.ResourceVersion}
	for _, s := range v.Status.StorageVersions {
		d.Entries = append(d.Entries, snapshot.Entry{Server: s.APIServerID, Version: s.EncodingVersion,
			Decodable: s.DecodableVersions})
	}
	return d
}

// all lists the objects of both APIs, by resource.
func (d *declarations) all(ctx context.Context) (map[schema.GroupResource][]snapshot.StorageVersion, error) {
	found := map[schema.GroupResource][]snapshot.StorageVersion{}
	for _, api := range []string{snapshot.KubernetesAPI, snapshot.OurAPI} {
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
func (d *declarations) of(ctx context.Context, target migrate.Target) ([]snapshot.StorageVersion, error) {
	if target.Origin == migrate.Custom {
		return nil, nil
	}
	api := snapshot.KubernetesAPI
	if target.Origin == migrate.Aggregated {
		api = snapshot.OurAPI
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
	return []snapshot.StorageVersion{object.declaration(api)}, nil
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
