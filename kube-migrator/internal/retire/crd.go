// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// attempts bounds how often an object may change between a read and the write before the write is given up.
const attempts = 10

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// edit returns the operations of a write to a CRD, or none if there is nothing to do.
type edit func(live *crd.CRD) ([]operation, error)

// write reads the CRD, lets an edit decide from it, and writes only if the CRD has not changed in between. The
// resourceVersion in the patch is the precondition: the API server answers 409 if it is another one.
func write(ctx context.Context, client rest.Interface, d *crd.CRD, subresource string, f edit) error {
	var conflict error
	for range attempts {
		live, err := read(ctx, client, d.Metadata.Name)
		if apierrors.IsNotFound(err) || err == nil && live.Metadata.UID != d.Metadata.UID {
			return changed(d, "it was deleted")
		}
		if err != nil {
			return fmt.Errorf("read CRD %s: %w", d.Metadata.Name, err)
		}
		operations, err := f(live)
		if err != nil || len(operations) == 0 {
			return err
		}
		if live.Metadata.ResourceVersion == "" {
			return errors.New("the CRD that was read has no resourceVersion")
		}
		body, err := json.Marshal(append([]operation{
			{"test", "/metadata/uid", live.Metadata.UID},
			{"replace", "/metadata/resourceVersion", live.Metadata.ResourceVersion},
		}, operations...))
		if err != nil {
			return fmt.Errorf("write CRD %s: %w", d.Metadata.Name, err)
		}
		segments := []string{d.Metadata.Name}
		if subresource != "" {
			segments = append(segments, subresource)
		}
		path, err := apipath.Join(crdsPath, segments...)
		if err != nil {
			return fmt.Errorf("write CRD: %w", err)
		}
		// If the answer is lost, the patch is sent again. If the first one had reached the server, the second one
		// fails, and the next read shows that.
		err = patiently(ctx, func() error {
			return apiserver.Send(ctx, client.Patch(types.JSONPatchType).AbsPath(path).Param("fieldManager", fieldManager).
				SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(body), nil)
		})
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err), apierrors.IsInvalid(err) && stale(ctx, client, live):
			conflict = err // the next read shows what happened
		default:
			return fmt.Errorf("write CRD %s: %w", d.Metadata.Name, err)
		}
	}
	return fmt.Errorf("write CRD %s: it changed %d times in a row: %w", d.Metadata.Name, attempts, conflict)
}

// read is crd.Get with retries.
func read(ctx context.Context, client rest.Interface, name string) (d *crd.CRD, err error) {
	err = patiently(ctx, func() error {
		d, err = crd.Get(ctx, client, name)
		return err
	})
	return d, err
}

// stale reports whether the CRD has changed since it was read. Then that is why a test of the patch failed, which the
// API server calls invalid.
func stale(ctx context.Context, client rest.Interface, read *crd.CRD) bool {
	live, err := crd.Get(ctx, client, read.Metadata.Name)
	return err == nil && live.Metadata.ResourceVersion != read.Metadata.ResourceVersion
}

func changed(d *crd.CRD, how string) error {
	return refusal.New(Changed, "kubectl get customresourcedefinition "+d.Metadata.Name+" -o yaml",
		"the CRD %s has changed meanwhile: %s", d.Metadata.Name, how)
}

// unserve is the edit that sets served: false.
func (want Intent) unserve(live *crd.CRD) ([]operation, error) {
	i := index(live, want.Version)
	switch {
	case i < 0 || !live.Spec.Versions[i].Served:
		return nil, nil
	case !slices.ContainsFunc(live.Spec.Versions,
		func(v crd.Version) bool { return v.Served && v.Name != want.Version }):
		return nil, changed(live, "it serves no other version than "+want.Version+" any more")
	}
	if err := want.unstored(live); err != nil {
		return nil, err
	}
	at := fmt.Sprintf("/spec/versions/%d", i)
	return []operation{{"test", at + "/name", want.Version}, {"replace", at + "/served", false}}, nil
}

