// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

var errDied = errors.New("the controller has died")

// dying is the client of a controller that dies at one of its writes: before it is sent, or before its answer arrives.
type dying struct {
	client.Client
	left  int // writes until then
	after bool
	died  bool
}

func (d *dying) write(f func() error) error {
	switch {
	case d.died:
		return errDied
	case d.left > 0:
		d.left--
		return f()
	}
	d.died = true
	if d.after {
		if err := f(); err != nil {
			return err
		}
	}
	return errDied
}

func (d *dying) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return d.write(func() error { return d.Client.Create(ctx, o, opts...) })
}

func (d *dying) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return d.write(func() error { return d.Client.Update(ctx, o, opts...) })
}

func (d *dying) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return d.write(func() error { return d.Client.Patch(ctx, o, p, opts...) })
}

func (d *dying) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return d.write(func() error { return d.Client.Delete(ctx, o, opts...) })
}

// pass is one of a controller that writes with another client: it starts what planAll starts, and removes what it
// removes.
func (w *workshop) pass(with client.Client, migrations ...v1alpha1.StorageVersionMigration) (plan, error) {
	w.Helper()
	j := *w.jobs
	j.client = with
	all, err := j.list(w.Context(), true)
	if err != nil {
		w.Fatal(err)
	}
	w.wantOneActive(all)
	p := planAll(snapshot{now: time.Now(), live: true, migrations: migrations, moment: "1", runs: all}, 1, waits{firstRetry: time.Minute})
	var problems []error
	for _, r := range p.orphans {
		problems = append(problems, j.remove(w.Context(), r))
	}
	for _, d := range p.migrations {
		for _, r := range d.remove {
			problems = append(problems, j.remove(w.Context(), r))
		}
		if d.step == stepStart {
			problems = append(problems, j.start(w.Context(), d.migration, d.run, d.seed))
		}
	}
	return p, errors.Join(problems...)
}

// wantOneActive fails where two may write at the same time (I8).
func (w *workshop) wantOneActive(all []run) {
	w.Helper()
	active := 0
	for _, r := range all {
		if r.active {
			active++
		}
	}
	if active > 1 {
		w.Errorf("%d are active, want one at most (I8): %+v", active, all)
	}
}

// podsEnd does what Kubernetes does with Jobs that are being deleted, and workers with runs that are to stop.
func (w *workshop) podsEnd() {
	w.Helper()
	all := &batchv1.JobList{}
	if err := w.client.List(w.Context(), all, client.InNamespace("default")); err != nil {
		w.Fatal(err)
	}
	for _, job := range all.Items {
		if job.DeletionTimestamp != nil {
			w.collect(job.Name)
			continue
		}
		sheet := &corev1.ConfigMap{}
		if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: rosterOf(job.Name)}, sheet); err != nil {
			continue // its creation was interrupted
		}
		r, err := worker.ReadRoster(sheet)
		if err != nil {
			w.Fatal(err)
		}
		for _, t := range r.Open() {
			if !t.Stop.IsZero() {
				w.says(job.Name, fmt.Sprintf(`{"process": "a", "ended": [%d]}`, t.Number))
			}
		}
	}
}

// A controller may die at any of its writes, or before it knows how one ended. The next one goes on from what it finds:
// in the end one worker is at the run, and at no moment are there two.
func TestAControllerThatDiesAtAnyWriteLeavesOneWorkerAtTheRun(t *testing.T) {
	shop := newWorkshop(t)
	m := *aMigration(nil)
	for name, prepare := range map[string]func(w *workshop){
		"with a new Job": func(*workshop) {},
		"with an idle worker": func(w *workshop) {
			first := w.begin(1, 1)
			w.says(first.name, `{"process": "a", "ended": [1]}`)
		},
		"with a Job that is to begin a run of an older generation": func(w *workshop) { w.begin(1, 1) },
		"with a Job that is at a run of an older generation": func(w *workshop) {
			first := w.begin(1, 1)
			w.says(first.name, `{"process": "a"}`)
		},
		"with a Job whose migration is gone": func(w *workshop) {
			gone, r := another("gadgets", func(*run) {})
			if err := w.start(w.Context(), &gone, r, ""); err != nil {
				w.Fatal(err)
			}
		},
	} {
		for writes := range 5 {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, at write %d, after: %v", name, writes+1, after), func(t *testing.T) {
					w := &workshop{T: t, jobs: shop.jobs}
					w.clear()
					prepare(w)
					broken := &dying{Client: w.client, left: writes, after: after}
					for range 4 {
						if _, err := w.pass(broken, m); err != nil && !broken.died {
							t.Fatal(err)
						}
						w.podsEnd()
						if broken.died {
							break
						}
					}
					for range 4 {
						if _, err := w.pass(w.client, m); err != nil {
							t.Fatal(err)
						}
						w.podsEnd()
					}
					all, err := w.list(t.Context(), true)
					if err != nil {
						t.Fatal(err)
					}
					w.wantOneActive(all)
					r := w.found(newRun(&m, 2, 1).name)
					if !r.active || r.incomplete || r.job == "" || r.start != "1" {
						t.Errorf("the run is %+v", r)
					}
					if names := w.jobNames(); len(names) != 1 {
						t.Errorf("the Jobs are %v, want one", names)
					}
				})
			}
		}
	}
}
