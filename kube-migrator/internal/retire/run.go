// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Run is one execution of a plan. Use it once.
type Run struct {
	Client rest.Interface
	Intent Intent
	// CRD is the CRD for which the plan was made.
	CRD *crd.CRD
	// Schema is the entry of spec.versions whose schema a restored version gets; nil stands for a schema that keeps
	// every field.
	Schema map[string]any
	Limits pace.Limits
	// Resources are those in which dependents are looked for.
	Resources []Resource
	// Migrate rewrites every object, and returns the epoch in which it has proven that all are stored in the storage
	// version.
	Migrate func(ctx context.Context) (migrate.Epoch, error)
	// Settle returns when every API server has known a generation of the CRD for so long that all requests that started
	// before have ended.
	Settle func(ctx context.Context, generation int64) error
	// Stopped returns an error if no further request may be started.
	Stopped func() error
	// Report receives each step that is done.
	Report func(Step)

	pacer *pace.Pacer
	epoch migrate.Epoch // of the proof
}

// Do carries out the plan, and returns the steps with their new states. After an error, the steps that were done stay
// done, and the same command continues from there.
func (r *Run) Do(ctx context.Context, plan Plan) ([]Step, error) {
	r.pacer = pace.New(r.Limits)
	steps := slices.Clone(plan.Steps)
	if plan.finished() {
		return steps, nil
	}
	for i := range steps {
		if err := r.Stopped(); err != nil {
			return steps, err
		}
		what, err := r.step(ctx, steps[i])
		if err != nil {
			return steps, err
		}
		if what == "" {
			continue
		}
		steps[i].State, steps[i].What = Done, what
		r.Report(steps[i])
	}
	return steps, r.lookAgain(ctx, steps)
}

