// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// comparison is the result of comparing the epoch at the end. The set is closed.
type comparison int

const (
	comparisonFailed comparison = iota // ask again
	epochLasts                         // the epoch of the run is the present one, and what it proves is done
	epochOver                          // the epoch has ended: the run proves nothing
)

// judge compares the epoch of a proven run with the present one, and acts on the result (I2).
type judge struct {
	client      rest.Interface
	servers     *agreement.Observer
	minEvidence migrate.Evidence
	keep        bool // storedVersions are not changed

	mu    sync.Mutex
	taken time.Time
	all   *inventory.Inventory
}

// inventoryAge is how old an inventory may be for finding a resource in it. Versions from it are checked where they are
// used.
const inventoryAge = 30 * time.Second

// conclude compares the epochs, and prunes the CRD's storedVersions. It prunes before the status reports success: a
// controller that dies in between prunes again and finds it done. In the reverse order it would never prune.
func (j *judge) conclude(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run) (comparison, string, error) {
	resource, err := j.find(ctx, m)
	if gone := (*inventory.NotFoundError)(nil); errors.As(err, &gone) && len(gone.Failures) == 0 {
		return epochOver, err.Error(), nil
	}
	if err != nil {
		return comparisonFailed, "", err
	}
	epoch, err := j.servers.For(resource.Target()).Epoch(ctx)
	result, why, err := weigh(r.report, resource, epoch, err, j.minEvidence)
	if result == epochOver {
		j.forget()
	}
	if result != epochLasts || resource.CRD == nil || j.keep {
		return result, why, err
	}
	_, err = storedversions.Prune(ctx, j.client, storedversions.Proof{
		Name: resource.CRD.Name, UID: r.report.Epoch.CRDUID, Generation: r.report.Epoch.CRDGeneration,
		StorageVersion: resource.CRD.StorageVersion,
	})
	switch {
	case errors.Is(err, storedversions.ErrChanged):
		j.forget()
		return epochOver, err.Error(), nil
	case err != nil:
		return comparisonFailed, "", err
	}
	return epochLasts, "", nil
}

// weigh decides what a look at the epoch means for a run that its worker reports as proven. The evidence of the run
// counts as well as that of the look, because one look at the end says nothing about the time of the run. least is what
// the run has to have. It is pure (I2).
func weigh(report *worker.Report, resource inventory.Resource, now migrate.Epoch, look error,
	least migrate.Evidence) (comparison, string, error) {
	switch {
	case errors.Is(look, migrate.ErrDisagreement), errors.Is(look, agreement.ErrNotServed):
		return epochOver, look.Error(), nil
	case look != nil:
		return comparisonFailed, "", fmt.Errorf("compare the epoch: %w", look)
	case !report.Epoch.Same(now):
		return epochOver, "the API servers or the CustomResourceDefinition changed before the result was confirmed", nil
	case report.Epoch.Evidence < least:
		return epochOver, fmt.Sprintf("its evidence is %v, but %v is required", report.Epoch.Evidence, least), nil
	case now.Evidence < least.AtOnce():
		return comparisonFailed, "", fmt.Errorf("compare the epoch: the evidence is %v, but %v is required",
			now.Evidence, least.AtOnce())
	case resource.CRD == nil && report.Epoch.CRDUID != "":
		return comparisonFailed, "", fmt.Errorf("find the CustomResourceDefinition of %s: the inventory does not list it",
			resource.GroupResource)
	}
	return epochLasts, "", nil
}

// find returns the resource of a migration. It does not rely on an inventory without CRDs or APIServices, in which the
// resource would look built-in, so that its storedVersions would never be pruned.
func (j *judge) find(ctx context.Context, m *v1alpha1.StorageVersionMigration) (inventory.Resource, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String()
	if j.all != nil && time.Since(j.taken) < inventoryAge {
		if r, err := j.all.Find(name); err == nil {
			return r, nil
		}
	}
	all, err := inventory.Take(ctx, j.client)
	if err != nil {
		return inventory.Resource{}, err
	}
	if err := all.OriginsKnown(); err != nil {
		return inventory.Resource{}, err
	}
	j.all, j.taken = all, time.Now()
	return all.Find(name)
}

func (j *judge) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = nil
}
