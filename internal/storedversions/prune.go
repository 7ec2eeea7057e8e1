// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package storedversions prunes status.storedVersions of a CustomResourceDefinition once it is proven that only the
// storage version is stored.
//
// It owns that write; kube-migrator/internal/retire owns the writes of spec.versions. It never judges the proof: its
// caller has finished a complete sweep within one settled epoch (I2). It never touches spec.
//
// Invariants:
//   - What is written is exactly the storage version: never empty, never without it. The API server checks that much
//     on writes of spec, but whether an old version is still stored it cannot check: all safety is here.
//   - What is written was decided from the object that is overwritten: the resourceVersion of the very object that
//     was judged is the precondition of the write.
package storedversions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
)

// attempts bounds how often the CRD may change between our read and our write before we give up. A conflict
// says that someone else got a write through, so there is nothing to wait for.
const attempts = 5

// ErrChanged says that the CRD is not the one of the proof any more: it is gone, or was created again, or its
// generation or storage version moved. Nothing was pruned, and this proof will never prune anything.
var ErrChanged = errors.New("the CRD has changed since the proof")

// Proof says about which CRD it is proven that every object is stored in StorageVersion. Its UID and
// generation are those of the epoch in which that was proven; all fields are required.
type Proof struct {
	Name           string
	UID            types.UID
	Generation     int64
	StorageVersion string
}

// Result says what storedVersions were and are.
type Result struct {
	Before, After []string
	// Written is false where storedVersions already were the storage version alone, also if another field manager had
	// written that without a proof, so that kube-migrator had to write it again.
	Written bool
}

// String says what was done, for users.
func (r Result) String() string {
	after := "[" + strings.Join(r.After, " ") + "]"
	if !r.Written {
		return "status.storedVersions is " + after
	}
	return "status.storedVersions [" + strings.Join(r.Before, " ") + "] → " + after
}

// Prune reduces status.storedVersions of the proof's CRD to its storage version.
//
// Errors: ErrChanged; otherwise an error of the API server, or of too many conflicts. After any error but ErrChanged
// the write may have happened or not, and Prune may be called again with the same proof: a write that did happen is
// found done. The same holds when the process dies anywhere in here: there is one write, it is complete in itself,
// and it is true as long as the epoch of the proof lasts.
//
// What if the CRD changes in between? Before our read: the read shows it, and decide refuses. Between read
// and write: the precondition fails, and everything is judged again. After the write: a storage version that moves
// now is appended by the API server in the same write that moves it, before any object is written in it.
func Prune(ctx context.Context, client rest.Interface, proof Proof) (Result, error) {
	var conflict error
	for range attempts {
		live, err := crd.Get(ctx, client, proof.Name)
		if apierrors.IsNotFound(err) {
			return Result{}, fmt.Errorf("prune stored versions of %s: %w: it is gone", proof.Name, ErrChanged)
		}
		if err != nil {
			return Result{}, fmt.Errorf("prune stored versions of %s: read CRD: %w", proof.Name, err)
		}
		next, err := decide(live, proof)
		if err != nil {
			return Result{}, fmt.Errorf("prune stored versions of %s: %w", proof.Name, err)
		}
		result := Result{Before: live.Status.StoredVersions, After: live.Status.StoredVersions}
		if next == nil {
			return result, nil
		}
		switch after, err := write(ctx, client, live, next); {
		case err == nil:
			result.After, result.Written = after, !slices.Equal(result.Before, after)
			return result, nil
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			conflict = err // the next read tells what happened
		default:
			return Result{}, fmt.Errorf("prune stored versions of %s: %w", proof.Name, err)
		}
	}
	return Result{}, fmt.Errorf("prune stored versions of %s: it changed %d times in a row: %w",
		proof.Name, attempts, conflict)
}

// decide returns the stored versions to write, nil if they are there already, or why nothing may be written. Pure.
func decide(live *crd.CRD, proof Proof) (next []string, err error) {
	switch storage := live.StorageVersion(); {
	case proof.Name == "" || proof.UID == "" || proof.Generation == 0 || proof.StorageVersion == "":
		return nil, fmt.Errorf("incomplete proof %+v", proof)
	case live.Metadata.UID != proof.UID:
		return nil, fmt.Errorf("%w: its UID is %s, was %s", ErrChanged, live.Metadata.UID, proof.UID)
	case live.Metadata.Generation != proof.Generation:
		return nil, fmt.Errorf("%w: its generation is %d, was %d", ErrChanged,
			live.Metadata.Generation, proof.Generation)
	case storage != proof.StorageVersion:
		return nil, fmt.Errorf("%w: its storage version is %q, was %q", ErrChanged, storage, proof.StorageVersion)
	case slices.Equal(live.Status.StoredVersions, []string{storage}) && live.ClaimedBy() == "":
		return nil, nil
	default:
		return []string{storage}, nil
	}
}

// write replaces the stored versions of the object that was read, and of no other. kube-migrator is a manager of the field
// afterwards, so that others can tell what is proven from what someone else has claimed. A patch that changes nothing makes
// no one a manager, so the same value is applied; otherwise, a second manager that applies would only cost the first one a
// write.
func write(ctx context.Context, client rest.Interface, live *crd.CRD, next []string) ([]string, error) {
	type metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	}
	type status struct {
		StoredVersions []string `json:"storedVersions"`
	}
	if live.Metadata.ResourceVersion == "" {
		return nil, errors.New("write status: the CRD that was read has no resourceVersion")
	}
	patch, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Status     status   `json:"status"`
	}{"apiextensions.k8s.io/v1", "CustomResourceDefinition",
		metadata{live.Metadata.Name, live.Metadata.ResourceVersion}, status{next}})
	if err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	path, err := apipath.Join("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", live.Metadata.Name, "status")
	if err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	var written crd.CRD
	request := client.Patch(types.MergePatchType)
	if slices.Equal(live.Status.StoredVersions, next) {
		request = client.Patch(types.ApplyYAMLPatchType).Param("force", "true")
	}
	request = request.AbsPath(path).Param("fieldManager", crd.Writer).Body(patch)
	if err := apiserver.Send(ctx, request, &written); err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	return written.Status.StoredVersions, nil
}
