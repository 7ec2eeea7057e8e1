// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// mostGroupVersions is how many group versions a StorageVersionMigration lists.
const mostGroupVersions = 64

// GroupVersions returns spec.groupVersions of a migration of r: where r is served, the preferred version of its own
// group first, then the other groups that serve the same stored objects.
func GroupVersions(r inventory.Resource) []v1alpha1.GroupVersion {
	var all []v1alpha1.GroupVersion
	for _, v := range r.Versions {
		all = append(all, v1alpha1.GroupVersion{Group: r.Group, Version: v.Name})
	}
	for _, alias := range r.Aliases {
		if gv := (v1alpha1.GroupVersion{Group: alias.Group, Version: alias.Version}); !slices.Contains(all, gv) {
			all = append(all, gv)
		}
	}
	return all[:min(len(all), mostGroupVersions)]
}

// refresh writes spec.groupVersions of every migration whose resource is served elsewhere than the field says, no
// matter who created the migration. If another field manager owns the field, refresh leaves it alone.
func (t *trigger) refresh(ctx context.Context, s *observation) (problems []error) {
	for _, r := range t.observer.known.Resources {
		want, own := GroupVersions(r), s.migrations.of(r.Names())
		for i := range own {
			m := &own[i]
			if len(want) == 0 || m.DeletionTimestamp != nil || slices.Equal(m.Spec.GroupVersions, digested(want)) {
				continue
			}
			err := t.applyGroupVersions(ctx, m, want)
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				problems = append(problems, fmt.Errorf("write groupVersions of migration %s: %w", m.Name, err))
			}
		}
	}
	return problems
}

// applyGroupVersions applies only this field, so that the API server detects other owners of it. The UID keeps the
// request from creating a migration that was deleted.
func (t *trigger) applyGroupVersions(ctx context.Context, m *v1alpha1.StorageVersionMigration,
	want []v1alpha1.GroupVersion) error {
	patch, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": m.Name, "uid": m.UID}, "spec": map[string]any{"groupVersions": want},
	})
	if err != nil {
		return err
	}
	options := []client.PatchOption{client.FieldOwner(program)}
	if m.Labels[managedByLabel] == program {
		options = append(options, client.ForceOwnership) // it was created with the field
	}
	return t.client.Patch(ctx, m.DeepCopy(), client.RawPatch(types.ApplyPatchType, patch), options...)
}
