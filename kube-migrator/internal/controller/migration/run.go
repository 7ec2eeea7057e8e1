// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// The labels and annotations of a checkpoint's ConfigMap that identify its run.
const (
	uidLabel            = "migration.k8s.io/uid"
	componentLabel      = "app.kubernetes.io/component"
	nameLabel           = "app.kubernetes.io/name"
	managedByLabel      = "app.kubernetes.io/managed-by"
	workerComponent     = "worker"
	program             = "kube-migrator"
	migrationAnnotation = "migration.k8s.io/name"
	// GenerationAnnotation is the spec.generation that the run carries out.
	GenerationAnnotation = "migration.k8s.io/generation"
	attemptAnnotation    = "migration.k8s.io/attempt"
	// startAnnotation is the resourceVersion of the collection of StorageVersionMigrations before the first attempt
	// started.
	startAnnotation    = "migration.k8s.io/start-resource-version"
	resourceAnnotation = "migration.k8s.io/resource"
	// workerAnnotation is the image and the service account of a Job.
	workerAnnotation = "migration.k8s.io/worker"
)

// run is one attempt at one generation of one migration, as it is found: the ConfigMap of its checkpoint, together with
// the worker that carries it out, in a Job or in this process.
type run struct {
	name       string
	migration  string
	uid        types.UID
	resource   string // plural name: two groups may serve the same objects under it
	generation int64
	attempt    int64
	// start is the resourceVersion of the collection of migrations that was read before the run started, or before the
	// attempt started whose checkpoint it resumes: everything that the run relies on is newer. It is written once, with
	// the checkpoint, so that a controller that dies cannot mistake the run for a later one. It is empty if it is
	// unknown.
	start string

	// active means that objects may be written for it now, or soon.
	active bool
	// removing means that it is being deleted.
	removing bool
	// incomplete means that its creation was interrupted; start completes it.
	incomplete bool
	// broken says why no worker will carry it out any more, although it has no outcome.
	broken string
	// outdated means that its worker has another image or service account than a new one would have.
	outdated bool
	// superseded means that a worker with another image, service account or settings is to continue it; ending, that the
	// Job of its worker is suspended or being deleted.
	superseded, ending bool
	// begun is when it was started, or assigned to a worker again.
	begun time.Time
	// job is the Job whose worker carries out the run. It is empty if there is none, or if workers run in this process.
	job string
	// stray means that this is not a run, but a Job that is no longer needed, or whose work cannot be determined;
	// dismissed, that the Job is being deleted.
	stray, dismissed bool
	// whereabouts is what is known about its worker if the worker does not report, or "".
	whereabouts string
	// report is the worker's last report, or nil before the first one.
	report *worker.Report
	// heardAt is when we first saw the worker's last report, or zero if that is unknown.
	heardAt time.Time
	// workerHeardAt is that of the run of its worker that has reported last.
	workerHeardAt time.Time
}

// heard returns when the worker last reported: by our clock if we saw it happen.
func (r run) heard() time.Time {
	if !r.heardAt.IsZero() {
		return r.heardAt
	}
	return r.dated()
}

// dated returns when the worker last reported, by the clock of the writer. A run that has just begun may have no report
// yet.
func (r run) dated() time.Time { return latest(r.begun, r.updated()) }

// updated returns when the worker last reported, by its own clock, or zero if it has not.
func (r run) updated() time.Time {
	if r.report == nil {
		return time.Time{}
	}
	return r.report.Updated
}

// hearing is when we first saw a run begin or report, together with the times that the writers recorded. Each recorded
// time is compared only with earlier values of itself, because the clocks differ.
type hearing struct{ begun, updated, at time.Time }

// hearings are those of runs, by name. The silence of a worker is the time in which we saw nothing new, by our own
// monotonic clock: the clock of a worker's node may be wrong, and our wall clock may be set at any time (I8).
type hearings map[string]hearing

// listen sets for each run when we first saw its worker's last report, and drops runs that no longer exist.
func (h hearings) listen(runs []run, now time.Time) hearings {
	next := make(hearings, len(runs))
	workers := map[string]time.Time{} // by Job
	for i := range runs {
		r := &runs[i]
		one, known := h[r.name]
		if !known || !one.begun.Equal(r.begun) || !one.updated.Equal(r.updated()) {
			one = hearing{begun: r.begun, updated: r.updated(), at: now}
		}
		next[r.name], r.heardAt = one, one.at
		workers[r.job] = latest(workers[r.job], one.at)
	}
	for i := range runs {
		runs[i].workerHeardAt = workers[runs[i].job]
	}
	return next
}

