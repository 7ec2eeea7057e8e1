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
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/worker"
)

// What the ConfigMap of a checkpoint says of the run that it belongs to.
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
	// startAnnotation is the resourceVersion of the collection of StorageVersionMigrations before the first attempt was
	// started.
	startAnnotation    = "migration.k8s.io/start-resource-version"
	resourceAnnotation = "migration.k8s.io/resource"
	// workerAnnotation is the image and the service account that a Job was given; begunAnnotation when it was halted,
	// or went on, in RFC 3339.
	workerAnnotation = "migration.k8s.io/worker"
	begunAnnotation  = "migration.k8s.io/begun"
)

// run is one attempt at one generation of one migration, as it is found: the ConfigMap of its checkpoint, with the
// worker that is at it, in a Job or in this process.
type run struct {
	name       string
	migration  string
	uid        types.UID
	resource   string // plural name: two groups may serve the same objects under it
	generation int64
	attempt    int64
	// start is the resourceVersion of the collection of migrations that was read before the run was started, or the
	// attempt whose checkpoint it goes on from: nothing that the run rests on is older. It is written once, with the
	// checkpoint, so that a controller that dies cannot take a run for a later one. Empty: not known.
	start string

	// active: something may be written for it now, or soon.
	active bool
	// removing: it is being deleted.
	removing bool
	// incomplete: its creation was cut short; start completes it.
	incomplete bool
	// broken says why no worker will come any more, though there is no outcome.
	broken string
	// outdated: its worker has another image, or another service account, than a new one would have.
	outdated bool
	// begun is when it was started, or went on after a pause.
	begun time.Time
	// job is the Job whose worker is at the run; empty where none is, or where workers are in this process. dismissed:
	// the Job is being deleted.
	job       string
	dismissed bool
	// leaving: the outcome is written, and the worker is about to say that it can take another run.
	leaving bool
	// stray: no run, but a Job that is of no use any more, or of which no one can tell what it does.
	stray bool
	// whereabouts is what is known of its worker when it does not report; empty for nothing.
	whereabouts string
	// report is what the worker told last; nil before it told anything.
	report *worker.Report
	// heardAt is when we first saw what the worker told last; zero: not known.
	heardAt time.Time
}

// heard is when the worker was heard of last, by our clock if we listened.
func (r run) heard() time.Time {
	if !r.heardAt.IsZero() {
		return r.heardAt
	}
	return r.dated()
}

// dated is when the worker reported last, by the clocks of those who wrote it: a run that has just begun need not have a
// report.
func (r run) dated() time.Time { return latest(r.begun, r.updated()) }

// updated is when the worker reported last, by its own clock; zero: it has not reported.
func (r run) updated() time.Time {
	if r.report == nil {
		return time.Time{}
	}
	return r.report.Updated
}

// hearing is when we first saw that a run began or was reported on, and the dates that others gave to that. Dates of two
// clocks are compared with themselves alone.
type hearing struct{ begun, updated, at time.Time }

// hearings are those of runs, by name. The silence of a worker is the time in which we saw nothing new, by our own
// monotonic clock: the clock of a worker's node may be wrong, and ours may be set at any time (I8).
type hearings map[string]hearing

// listen tells each run when we first saw what its worker told last, and forgets runs that are gone.
func (h hearings) listen(runs []run, now time.Time) hearings {
	next := make(hearings, len(runs))
	for i := range runs {
		r := &runs[i]
		one, known := h[r.name]
		if !known || !one.begun.Equal(r.begun) || !one.updated.Equal(r.updated()) {
			one = hearing{begun: r.begun, updated: r.updated(), at: now}
		}
		next[r.name], r.heardAt = one, one.at
	}
	return next
}

// outcome is how the run ended; nil while it has not.
func (r run) outcome() *worker.Outcome {
	if r.report != nil && r.report.Outcome != nil {
		return r.report.Outcome
	}
	if r.broken != "" {
		return &worker.Outcome{Result: worker.ResultBroken, Message: r.broken}
	}
	return nil
}

// order sorts runs, the newest last.
func order(a, b run) int {
	return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.attempt, b.attempt))
}

// newRun is the run of one attempt that is to be started.
func newRun(m *v1alpha1.StorageVersionMigration, generation, attempt int64) run {
	return run{
		name:      fmt.Sprintf("migrate-%.8s-%d-%d", m.UID, generation, attempt),
		migration: m.Name, uid: m.UID, generation: generation, attempt: attempt,
		resource: m.Spec.Resource.Resource,
	}
}

// task is the run as a worker is given it.
func (r run) task() worker.Task {
	return worker.Task{
		Migration: r.migration, UID: r.uid, Generation: r.generation, Attempt: r.attempt,
		ConfigMap: r.name, Resource: r.resource,
		StartResourceVersion: r.start, Given: time.Now(),
	}
}

// metadata is what the checkpoint of the run carries.
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

// runOf reads the run that an object belongs to. Where an error says that generation and attempt cannot be read, both
// are 0.
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

// runs is who carries out runs: Jobs, or workers in this process. Every method may be repeated: the controller may die
// after any of them.
type runs interface {
	// list returns all runs there are. live: read past the cache, for decisions that must not be made twice.
	list(ctx context.Context, live bool) ([]run, error)
	// start makes a worker work on r: it creates what is missing, with the checkpoint of the run named seed if that
	// exists, and lets one that was halted go on.
	start(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error
	// halt makes nothing be written for r any more; it keeps its checkpoint. The run is active until that is so.
	halt(ctx context.Context, r run) error
	// giveUp ends r, whose worker is not heard of, for good: the outcome says why. Its checkpoint stays. A worker that
	// was heard of meanwhile is left alone.
	giveUp(ctx context.Context, r run, why string) error
	// remove halts r and deletes it with its checkpoint.
	remove(ctx context.Context, r run) error
}

// inOrder returns the runs of one migration, the newest last.
func inOrder(own []run) []run {
	sorted := slices.Clone(own)
	slices.SortFunc(sorted, order)
	return sorted
}

// workerSettings are what every worker is told.
type workerSettings struct {
	namespace   string
	minEvidence string
	settleTime  time.Duration
	// shutdownDelay is that of agreement.Options.
	shutdownDelay time.Duration
}
