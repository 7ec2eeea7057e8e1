// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// dependents moves ownerReferences if the user asks for that. Otherwise the step is what the plan has found; unserve looks
// again.
func (r *Run) dependents(ctx context.Context, s Step) (string, error) {
	if !r.Intent.FixOwners {
		return s.What, nil
	}
	return r.fixOwners(ctx)
}

// fixOwners moves ownerReferences until a look finds none that names the version. As long as the version is served, its
// clients may add new ones indefinitely. Then a few passes are enough: a later pass, after the version is unserved, moves
// the rest.
func (r *Run) fixOwners(ctx context.Context) (string, error) {
	const passes = 3
	var all int64
	for pass := 0; ; pass++ {
		found, err := r.find(ctx)
		if err != nil {
			return "", err
		}
		f := Facts{CRD: r.CRD, Dependents: found}
		if refused := r.Intent.ownersRead(f); refused != nil {
			return "", refused
		}
		moved := fmt.Sprintf("the ownerReferences of %s were moved to %s", phrase.Objects(all),
			moveTo(r.CRD, r.Intent.Version))
		switch {
		case found.Objects == 0 && all == 0:
			return Intent{Version: r.Intent.Version}.pointingStep(f).What, nil
		case found.Objects == 0 && len(found.Unread) > 0:
			return moved + "; resources that could not be listed: " + found.UnreadNames(), nil
		case found.Objects == 0:
			return moved, nil
		case pass < passes:
		case r.CRD.Served(r.Intent.Version):
			return moved + "; clients still write some that name " + r.Intent.Version, nil
		default:
			return "", fmt.Errorf("%w: after %d passes objects still get ownerReferences that name %s: %s",
				ErrNotMoved, pass, r.Intent.Version, found)
		}
		for _, in := range found.Resources {
			n, err := r.dependentMover(in.At).run(ctx)
			if all += n; err != nil {
				return "", fmt.Errorf("move ownerReferences of %s: %w", in.Resource, err)
			}
		}
	}
}

func (r *Run) find(ctx context.Context) (Dependents, error) {
	return r.Intent.FindDependents(ctx, r.Client, r.CRD, r.Resources, r.Stopped)
}

// findAll is find, and refuses if a resource could not be read.
func (r *Run) findAll(ctx context.Context) (f Facts, err error) {
	f.CRD = r.CRD
	if f.Dependents, err = r.find(ctx); err != nil {
		return f, err
	}
	if refused := r.Intent.ownersRead(f); refused != nil {
		return f, refused
	}
	return f, nil
}

// independent refuses to unserve the version if objects have become its dependents since the plan was made.
func (r *Run) independent(ctx context.Context) error {
	if r.Intent.FixOwners || r.Intent.LeaveOwners || !r.Intent.unserves(r.CRD) {
		return nil
	}
	f, err := r.findAll(ctx)
	if err != nil {
		return err
	}
	if refused := r.Intent.independent(f); refused != nil {
		return refused
	}
	return nil
}

// lookAgain looks for dependents once more after the version was removed: clients may have added some since the last look,
// and the report must not say that there are none.
func (r *Run) lookAgain(ctx context.Context, steps []Step) error {
	done := func(name StepName) int {
		return slices.IndexFunc(steps, func(s Step) bool { return s.Name == name && s.State == Done })
	}
	pointing := done(Pointing)
	if pointing < 0 || done(Remove) < 0 {
		return nil
	}
	f, err := r.findAll(ctx)
	if err != nil {
		return err
	}
	if f.Dependents.Objects == 0 {
		return nil
	}
	steps[pointing] = r.Intent.pointingStep(f)
	if r.Intent.LeaveOwners {
		return nil
	}
	return refusal.New(HasDependents, r.Intent.command(r.CRD, r.Intent.Version, "--fix-owners"),
		"%s was removed, and clients have added ownerReferences that name it since: those of %s are left: %s; the garbage "+
			"collector leaves these objects behind when their owner is deleted", r.Intent.Version,
		phrase.Objects(f.Dependents.Objects), f.Dependents)
}

// dependentMover moves the ownerReferences of the objects of a resource.
func (r *Run) dependentMover(of Resource) *mover {
	from, to := apiVersions(r.CRD, r.Intent.Version)
	return r.mover(r.keeper(of.GroupVersionResource), func() change {
		var before []metav1.ManagedFieldsEntry // of the object from which a write was decided
		return func(live *metav1.ObjectMeta) (map[string]any, error) {
			if pointed, changed := Pointed(live.OwnerReferences, r.CRD.Spec.Names.Kind, from, to); changed {
				before = live.ManagedFields
				return map[string]any{"ownerReferences": pointed}, nil
			}
			entries, changed, err := Returned(before, live.ManagedFields)
			if err != nil || !changed {
				return nil, err
			}
			return map[string]any{"managedFields": entries}, nil
		}
	})
}
