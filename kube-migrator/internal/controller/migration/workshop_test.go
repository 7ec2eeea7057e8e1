// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// workshop has the Jobs of runs on a real API server. No kubelet is here: the test is the worker.
type workshop struct {
	*testing.T
	*jobs
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(testbed.New(t, testbed.Options{}).Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := store{
		namespace: "default", settings: worker.Settings{MinEvidence: migrate.Observed, SettleTime: time.Minute},
		client: c, live: c, log: slog.New(slog.DiscardHandler),
	}
	return &workshop{T: t, jobs: &jobs{store: s, image: "example.com/none", serviceAccount: "default"}}
}

// begin starts a run of aMigration.
func (w *workshop) begin(generation, attempt int64) run {
	w.Helper()
	r := newRun(aMigration(nil), generation, attempt)
	if err := w.start(w.Context(), aMigration(nil), r, ""); err != nil {
		w.Fatal(err)
	}
	return r
}

// edit changes an object of a run.
func (w *workshop) edit(o client.Object, name, patch string) {
	w.Helper()
	o.SetNamespace("default")
	o.SetName(name)
	if err := w.client.Patch(w.Context(), o,
		client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.Fatal(err)
	}
}

// found returns a run as it is listed.
func (w *workshop) found(name string) run {
	w.Helper()
	all, err := w.list(w.Context(), true)
	if err != nil {
		w.Fatalf("list runs: %v", err)
	}
	i := slices.IndexFunc(all, func(r run) bool { return r.name == name })
	if i < 0 {
		w.Fatalf("the run %s is not among %+v", name, all)
	}
	return all[i]
}

// roster returns the roster of a Job.
func (w *workshop) roster(job string) (*corev1.ConfigMap, worker.Roster) {
	w.Helper()
	sheet := &corev1.ConfigMap{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "default",
		Name: rosterOf(job)}, sheet); err != nil {
		w.Fatal(err)
	}
	r, err := worker.ReadRoster(sheet)
	if err != nil {
		w.Fatal(err)
	}
	return sheet, r
}

// says writes what the worker of a Job says of itself.
func (w *workshop) says(job, state string) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"worker": state}})
	if err != nil {
		w.Fatal(err)
	}
	w.edit(&corev1.ConfigMap{}, rosterOf(job), string(patch))
}

// told writes since when the worker of a Job has been told to stop its first run.
func (w *workshop) told(job string, since time.Time) {
	w.Helper()
	_, r := w.roster(job)
	r.Tasks[0].Stop = since
	tasks, err := json.Marshal(r.Tasks)
	if err != nil {
		w.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"tasks": string(tasks)}})
	if err != nil {
		w.Fatal(err)
	}
	w.edit(&corev1.ConfigMap{}, rosterOf(job), string(patch))
}

// jobNames are the names of the Jobs that exist and are not being deleted.
func (w *workshop) jobNames() []string {
	w.Helper()
	all := &batchv1.JobList{}
	if err := w.client.List(w.Context(), all, client.InNamespace("default")); err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, job := range all.Items {
		if job.DeletionTimestamp == nil {
			names = append(names, job.Name)
		}
	}
	slices.Sort(names)
	return names
}

// clear leaves no Job, ConfigMap or roster of an earlier part.
func (w *workshop) clear() {
	w.Helper()
	jobs := &batchv1.JobList{}
	if err := w.client.List(w.Context(), jobs, client.InNamespace("default")); err != nil {
		w.Fatal(err)
	}
	for i := range jobs.Items {
		if err := client.IgnoreNotFound(w.client.Delete(w.Context(), &jobs.Items[i])); err != nil {
			w.Fatal(err)
		}
		w.collect(jobs.Items[i].Name) // no garbage collector is here
	}
	if err := w.client.DeleteAllOf(w.Context(), &corev1.ConfigMap{}, client.InNamespace("default"),
		client.MatchingLabels{componentLabel: workerComponent}); err != nil {
		w.Fatal(err)
	}
}

// collect does what the garbage collector and the Job's controller do once the pods of a Job that is being deleted have
// ended.
func (w *workshop) collect(job string) {
	w.Helper()
	w.edit(&batchv1.Job{}, job, `{"metadata": {"finalizers": null}}`)
}

// suspended does what the Job's controller does once the pods of a suspended Job have ended.
func (w *workshop) suspended(job string) { w.condition(job, batchv1.JobSuspended) }

// failed does what it does when a Job has failed.
func (w *workshop) failed(job string) {
	w.condition(job, batchv1.JobFailureTarget)
	w.condition(job, batchv1.JobFailed)
}

func (w *workshop) condition(name string, condition batchv1.JobConditionType) {
	w.Helper()
	job := w.named(name)
	if job.Status.StartTime == nil {
		now := metav1.Now()
		job.Status.StartTime = &now
	}
	if condition == batchv1.JobSuspended {
		job.Status.StartTime = nil
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	if err := w.client.Status().Update(w.Context(), job); err != nil {
		w.Fatal(err)
	}
}
