// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// attempts bounds how often a CRD may change between a read and a write.
	attempts = 10
	// settling bounds how long the API server may take to accept the names of a new CRD.
	settling = 10 * time.Second
)

// Run upgrades CRDs.
type Run struct {
	Applier Applier
	Intent  Intent
	Limits  pace.Limits
	// FindDependents looks for objects that need a version to be served; nil if no one cares.
	FindDependents FindDependents
	// Migrate rewrites every object of a CRD, and returns the epoch in which it has proven that all are stored in the
	// storage version. acceptFieldLoss is migrate.Options.AcceptFieldLoss.
	Migrate func(ctx context.Context, live *CRD, acceptFieldLoss []string) (migrate.Epoch, error)
	// Stopped returns an error if no further step may be started.
	Stopped func() error
	// Report receives each step that is done.
	Report func(name string, s Step)
}

// Upgrade is the upgrade of one CRD.
type Upgrade struct {
	// Next is the CRD in the file.
	Next *CRD
	// Planned is the plan before the first step. Done are the steps that were carried out.
	Planned Plan
	Done    []Step
	// Finished means that the CRD in the file was applied. Err is a *refusal.Error, or another error that ended the
	// upgrade.
	Finished bool
	Err      error

	proof *migrate.Epoch
}

// Plan computes the plans, and checks that the user has the permissions for them. It returns only the error of the
// context; other errors are in Upgrade.Err.
func (r *Run) Plan(ctx context.Context, all []*Upgrade) error {
	for _, u := range all {
		_, plan, err := r.plan(ctx, u)
		if err == nil && len(plan.Steps) > 0 {
			err = access.Ask(ctx, r.Applier.Client, plan.permissions(u.Next))
		}
		u.Planned = plan
		if err != nil {
			u.Err = err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Check sends the first write of a plan as a server-side dry run, so that the API server checks it and stores nothing.
func (r *Run) Check(ctx context.Context, u *Upgrade) {
	facts, plan, err := r.plan(ctx, u)
	if err != nil || len(plan.Steps) == 0 {
		return
	}
	checker := *r
	checker.Applier.DryRun = true
	switch plan.Steps[0].Name {
	case Create, Apply, Intermediate:
		if _, err := checker.write(ctx, u, facts, plan); !errors.Is(err, errAdoptable) {
			u.Err = err
		}
	case Migrate, Prune, Owned, Unhook:
	}
}

// Do carries out the plans. It first takes the steps before the migration for every CRD, so that all of them settle at
// the same time.
func (r *Run) Do(ctx context.Context, all []*Upgrade) {
	for _, until := range []StepName{Migrate, ""} {
		for _, u := range all {
			if u.Err == nil && !u.Finished {
				u.Err = r.advance(ctx, u, until)
			}
		}
	}
}

// advance carries out the steps before the step until. It plans again before each step.
func (r *Run) advance(ctx context.Context, u *Upgrade, until StepName) error {
	for failed := 0; !u.Finished; {
		if err := r.Stopped(); err != nil {
			return err
		}
		facts, plan, err := r.plan(ctx, u)
		if err != nil {
			return err
		}
		step := plan.Steps[0]
		if step.Name == until {
			return nil
		}
		if u.times(step.Name) >= attempts {
			return fmt.Errorf("%s: done %d times, and needed again: someone else writes the CRD", step.Name, attempts)
		}
		what, err := r.step(ctx, u, facts, plan)
		switch {
		case (apierrors.IsConflict(err) || errors.Is(err, storedversions.ErrChanged)) && failed < attempts:
			failed++ // another client has written the CRD: the next plan takes that into account
			continue
		case errors.As(err, new(*refusal.Error)):
			return err
		case err != nil:
			return fmt.Errorf("%s: %w", step.Name, err)
		}
		u.Done = append(u.Done, Step{step.Name, what})
		r.Report(u.Next.Name(), u.Done[len(u.Done)-1])
	}
	return nil
}

// times returns how often a step was carried out.
func (u *Upgrade) times(name StepName) (n int) {
	for _, s := range u.Done {
		if s.Name == name {
			n++
		}
	}
	return n
}

// plan gathers the facts and decides. If the plan has a Refusal, that is the error.
func (r *Run) plan(ctx context.Context, u *Upgrade) (Facts, Plan, error) {
	facts, err := Gather(ctx, r.Applier.Client, u.Next, r.FindDependents)
	if err != nil {
		return facts, Plan{}, err
	}
	if facts.Live != nil && u.proof != nil {
		m := facts.Live.Metadata
		facts.Proven = u.proof.CRDUID == m.UID && u.proof.CRDGeneration == m.Generation &&
			facts.Live.StorageVersion() == u.Next.StorageVersion()
	}
	plan := r.Intent.Decide(u.Next, facts)
	if plan.Refusal != nil {
		return facts, plan, plan.Refusal
	}
	return facts, plan, nil
}

// step carries out the first step of a plan, and returns what was done.
func (r *Run) step(ctx context.Context, u *Upgrade, f Facts, p Plan) (string, error) {
	switch p.Steps[0].Name {
	case Create, Apply, Intermediate:
		return r.write(ctx, u, f, p)
	case Migrate:
		epoch, err := r.Migrate(ctx, f.Live, r.Intent.accepted(f.Live))
		if err != nil {
			return "", err
		}
		u.proof = &epoch
		return fmt.Sprintf("every object is stored as %s, with evidence %s",
			f.Live.StorageVersion(), epoch.Evidence), nil
	case Prune:
		result, err := storedversions.Prune(ctx, r.Applier.Client, storedversions.Proof{
			Name: f.Live.Name(), UID: u.proof.CRDUID, Generation: u.proof.CRDGeneration,
			StorageVersion: f.Live.StorageVersion(),
		})
		if err != nil {
			return "", err
		}
		return result.String(), nil
	case Owned:
		return r.moveOwners(ctx, f, p)
	case Unhook:
		return "the conversion webhook is removed", r.Applier.removeWebhook(ctx, f.Live)
	}
	return "", fmt.Errorf("unknown step %q", p.Steps[0].Name)
}

// moveOwners moves the managedFields entries that name the first dropped version that has any.
func (r *Run) moveOwners(ctx context.Context, f Facts, p Plan) (string, error) {
	named := slices.IndexFunc(p.Keep, func(v string) bool { return f.Found.Naming[v] > 0 })
	run := retire.Run{
		Client: r.Applier.Client,
		Intent: retire.Intent{Program: r.Intent.Program, Version: p.Keep[named], AcceptFieldLoss: r.Intent.accepted(f.Live)},
		CRD:    &f.Live.CRD, Limits: r.Limits, Stopped: r.Stopped,
	}
	return run.MoveOwners(ctx)
}

// accepted returns migrate.Options.AcceptFieldLoss for the objects of a CRD.
func (want Intent) accepted(live *CRD) []string {
	if slices.Contains(want.AcceptFieldLoss, live.Name()) {
		return []string{"*"}
	}
	return nil
}

// write applies the CRD of the first step of a plan.
func (r *Run) write(ctx context.Context, u *Upgrade, f Facts, p Plan) (string, error) {
	object := u.Next.object
	if p.Steps[0].Name == Intermediate {
		object = between(u.Next, f.Live, p.Keep)
	}
	applied, err := r.Applier.apply(ctx, object, f.Live, r.Intent.Again)
	if err != nil || r.Applier.DryRun {
		return "", err
	}
	u.Finished = p.Steps[0].Name != Intermediate
	what := strings.Replace(p.Steps[0].What, "apply it", "applied", 1)
	switch {
	case f.Live == nil:
		return "created with " + list(u.Next.VersionNames()), r.accepted(ctx, applied)
	case f.Live.Metadata.Generation == applied.Metadata.Generation:
		what = "applied, and its spec is unchanged"
	}
	return what, nil
}

// accepted waits until the API server serves a new CRD, or has refused its names.
func (r *Run) accepted(ctx context.Context, d *crd.CRD) error {
	deadline := time.Now().Add(settling)
	for {
		ok, why := d.Established()
		switch {
		case ok:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("it was created, and is not established: %s", why)
		}
		if err := pace.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		live, err := crd.Get(ctx, r.Applier.Client, d.Metadata.Name)
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", d.Metadata.Name, err)
		}
		d = live
	}
}

// permissions returns the permissions that the user needs for the plan. They are checked before the first step.
func (p Plan) permissions(next *CRD) (needed []access.Permission) {
	crds := access.Permission{Resource: schema.GroupResource{Group: "apiextensions.k8s.io",
		Resource: "customresourcedefinitions"}}
	for _, verb := range []string{"get", "patch"} {
		crds.Verb = verb
		needed = append(needed, crds)
	}
	has := func(name StepName) bool {
		return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Name == name })
	}
	if has(Create) {
		crds.Verb = "create"
		needed = append(needed, crds)
	}
	if has(Prune) {
		crds.Verb, crds.Subresource = "patch", "status"
		needed = append(needed, crds)
	}
	if has(Migrate) || has(Owned) {
		for _, verb := range []string{"list", "get", "patch"} {
			needed = append(needed, access.Permission{Verb: verb, Resource: next.Resource(),
				Namespaced: next.Spec.Scope == "Namespaced"})
		}
	}
	return needed
}
