// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// assignment is what the StorageVersionMigration requests of the run at one moment.
type assignment struct {
	resource v1alpha1.GroupVersionResource
	pace     v1alpha1.Pace
	paused   bool
	// accepted are the fields that may be lost.
	accepted []string
}

// name returns the name of the resource.
func (a assignment) name() schema.GroupResource {
	return schema.GroupResource{Group: a.resource.Group, Resource: a.resource.Resource}
}

const (
	requestTimeout = 5 * time.Second
	// unserved is how long the API group may be unavailable before its objects count as deleted: an API server that has
	// just started may not serve it yet.
	unserved = 10 * time.Second
)

// assignment reads the StorageVersionMigration. ErrOutdated means that it no longer requests this run. Any other error
// means that it could not be read, which proves nothing.
func (r *run) assignment(ctx context.Context) (assignment, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	path, err := apipath.Object(v1alpha1.SchemeGroupVersion.WithResource("storageversionmigrations"), "", r.Migration)
	if err != nil {
		return assignment{}, err
	}
	m := new(v1alpha1.StorageVersionMigration)
	err = apiserver.Send(ctx, r.Process.client.Get().AbsPath(path).MaxRetries(0), m)
	switch {
	case apierrors.IsNotFound(err):
		return assignment{}, r.notFound(err)
	case err != nil:
		return assignment{}, fmt.Errorf("read StorageVersionMigration %s: %w", r.Migration, err)
	}
	r.servedAgain()
	switch {
	case m.UID != r.UID:
		return assignment{}, fmt.Errorf("%w: the StorageVersionMigration %s was deleted and created again",
			ErrOutdated, r.Migration)
	case m.DeletionTimestamp != nil:
		return assignment{}, fmt.Errorf("%w: the StorageVersionMigration %s is being deleted", ErrOutdated, r.Migration)
	case m.Spec.Generation != r.Generation:
		return assignment{}, fmt.Errorf("%w: generation %d of %s is requested, not %d", ErrOutdated, m.Spec.Generation,
			r.Migration, r.Generation)
	}
	if m.Spec.State == v1alpha1.StateCancelled {
		return assignment{}, fmt.Errorf("%w: the StorageVersionMigration %s is cancelled", ErrOutdated, r.Migration)
	}
	return assignment{resource: m.Spec.Resource, pace: m.Spec.Pace, paused: m.Spec.State == v1alpha1.StatePaused,
		accepted: m.Spec.AcceptFieldLoss}, nil
}

// notFound distinguishes a deleted StorageVersionMigration from an API group that is not served, or not yet.
func (r *run) notFound(err error) error {
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && !apierrors.IsUnexpectedServerError(err) {
		if d := status.Status().Details; d != nil && d.Name == r.Migration {
			return fmt.Errorf("%w: the StorageVersionMigration %s is gone", ErrOutdated, r.Migration)
		}
	}
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	if r.missing.IsZero() {
		r.missing = time.Now()
	}
	if time.Since(r.missing) > unserved {
		return fmt.Errorf("%w: StorageVersionMigrations are no longer served", ErrOutdated)
	}
	return fmt.Errorf("read StorageVersionMigration %s: %w", r.Migration, err)
}

func (r *run) servedAgain() {
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	r.missing = time.Time{}
}

// whileIdle waits for d, and as long as the run is paused, and returns the assignment after that.
func (r *run) whileIdle(ctx context.Context, d time.Duration) (assignment, error) {
	until := time.Now().Add(d)
	var paused bool
	for {
		a, err := r.assignment(ctx)
		switch {
		case errors.Is(err, ErrOutdated):
			return assignment{}, err
		case err != nil: // wait until it can be read
		case a.paused && !paused:
			paused = true
			r.log.Info("Paused")
		case !a.paused && !time.Now().Before(until):
			return a, nil
		}
		if err := sleep(ctx, r.Stop, r.waits.look); err != nil {
			return assignment{}, err
		}
	}
}

// options returns the options of the sweep. The first attempt gives its turn away if the epoch has to settle for long.
// Later attempts wait: sometimes the start of an epoch is known only to those who watch it, so every new attempt would
// wait from the beginning.
func (r *run) options(a assignment) migrate.Options {
	patience := r.waits.settle
	if r.Attempt > 1 {
		patience = 0
	}
	settings := r.Process.settings
	o := migrate.Options{
		SettlePatience:      patience,
		MaxObjectsPerSecond: float64(a.pace.MaxObjectsPerSecond), MaxInFlight: int(a.pace.MaxInFlight),
		MaxBytesPerSecond: a.pace.MaxBytesPerSecond,
		SettleTime:        settings.SettleTime, MinEvidence: settings.MinEvidence,
		Resume: true, Checkpoints: r.record, Logger: r.log, AcceptFieldLoss: a.accepted,
	}
	o.Bounds = r.Process.boundsOf(a.pace, o)
	return o
}