// remove is the edit that removes the version from spec.versions. It requires the generation in which the last look
// found nothing that names the version: since then, clients may have written in the version if it was served again.
func (want Intent) remove(generation int64) edit {
	return func(live *crd.CRD) ([]operation, error) {
		i := index(live, want.Version)
		switch {
		case i < 0:
			return nil, nil
		case live.Spec.Versions[i].Served:
			return nil, changed(live, "it serves "+want.Version+" again")
		}
		if err := want.unstored(live); err != nil {
			return nil, err
		}
		if live.Metadata.Generation != generation {
			return nil, changed(live, fmt.Sprintf("its generation is %d, was %d", live.Metadata.Generation, generation))
		}
		at := fmt.Sprintf("/spec/versions/%d", i)
		return []operation{{"test", at + "/name", want.Version}, {"remove", at, nil}}, nil
	}
}

// unstored refuses if objects may have been written in the version since the proof that none is stored in it. The API
// server adds a version to status.storedVersions in the same write that makes it the storage version.
func (want Intent) unstored(live *crd.CRD) error {
	switch {
	case live.StorageVersion() == want.Version:
		return changed(live, want.Version+" is its storage version")
	case slices.Contains(live.Status.StoredVersions, want.Version):
		return changed(live, "status.storedVersions names "+want.Version+" again")
	}
	return nil
}

// keepsAll returns the schema for a version whose schema is unknown: it keeps every stored field for the conversion. A
// schema that names fields would drop all others, such as those from which a webhook computes new fields.
func keepsAll() map[string]any {
	return map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
		"x-kubernetes-preserve-unknown-fields": true}}
}

// restore is the edit that adds the version again, unserved. A nil schema stands for one that keeps everything. If an
// interrupted rescue has added the version already, the edit replaces its schema with the given one.
func (want Intent) restore(schema map[string]any) edit {
	return func(live *crd.CRD) ([]operation, error) {
		i := index(live, want.Version)
		switch {
		case i >= 0 && schema == nil:
			return nil, nil
		case i >= 0 && live.Spec.Versions[i].Served:
			return nil, changed(live, "it serves "+want.Version+" again")
		case i >= 0:
			at := fmt.Sprintf("/spec/versions/%d", i)
			operations := []operation{{"test", at + "/name", want.Version}}
			for _, field := range []string{"schema", "subresources"} {
				if schema[field] != nil {
					// this replaces the existing one
					operations = append(operations, operation{"add", at + "/" + field, schema[field]})
				}
			}
			return operations, nil
		}
		version := map[string]any{"name": want.Version, "served": false, "storage": false, "schema": keepsAll()}
		for _, field := range []string{"schema", "subresources"} {
			if schema[field] != nil {
				version[field] = schema[field]
			}
		}
		return []operation{{"add", "/spec/versions/-", version}}, nil
	}
}

// claim is the edit that adds the version to status.storedVersions, so that everyone else can see during the rescue
// that objects may be stored in it (I1).
func (want Intent) claim(live *crd.CRD) ([]operation, error) {
	if slices.Contains(live.Status.StoredVersions, want.Version) {
		return nil, nil
	}
	return []operation{{"add", "/status/storedVersions/-", want.Version}}, nil
}

// SchemaIn returns the entry of a version in a CustomResourceDefinition of apiextensions.k8s.io/v1, which is given as
// JSON.
func SchemaIn(raw []byte, name, version string) (map[string]any, error) {
	var full struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Versions []map[string]any `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &full); err != nil {
		return nil, fmt.Errorf("decode CustomResourceDefinition %s: %w", name, err)
	}
	if full.Metadata.Name != name {
		return nil, fmt.Errorf("it defines %s, not %s", full.Metadata.Name, name)
	}
	for _, v := range full.Spec.Versions {
		if v["name"] == version {
			if v["schema"] == nil {
				return nil, fmt.Errorf("its version %s has no schema", version)
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("the CRD %s there has no version %s", name, version)
}
