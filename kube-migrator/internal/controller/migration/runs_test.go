// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

func TestJobs(t *testing.T) {
	shop := newWorkshop(t)
	part := func(name string, f func(t *testing.T, w *workshop)) {
		t.Run(name, func(t *testing.T) {
			w := &workshop{T: t, jobs: shop.jobs}
			w.clear()
			f(t, w)
		})
	}
	part("an unreadable report spoils one run only", func(t *testing.T, w *workshop) {
		sound, unreadable, nameless := w.begin(1, 1), w.begin(1, 2), w.begin(1, 3)
		w.edit(&corev1.ConfigMap{}, sound.name, `{"data": {"report": "{\"phase\": \"Rewriting\"}"}}`)
		w.edit(&corev1.ConfigMap{}, unreadable.name,
			`{"data": {"report": "{\"epoch\": {\"evidence\": \"Prophesied\"}}"}}`)
		w.edit(&corev1.ConfigMap{}, nameless.name,
			`{"metadata": {"annotations": {"migration.k8s.io/generation": "latest"}}}`)
		if r := w.found(sound.name); r.report == nil || r.broken != "" || !r.active || r.generation != 1 || r.outdated {
			t.Errorf("the sound run is %+v", r)
		}
		if r := w.found(unreadable.name); r.report != nil || r.broken == "" || !r.active {
			t.Errorf("the run with the unreadable report is %+v", r)
		}
		if r := w.found(nameless.name); r.generation != 0 || r.uid != nameless.uid || !r.active {
			t.Errorf("the run without a generation is %+v", r)
		}
	})
	part("a run that is given up keeps its checkpoint, and has no worker any more", func(t *testing.T, w *workshop) {
		r := w.begin(2, 1)
		w.edit(&corev1.ConfigMap{}, r.name, `{"data": {"report": "{}"}, "binaryData": {"checkpoint": "eHg="}}`)
		if err := w.giveUp(t.Context(), w.found(r.name), "no word"); err != nil {
			t.Fatal(err)
		}
		now := w.found(r.name)
		if o := now.outcome(); o == nil || o.Result != worker.ResultBroken || o.Message != "no word" ||
			now.active || now.leaving {
			t.Errorf("it is %+v", now)
		}
		checkpoint, job := &corev1.ConfigMap{}, &batchv1.Job{}
		key := client.ObjectKey{Namespace: "default", Name: r.name}
		if err := w.client.Get(t.Context(), key, checkpoint); err != nil || worker.Seed(checkpoint) == nil {
			t.Errorf("the checkpoint is %+v, %v", checkpoint, err)
		}
		if err := w.client.Get(t.Context(), key, job); err != nil || job.Spec.Suspend == nil || !*job.Spec.Suspend {
			t.Errorf("the Job is %+v, %v", job.Spec, err)
		}
	})
	part("a run that was heard of meanwhile is not given up", func(t *testing.T, w *workshop) {
		r := w.begin(2, 2)
		before := w.found(r.name)
		w.edit(&corev1.ConfigMap{}, r.name, `{"data": {"report": "{\"updated\": \"2100-01-01T00:00:00Z\"}"}}`)
		if err := w.giveUp(t.Context(), before, "no word"); err != nil {
			t.Fatal(err)
		}
		if now := w.found(r.name); now.outcome() != nil {
			t.Errorf("it is %+v", now)
		}
	})
	part("a Job with another image than new ones is told, and begins when it goes on", func(t *testing.T, w *workshop) {
		r := w.begin(2, 3)
		w.edit(&batchv1.Job{}, r.name, `{"metadata": {"annotations": {"migration.k8s.io/worker": "example.com/old default", "migration.k8s.io/begun": "2100-01-01T00:00:00Z"}}}`)
		if now := w.found(r.name); !now.outdated || now.heard().Year() != 2100 || now.whereabouts == "" {
			t.Errorf("it is %+v", now)
		}
	})
	part("a Job stays until its pods are gone, no matter who deletes it", func(t *testing.T, w *workshop) {
		r := w.begin(2, 4)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.name}}
		if err := w.client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if now := w.found(r.name); !now.active || !now.dismissed {
			t.Errorf("it is %+v", now)
		}
	})
	part("an idle worker is given the next run, whichever migration its Job was started for", func(t *testing.T,
		w *workshop) {
		first := w.begin(1, 1)
		if err := w.remove(t.Context(), run{name: first.name}); err != nil { // with its migration
			t.Fatal(err)
		}
		w.says(first.name, `{"process": "a", "done": 1}`)
		second := w.begin(2, 1)
		if names := w.jobNames(); !slices.Equal(names, []string{first.name}) {
			t.Errorf("the Jobs are %v, want the first one alone", names)
		}
		if r := w.found(second.name); !r.active || r.job != first.name || r.incomplete || r.generation != 2 {
			t.Errorf("the second run is %+v", r)
		}
		if _, r := w.roster(first.name); r.Task.Number != 2 || r.Task.ConfigMap != second.name || r.Idle() {
			t.Errorf("the roster is %+v", r)
		}
	})
	part("a worker that has closed its roster, or was told something else, gets nothing", func(t *testing.T,
		w *workshop) {
		closed, old, halted := w.begin(1, 1), w.begin(1, 2), w.begin(1, 3)
		w.says(closed.name, `{"process": "a", "done": 1, "closed": true}`)
		w.says(old.name, `{"process": "a", "done": 1}`)
		w.edit(&batchv1.Job{}, old.name, `{"metadata": {"annotations": {"migration.k8s.io/settings": "--settle-time=1h"}}}`)
		w.says(halted.name, `{"process": "a", "done": 1}`)
		w.edit(&batchv1.Job{}, halted.name, `{"spec": {"suspend": true}}`)
		next := w.begin(1, 4)
		if r := w.found(next.name); !r.active || r.job != next.name {
			t.Errorf("the run is %+v, want a Job of its own", r)
		}
	})
	part("a task and an end cannot cross: the second writer has to look again", func(t *testing.T, w *workshop) {
		first := w.begin(1, 1)
		w.says(first.name, `{"process": "a", "done": 1}`)
		all, _, err := w.look(t.Context(), true)
		if err != nil || len(all) != 1 || !all[0].free() {
			t.Fatalf("the Jobs are %+v, %v", all, err)
		}
		w.says(first.name, `{"process": "a", "done": 1, "closed": true}`)
		next := newRun(aMigration(nil), 2, 1)
		if err := w.give(t.Context(), &all[0], next); !apierrors.IsConflict(err) {
			t.Errorf("error %v, want a conflict", err)
		}
		if _, r := w.roster(first.name); r.Task.Number != 1 || !r.Closed {
			t.Errorf("the roster is %+v", r)
		}
		if r := w.begin(2, 1); w.found(r.name).job != next.name {
			t.Errorf("the run is %+v, want a Job of its own", w.found(r.name))
		}
	})
	part("a pause halts the Job that is at the run, and no other; the run goes on in it", func(t *testing.T,
		w *workshop) {
		first := w.begin(1, 1)
		w.says(first.name, `{"process": "a", "done": 1}`)
		second, other := w.begin(2, 1), w.begin(2, 2)
		if err := w.halt(t.Context(), w.found(second.name)); err != nil {
			t.Fatal(err)
		}
		w.edit(&batchv1.Job{}, first.name, `{}`)
		if r := w.found(other.name); !r.active || r.job != other.name {
			t.Errorf("the other run is %+v", r)
		}
		if job := w.named(first.name); job.Spec.Suspend == nil || !*job.Spec.Suspend {
			t.Error("the Job is not suspended")
		}
		if err := w.start(t.Context(), aMigration(nil), second, ""); err != nil {
			t.Fatal(err)
		}
		if job := w.named(first.name); *job.Spec.Suspend {
			t.Error("the Job is suspended")
		}
		if names := w.jobNames(); len(names) != 2 {
			t.Errorf("the Jobs are %v", names)
		}
	})
	part("a run whose checkpoint and migration are gone is active until its Job has no pods (I8)", func(t *testing.T,
		w *workshop) {
		first := w.begin(1, 1)
		w.says(first.name, `{"process": "a", "done": 1}`)
		second := w.begin(2, 1)
		if err := w.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: second.name}}); err != nil {
			t.Fatal(err)
		}
		now := w.found(second.name)
		if !now.active || !now.incomplete || now.uid != second.uid || now.resource != second.resource {
			t.Fatalf("the run is %+v", now)
		}
		if err := w.remove(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		sheet, _ := w.roster(first.name)
		// as the garbage collector does, before the pods have ended
		if err := w.client.Delete(t.Context(), sheet); err != nil {
			t.Fatal(err)
		}
		if now := w.found(second.name); !now.active || !now.dismissed || now.resource != second.resource {
			t.Errorf("the run is %+v", now)
		}
		w.collect(first.name)
		if all, err := w.list(t.Context(), true); err != nil || len(all) != 1 ||
			all[0].name != first.name || all[0].active {
			t.Errorf("the runs are %+v, %v", all, err)
		}
	})
	part("a Job that is deleted after its run has ended keeps no turn, also while its roster is there", func(t *testing.T, w *workshop) {
		r := w.begin(1, 1)
		w.edit(&corev1.ConfigMap{}, r.name, `{"data": {"report": "{\"outcome\": {\"verdict\": \"Broken\"}}"}}`)
		if err := w.remove(t.Context(), w.found(r.name)); err != nil {
			t.Fatal(err)
		}
		w.roster(r.name)
		if all, err := w.list(t.Context(), true); err != nil || len(all) != 0 {
			t.Errorf("the runs are %+v, %v", all, err)
		}
	})
	part("a Job of which no one can tell what it does counts as at work on everything, and is removed", func(t *testing.T, w *workshop) {
		r := w.begin(1, 1)
		w.edit(&corev1.ConfigMap{}, rosterOf(r.name), `{"data": {"task": "{}"}}`)
		all, err := w.list(t.Context(), true)
		if err != nil || len(all) != 2 || all[0].active {
			t.Fatalf("the runs are %+v, %v", all, err)
		}
		stray := all[1]
		if !stray.stray || !stray.active || stray.resource != "" {
			t.Errorf("the Job is %+v", stray)
		}
		if err := w.remove(t.Context(), stray); err != nil {
			t.Fatal(err)
		}
		if all, err := w.list(t.Context(), true); err != nil || len(all) != 2 || !all[1].active || !all[1].dismissed {
			t.Errorf("the runs are %+v, %v: its pods may write until they are gone (I8)", all, err)
		}
	})
	part("a Job that has ended is removed, and so is a halted one that has no run any more", func(t *testing.T,
		w *workshop) {
		halted := w.begin(1, 1)
		w.says(halted.name, `{"process": "a", "done": 1}`)
		w.edit(&batchv1.Job{}, halted.name, `{"spec": {"suspend": true}}`)
		if err := w.client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default"),
			client.MatchingLabels{uidLabel: string(halted.uid)}); err != nil {
			t.Fatal(err)
		}
		all, err := w.list(t.Context(), true)
		if err != nil || len(all) != 1 || !all[0].stray || all[0].active {
			t.Fatalf("the runs are %+v, %v", all, err)
		}
		if err := w.remove(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		if all, err := w.list(t.Context(), true); err != nil || len(all) != 0 {
			t.Errorf("the runs are %+v, %v", all, err)
		}
	})
}

// named returns a Job.
func (w *workshop) named(name string) *batchv1.Job {
	w.Helper()
	job := &batchv1.Job{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, job); err != nil {
		w.Fatal(err)
	}
	return job
}

// A worker of this process may write until it has ended, whatever has become of its ConfigMap (I8).
func TestAWorkerWithoutAConfigMapIsARun(t *testing.T) {
	idle, busy, bereft := aRun(2, 1, nil), aRun(2, 2, nil), aRun(2, 3, nil)
	all := withWorkers([]run{idle, busy}, map[string]*inProcessWorker{
		busy.name: {run: busy, begun: noon}, bereft.name: {run: bereft, begun: noon},
	})
	if len(all) != 3 || all[0].active || !all[1].active || !all[2].active {
		t.Fatalf("the runs are %+v", all)
	}
	if all[1].incomplete || !all[2].incomplete || all[2].name != bereft.name || all[2].uid != bereft.uid {
		t.Errorf("the runs are %+v", all)
	}
}