// step carries out one step and returns what was done, or "" if the user did not ask for the step. It always migrates,
// because what an earlier run left is no proof.
func (r *Run) step(ctx context.Context, s Step) (what string, err error) {
	if s.State == NotAsked {
		return "", nil
	}
	switch s.Name {
	case Restore:
		return r.restore(ctx)
	case Migrate:
		if r.epoch, err = r.Migrate(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("every object is stored as %s, with evidence %s",
			r.CRD.StorageVersion(), r.epoch.Evidence), nil
	case Prune:
		return r.prune(ctx)
	case Owned:
		return r.moveOwners(ctx)
	case Pointing:
		return r.dependents(ctx, s)
	case Unserve:
		return r.unserve(ctx)
	case Remove:
		return r.remove(ctx)
	}
	return "", fmt.Errorf("unknown step %q", s.Name)
}

// restore adds the version again, records in status.storedVersions that objects may be stored in it, and waits until
// they can be read.
func (r *Run) restore(ctx context.Context) (string, error) {
	if err := write(ctx, r.Client, r.CRD, "", r.Intent.restore(r.Schema)); err != nil {
		return "", err
	}
	if err := write(ctx, r.Client, r.CRD, "status", r.Intent.claim); err != nil {
		return "", err
	}
	deadline := time.Now().Add(transient)
	for {
		_, err := r.objects().Look(ctx, r.Intent.Version)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrUnreadable) || time.Now().After(deadline) {
			return "", err
		}
		if err := pace.Sleep(ctx, time.Second); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s is in spec.versions, unserved, and every object can be read", r.Intent.Version), nil
}

func (r *Run) prune(ctx context.Context) (string, error) {
	result, err := storedversions.Prune(ctx, r.Client, storedversions.Proof{
		Name: r.CRD.Metadata.Name, UID: r.epoch.CRDUID, Generation: r.epoch.CRDGeneration,
		StorageVersion: r.CRD.StorageVersion(),
	})
	if err != nil {
		return "", err
	}
	return result.String(), nil
}

// MoveOwners carries out only the step Owned and returns what was done. The caller has proven that nothing is stored in
// the version, and that no request that writes it is in flight.
func (r *Run) MoveOwners(ctx context.Context) (string, error) {
	r.pacer = pace.New(r.Limits)
	return r.moveOwners(ctx)
}

// moveOwners moves managedFields entries until a pass finds none to move. As long as the version is served, its clients
// may add new entries indefinitely. Then a few passes are enough: a later pass, after the version is unserved, moves
// the rest.
func (r *Run) moveOwners(ctx context.Context) (string, error) {
	const passes = 3
	var all int64
	for pass := 1; ; pass++ {
		moved, err := r.moveOnce(ctx)
		if err != nil {
			return "", err
		}
		all += moved
		switch {
		case moved == 0 && all == 0:
			return "no managedFields entry names " + r.Intent.Version, nil
		case moved == 0:
			return fmt.Sprintf("the entries of %s were moved to %s, with their owners", phrase.Objects(all),
				moveTo(r.CRD, r.Intent.Version)), nil
		case pass < passes:
		case r.CRD.Served(r.Intent.Version):
			return fmt.Sprintf("the entries of %s were moved to %s; clients still write %s", phrase.Objects(all),
				moveTo(r.CRD, r.Intent.Version), r.Intent.Version), nil
		default:
			return "", fmt.Errorf("%w: after %d passes objects still get entries that name %s", ErrNotMoved,
				pass, r.Intent.Version)
		}
	}
}

func (r *Run) moveOnce(ctx context.Context) (int64, error) {
	from, to := apiVersions(r.CRD, r.Intent.Version)
	keeps := r.keeper(r.objects().collection().resource)
	return r.mover(keeps, func() change {
		return func(live *metav1.ObjectMeta) (map[string]any, error) {
			entries, changed, err := Moved(keeps.owned(live.ManagedFields, from), from, to)
			if err != nil || !changed {
				return nil, err
			}
			return map[string]any{"managedFields": entries}, nil
		}
	}).run(ctx)
}

func (r *Run) keeper(of schema.GroupVersionResource) *keeper {
	return &keeper{client: r.Client, resource: of, accepted: r.Intent.AcceptFieldLoss}
}

func (r *Run) mover(keeps *keeper, f func() change) *mover {
	inFlight := r.Limits.InFlight
	if inFlight <= 0 {
		inFlight = pace.DefaultInFlight
	}
	return &mover{objects: collection{r.Client, keeps.resource, keeps}, change: f, pacer: r.pacer, inFlight: inFlight, stopped: r.Stopped}
}

func (r *Run) objects() Objects {
	return Objects{Client: r.Client, CRD: r.CRD, Endpoint: Endpoint(r.CRD, r.Intent.Version)}
}

// unserve sets served: false, waits until all requests that started before have ended, and moves the entries that they
// have written.
func (r *Run) unserve(ctx context.Context) (string, error) {
	was := r.CRD.Served(r.Intent.Version)
	if err := r.independent(ctx); err != nil {
		return "", err
	}
	if err := write(ctx, r.Client, r.CRD, "", r.Intent.unserve); err != nil {
		return "", err
	}
	if was {
		if err := r.moveLate(ctx); err != nil {
			return "", err
		}
	}
	return r.Intent.Version + " is not served", nil
}

// moveLate moves the entries of requests that were still in flight when the version stopped being served.
func (r *Run) moveLate(ctx context.Context) error {
	live, err := read(ctx, r.Client, r.CRD.Metadata.Name)
	if err != nil {
		return fmt.Errorf("read CRD %s: %w", r.CRD.Metadata.Name, err)
	}
	if live.Metadata.UID != r.CRD.Metadata.UID || live.Served(r.Intent.Version) {
		return changed(live, "it serves "+r.Intent.Version+" again")
	}
	r.CRD = live
	if err := r.Settle(ctx, live.Metadata.Generation); err != nil {
		return err
	}
	if _, err = r.moveOwners(ctx); err != nil || !r.Intent.FixOwners {
		return err
	}
	_, err = r.fixOwners(ctx)
	return err
}

// remove removes the version from the CRD, after a last look for entries that name it.
func (r *Run) remove(ctx context.Context) (string, error) {
	live, err := read(ctx, r.Client, r.CRD.Metadata.Name)
	if err != nil {
		return "", fmt.Errorf("read CRD %s: %w", r.CRD.Metadata.Name, err)
	}
	if has(live, r.Intent.Version) {
		if err := r.moveLate(ctx); err != nil {
			return "", err
		}
	}
	if err := write(ctx, r.Client, r.CRD, "", r.Intent.remove(r.CRD.Metadata.Generation)); err != nil {
		return "", err
	}
	return r.Intent.Version + " is not in spec.versions any more", nil
}
