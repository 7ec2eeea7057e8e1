// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// migrations are those of the cluster, sorted by resource, so that finding those of one resource does not read all of
// them. Of each it keeps only what the trigger needs to decide, because users control the size of the objects that they
// create (I6).
type migrations []v1alpha1.StorageVersionMigration

// readMigrations reads all migrations past the cache, page by page. They decide what may be trimmed (I2), and a cache
// may hold objects from before etcd was restored.
func readMigrations(ctx context.Context, reader client.Reader) (migrations, error) {
	var all migrations
	intern := map[string]string{}
	err := bounded.EachPage(ctx, func(ctx context.Context, limit int64, token string) (bounded.Page, error) {
		found := new(v1alpha1.StorageVersionMigrationList)
		if err := reader.List(ctx, found, client.Limit(limit), client.Continue(token)); err != nil {
			return bounded.Page{}, err
		}
		page := bounded.Page{Continue: found.Continue}
		for i := range found.Items {
			page.Identities = append(page.Identities, found.Items[i].Name)
			all = append(all, needed(&found.Items[i], intern))
		}
		return page, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.StorageVersionMigration) int {
		return inOrder(a.Spec.Resource.Group, a.Spec.Resource.Resource, b.Spec.Resource.Group, b.Spec.Resource.Resource)
	})
	return all, nil
}

func inOrder(group, resource, otherGroup, otherResource string) int {
	return cmp.Or(strings.Compare(resource, otherResource), strings.Compare(group, otherGroup))
}

// of returns the migrations of a resource, by any of its names.
func (all migrations) of(names []string) migrations {
	var found migrations
	for _, name := range names {
		resource, group, _ := strings.Cut(name, ".")
		from, _ := slices.BinarySearchFunc(all, name, func(m v1alpha1.StorageVersionMigration, _ string) int {
			return inOrder(m.Spec.Resource.Group, m.Spec.Resource.Resource, group, resource)
		})
		to := from
		for to < len(all) && all[to].Spec.Resource.Group == group && all[to].Spec.Resource.Resource == resource {
			to++
		}
		if len(names) == 1 {
			return all[from:to:to]
		}
		found = append(found, all[from:to]...)
	}
	return found
}

// needed returns the part of a migration that the trigger needs. intern contains the API servers of epochs, which most
// migrations share.
func needed(m *v1alpha1.StorageVersionMigration, intern map[string]string) v1alpha1.StorageVersionMigration {
	n := v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			DeletionTimestamp: m.DeletionTimestamp},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource: m.Spec.Resource, GroupVersions: digested(m.Spec.GroupVersions),
			Generation: m.Spec.Generation, IncrementalGeneration: m.Spec.IncrementalGeneration, State: m.Spec.State,
			Priority: m.Spec.Priority, Pace: m.Spec.Pace,
		},
		Status: v1alpha1.StorageVersionMigrationStatus{
			State: m.Status.State, CompletedGeneration: m.Status.CompletedGeneration, Run: m.Status.Run,
			StorageVersionHash: m.Status.StorageVersionHash, ResourceVersion: m.Status.ResourceVersion,
			Progress: v1alpha1.Progress{WouldLoseFields: m.Status.Progress.WouldLoseFields},
		},
	}
	if m.Labels[managedByLabel] == program {
		n.Labels = map[string]string{managedByLabel: program}
	}
	if state, held := m.Annotations[v1alpha1.StateBeforeRollback]; held {
		n.Annotations = map[string]string{v1alpha1.StateBeforeRollback: state}
	}
	if m.Status.Epoch != nil {
		epoch := *m.Status.Epoch
		epoch.Servers = nil
		for _, server := range m.Status.Epoch.Servers {
			same, known := intern[server]
			if !known {
				same, intern[server] = server, server
			}
			epoch.Servers = append(epoch.Servers, same)
		}
		n.Status.Epoch = &epoch
	}
	return n
}

// digested returns group versions, or their digest if they are long. They are only compared.
func digested(all []v1alpha1.GroupVersion) []v1alpha1.GroupVersion {
	const long = 512
	bytes := 0
	for _, gv := range all {
		bytes += len(gv.Group) + len(gv.Version)
	}
	if bytes <= long {
		return all
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", all))
	return []v1alpha1.GroupVersion{{Group: "sha256", Version: hex.EncodeToString(sum[:])}}
}
