// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

const (
	crdsPath   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	statesPath = "/apis/migration.k8s.io/v1alpha1/storagestates"
	// served bounds how long the API server may answer 404 for a version that the CRD serves.
	served = time.Minute
)

// FindDependents looks for objects whose ownerReferences name a version of a CRD. If it is nil, no one looks.
type FindDependents func(ctx context.Context, live *CRD, version string) (retire.Dependents, error)

// Gather reads everything on which the plan for a CRD depends. It writes nothing.
func Gather(ctx context.Context, client rest.Interface, next *CRD, find FindDependents) (f Facts, err error) {
	if !next.isFit() {
		return f, nil
	}
	if f.Live, err = live(ctx, client, next.Name()); err != nil || f.Live == nil {
		return f, err
	}
	for _, version := range unserved(next, f.Live) {
		if find == nil {
			break
		}
		if f.Dependents == nil {
			f.Dependents = map[string]retire.Dependents{}
		}
		if f.Dependents[version], err = find(ctx, f.Live, version); err != nil {
			return f, err
		}
	}
	if err := f.recorded(ctx, client, next); err != nil {
		return f, err
	}
	j := judgeOf(next, f)
	if len(Removed(next, f.Live)) == 0 && len(j.Possible()) == 0 && !losesWebhook(next, f) {
		return f, nil // the plan does not depend on the objects
	}
	err = f.look(ctx, client, j)
	if errors.Is(err, retire.ErrUnreadable) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		f.Unreadable, err = err.Error(), nil
	}
	return f, err
}

// live returns the CRD in the cluster, or nil if there is none.
func live(ctx context.Context, client rest.Interface, name string) (*CRD, error) {
	path, err := apipath.Join(crdsPath, name)
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	var raw json.RawMessage
	err = apiserver.Send(ctx, client.Get().AbsPath(path), &raw)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no CRD and no error
	}
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	return Parse("", raw)
}

// recorded reads the StorageState. If the cluster does not serve the API, or the user is forbidden to read it, the plan
// depends on status.storedVersions alone, which are a claim if another one has written them.
func (f *Facts) recorded(ctx context.Context, client rest.Interface, next *CRD) error {
	path, err := apipath.Join(statesPath, next.Resource().String())
	if err != nil {
		return fmt.Errorf("read StorageState: %w", err)
	}
	var state v1alpha1.StorageState
	err = apiserver.Send(ctx, client.Get().AbsPath(path), &state)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		f.Unknown = f.Live.ClaimedBy() != ""
		return nil
	}
	if err != nil {
		return fmt.Errorf("read StorageState %s: %w", next.Resource(), err)
	}
	f.Unknown = f.Live.ClaimedBy() != "" && !follows(&state.Status, f.Live)
	for _, hash := range state.Status.PersistedStorageVersionHashes {
		f.Unknown = f.Unknown || hash == v1alpha1.Unknown
		for _, version := range f.Live.VersionNames() {
			gvk := schema.GroupVersionKind{Group: f.Live.Spec.Group, Version: version, Kind: f.Live.Spec.Names.Kind}
			if storageversion.Hash(gvk) == hash {
				f.Recorded = append(f.Recorded, version)
			}
		}
	}
	return nil
}

// follows reports whether a StorageState records the CRD as it is: then it knows every version that objects were stored in,
// because another storage version would be another generation.
func follows(s *v1alpha1.StorageStateStatus, live *CRD) bool {
	return len(s.PersistedStorageVersionHashes) > 0 && s.Definition != nil && s.Definition.UID == string(live.Metadata.UID) &&
		s.Definition.Generation == live.Metadata.Generation
}

// look reads the metadata of all objects. It repeats a 404, because the API server may not serve the versions of a CRD
// yet that was just changed.
func (f *Facts) look(ctx context.Context, client rest.Interface, j *judge) error {
	objects := retire.Objects{Client: client, CRD: &f.Live.CRD, Endpoint: f.Live.Endpoint()}
	if objects.Endpoint == "" {
		f.Unreadable = "the cluster's CRD serves no version"
		return nil
	}
	deadline := time.Now().Add(served)
	for {
		f.Found = Found{Naming: map[string]int64{}}
		err := objects.Each(ctx, func(items []metav1.PartialObjectMetadata) error {
			for i := range items {
				f.Found.add(j, &items[i].ObjectMeta)
			}
			return nil
		})
		if !apierrors.IsNotFound(err) || time.Now().After(deadline) {
			return err
		}
		if err := pace.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