// outcome returns how the run ended, or nil if it has not ended.
func (r run) outcome() *worker.Outcome {
	if r.report != nil && r.report.Outcome != nil {
		return r.report.Outcome
	}
	if r.broken != "" {
		return &worker.Outcome{Result: worker.ResultBroken, Message: r.broken}
	}
	return nil
}

// order sorts runs so that the newest is last.
func order(a, b run) int {
	return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.attempt, b.attempt))
}

// newRun returns the run of an attempt that is to be started.
func newRun(m *v1alpha1.StorageVersionMigration, generation, attempt int64) run {
	return run{
		name:      fmt.Sprintf("migrate-%.8s-%d-%d", m.UID, generation, attempt),
		migration: m.Name, uid: m.UID, generation: generation, attempt: attempt,
		resource: schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String(),
	}
}

// task returns the run as a task for a worker.
func (r run) task() worker.Task {
	return worker.Task{
		Migration: r.migration, UID: r.uid, Generation: r.generation, Attempt: r.attempt,
		ConfigMap: r.name, Resource: r.resource,
		StartResourceVersion: r.start, Given: time.Now(),
	}
}

// metadata returns the metadata of the run's checkpoint.
func (r run) metadata(namespace string, owner metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: r.name, OwnerReferences: []metav1.OwnerReference{owner},
		Labels: map[string]string{
			uidLabel: string(r.uid), componentLabel: workerComponent, nameLabel: program, managedByLabel: program,
		},
		Annotations: map[string]string{
			migrationAnnotation:  r.migration,
			resourceAnnotation:   r.resource,
			GenerationAnnotation: strconv.FormatInt(r.generation, 10),
			attemptAnnotation:    strconv.FormatInt(r.attempt, 10),
			startAnnotation:      r.start,
		},
	}
}

// runOf reads which run an object belongs to. If the error says that generation and attempt cannot be read, both are 0.
func runOf(o metav1.Object) (run, error) {
	annotations := o.GetAnnotations()
	r := run{
		name: o.GetName(), migration: annotations[migrationAnnotation], uid: types.UID(o.GetLabels()[uidLabel]),
		resource: annotations[resourceAnnotation], start: annotations[startAnnotation],
		removing: o.GetDeletionTimestamp() != nil, begun: o.GetCreationTimestamp().Time,
	}
	generation, err := strconv.ParseInt(annotations[GenerationAnnotation], 10, 64)
	if err != nil {
		return r, fmt.Errorf("read generation of %s: %w", o.GetName(), err)
	}
	attempt, err := strconv.ParseInt(annotations[attemptAnnotation], 10, 64)
	if err != nil {
		return r, fmt.Errorf("read attempt of %s: %w", o.GetName(), err)
	}
	r.generation, r.attempt = generation, attempt
	return r, nil
}

// runs carries out runs: in Jobs, or in workers in this process. Every method may be repeated, because the controller
// may die after any of them.
type runs interface {
	// list returns all existing runs. live reads past the cache, for decisions that must not be made twice.
	list(ctx context.Context, live bool) ([]run, error)
	// start makes a worker carry out r: it creates what is missing, with the checkpoint of the run named seed if that
	// exists. A run that was halted continues from its own.
	start(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error
	// halt makes the worker of r stop writing, and keeps the checkpoint. The run is active until the worker has
	// stopped.
	halt(ctx context.Context, r run) error
	// giveUp ends r, whose worker no longer reports, for good: the outcome says why. The checkpoint stays. A worker
	// that has reported in the meantime is left alone.
	giveUp(ctx context.Context, r run, why string) error
	// remove halts r, or deletes it with its checkpoint once its worker has stopped. It is called until then.
	remove(ctx context.Context, r run) error
}

// inOrder returns the runs of one migration, the newest last.
func inOrder(own []run) []run {
	sorted := slices.Clone(own)
	slices.SortFunc(sorted, order)
	return sorted
}
