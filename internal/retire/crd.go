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
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/refusal"
)

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// attempts bounds how often something may change between our read and our write before we give up.
const attempts = 10

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// edit is what a write to a CRD does: nil operations where nothing is to be done.
type edit func(live *crd.CRD) ([]operation, error)

// write lets an edit judge the CRD as it is, and writes under the condition that it is still that one. The
// resourceVersion that the patch sets is the precondition: the API server answers 409 where it is another one.
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
		// Where the answer is lost the patch is sent again: if the first one was heard, the second one is not, and the
		// next read shows it.
		err = patiently(ctx, func() error {
			return client.Patch(types.JSONPatchType).AbsPath(path).Param("fieldManager", fieldManager).
				SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(body).Do(ctx).Error()
		})
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err), apierrors.IsInvalid(err) && stale(ctx, client, live):
			conflict = err // the next read tells what happened
		default:
			return fmt.Errorf("write CRD %s: %w", d.Metadata.Name, err)
		}
	}
	return fmt.Errorf("write CRD %s: it changed %d times in a row: %w", d.Metadata.Name, attempts, conflict)
}

// read is crd.Get, again while that helps.
func read(ctx context.Context, client rest.Interface, name string) (d *crd.CRD, err error) {
	err = patiently(ctx, func() error {
		d, err = crd.Get(ctx, client, name)
		return err
	})
	return d, err
}

// stale reports whether the CRD has moved since it was read: a test of the patch then failed for that reason,
// which the API server calls invalid.
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

// remove is the edit that takes the version out of spec.versions, if its generation is still the one in which the last
// look found nothing that names it: in between the version may have been served again, and written at.
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

// unstored refuses where objects may have been written in the version since it was proven that none is stored in it:
// the API server adds a version to status.storedVersions in the very write that makes it the storage version.
func (want Intent) unstored(live *crd.CRD) error {
	switch {
	case live.StorageVersion() == want.Version:
		return changed(live, want.Version+" is its storage version")
	case slices.Contains(live.Status.StoredVersions, want.Version):
		return changed(live, "status.storedVersions names "+want.Version+" again")
	}
	return nil
}

// keepsAll is the schema of a version of which no other is known: whatever is stored in it is read, and reaches the
// conversion whole. Any other schema would drop the fields that it does not name, such as those that a webhook makes
// new ones of.
func keepsAll() map[string]any {
	return map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
		"x-kubernetes-preserve-unknown-fields": true}}
}

// restore is the edit that brings the version back, unserved, with a schema; nil for one that keeps everything. Where a
// rescue that was interrupted has brought it back already, it gets the schema that is given now.
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
					// in place of the one there
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

// claim is the edit of the status that says that objects may be stored in the version, for everybody else to know while
// they are rescued (I1).
func (want Intent) claim(live *crd.CRD) ([]operation, error) {
	if slices.Contains(live.Status.StoredVersions, want.Version) {
		return nil, nil
	}
	return []operation{{"add", "/status/storedVersions/-", want.Version}}, nil
}

// SchemaIn returns the entry of a version in a CustomResourceDefinition of apiextensions.k8s.io/v1, given as JSON.
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
