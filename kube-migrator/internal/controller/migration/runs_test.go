// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
			now.active {
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
	part("a run that is given up leaves the other runs of its worker alone", func(t *testing.T, w *workshop) {
		r, other := w.begin(2, 1), w.begin(3, 1)
		w.says(r.name, `{"process": "a"}`)
		now := w.found(r.name)
		now.workerHeardAt = time.Now()
		if err := w.giveUp(t.Context(), now, "no word"); err != nil {
			t.Fatal(err)
		}
		if _, r := w.roster(r.name); r.Tasks[0].Stop.IsZero() || !r.Tasks[1].Stop.IsZero() || !w.found(other.name).active {
			t.Errorf("the roster is %+v", r)
		}
		if job := w.named(r.name); job.Spec.Suspend != nil && *job.Spec.Suspend {
			t.Error("the Job is suspended")
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
		if job := w.named(before.job); job.Spec.Suspend != nil && *job.Spec.Suspend {
			t.Error("its Job is suspended")
		}
	})
	part("a Job with another image or other settings than new ones is told, unless it says nothing of itself", func(t *testing.T,
		w *workshop) {
		r := w.begin(2, 3)
		for patch, want := range map[string][2]bool{ // outdated, superseded
			`{"migration.k8s.io/worker": "example.com/old default"}`:                                  {true, true},
			`{"migration.k8s.io/worker": null}`:                                                       {false, false},
			`{"migration.k8s.io/worker": null, "migration.k8s.io/settings": "--settle-time=1h"}`:      {false, true},
			`{"migration.k8s.io/worker": "example.com/none default", "migration.k8s.io/settings":""}`: {false, true},
			`{"migration.k8s.io/settings": null}`:                                                     {false, false},
		} {
			w.edit(&batchv1.Job{}, r.name, `{"metadata": {"annotations": `+patch+`}}`)
			if now := w.found(r.name); now.outdated != want[0] || now.superseded != want[1] || now.whereabouts == "" {
				t.Errorf("with %s it is %+v", patch, now)
			}
			w.edit(&batchv1.Job{}, r.name, fmt.Sprintf(`{"metadata": {"annotations": {%q: %q, %q: %q}}}`,
				workerAnnotation, w.worker(), settingsAnnotation, w.settings.String()))
		}
	})
	part("a Job stays until its pods are gone, no matter who deletes it", func(t *testing.T, w *workshop) {
		r := w.begin(2, 4)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.name}}
		if err := w.client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if now := w.found(r.name); !now.active {
			t.Errorf("it is %+v", now)
		}
	})
	part("a worker is given the next runs, whichever migration its Job was started for", func(t *testing.T, w *workshop) {
		first := w.begin(1, 1)
		second := w.begin(2, 1)
		w.says(first.name, `{"process": "a", "ended": [1]}`)
		third := w.begin(3, 1)
		if names := w.jobNames(); !slices.Equal(names, []string{first.name}) {
			t.Errorf("the Jobs are %v, want the first one alone", names)
		}
		for _, name := range []string{second.name, third.name} {
			if r := w.found(name); !r.active || r.job != first.name || r.incomplete {
				t.Errorf("the run is %+v", r)
			}
		}
		if r := w.found(first.name); r.active || r.job != "" {
			t.Errorf("the run that has ended is %+v", r)
		}
	})
	part("a worker that has closed its roster, is halted, or was told something else, gets nothing", func(t *testing.T,
		w *workshop) {
		closed := w.begin(1, 1)
		w.says(closed.name, `{"process": "a", "ended": [1], "closed": true}`)
		old := w.begin(1, 2)
		w.edit(&batchv1.Job{}, old.name, `{"metadata": {"annotations": {"migration.k8s.io/settings": "--settle-time=1h"}}}`)
		halted := w.begin(1, 3)
		w.edit(&batchv1.Job{}, halted.name, `{"spec": {"suspend": true}}`)
		next := w.begin(1, 4)
		if r := w.found(next.name); !r.active || r.job != next.name {
			t.Errorf("the run is %+v, want a Job of its own", r)
		}
	})
	part("a task and an end cannot cross: the second writer has to look again", func(t *testing.T, w *workshop) {
		first := w.begin(1, 1)
		w.says(first.name, `{"process": "a", "ended": [1]}`)
		all, err := w.carriers(t.Context())
		if err != nil || len(all) != 1 || !all[0].free() {
			t.Fatalf("the Jobs are %+v, %v", all, err)
		}
		w.says(first.name, `{"process": "a", "ended": [1], "closed": true}`)
		next := newRun(aMigration(nil), 2, 1)
		if err := w.give(t.Context(), &all[0], next); !apierrors.IsConflict(err) {
			t.Errorf("error %v, want a conflict", err)
		}
		if _, r := w.roster(first.name); r.Has(next.name) || !r.Closed {
			t.Errorf("the roster is %+v", r)
		}
		if r := w.begin(2, 1); w.found(r.name).job != next.name {
			t.Errorf("the run is %+v, want a Job of its own", w.found(r.name))
		}
	})
	part("a pause halts a run and no other; it goes on once its worker has stopped", func(t *testing.T, w *workshop) {
		first := w.begin(1, 1)
		w.says(first.name, `{"process": "a"}`)
		other := w.begin(2, 1)
		if err := w.halt(t.Context(), w.found(first.name)); err != nil {
			t.Fatal(err)
		}
		if a, b := w.found(first.name), w.found(other.name); !a.active || !b.active {
			t.Errorf("the runs are %+v and %+v: both may still write", a, b)
		}
		if _, r := w.roster(first.name); r.Tasks[0].Stop.IsZero() || !r.Tasks[1].Stop.IsZero() {
			t.Errorf("the roster is %+v", r)
		}
		if job := w.named(first.name); job.Spec.Suspend != nil && *job.Spec.Suspend {
			t.Error("the Job is suspended though its worker reports")
		}
		w.says(first.name, `{"process": "a", "ended": [1]}`)
		if r := w.found(first.name); r.active {
			t.Errorf("the run is %+v", r)
		}
		if err := w.start(t.Context(), aMigration(nil), first, ""); err != nil {
			t.Fatal(err)
		}
		if r := w.found(first.name); !r.active || r.job != first.name {
			t.Errorf("the run is %+v", r)
		}
	})
	part("a run that its worker does not stop is halted with its Job, and another Job goes on with all of them", func(t *testing.T,
		w *workshop) {
		silent, other := w.begin(1, 1), w.begin(2, 1)
		w.says(silent.name, `{"process": "a"}`)
		for _, told := range []time.Time{{}, time.Now().Add(-silence - time.Second)} {
			w.told(silent.name, told)
			if err := w.halt(t.Context(), w.found(silent.name)); err != nil {
				t.Fatal(err)
			}
			if job := w.named(silent.name); (job.Spec.Suspend != nil && *job.Spec.Suspend) == told.IsZero() {
				t.Errorf("where it was told at %s, the Job is %+v", told, job.Spec)
			}
		}
		if job := w.named(silent.name); job.Spec.Suspend == nil || !*job.Spec.Suspend || !w.found(other.name).active {
			t.Fatalf("the Job is %+v, and its pods may still write", job.Spec)
		}
		w.suspended(silent.name)
		for _, r := range []run{silent, other} {
			if r := w.found(r.name); r.active {
				t.Errorf("the run is %+v: its Job has no pods", r)
			}
			if err := w.start(t.Context(), aMigration(nil), r, ""); err != nil {
				t.Fatal(err)
			}
			if r := w.found(r.name); !r.active || r.job == silent.name {
				t.Errorf("the run is %+v", r)
			}
		}
		all, err := w.list(t.Context(), true)
		if i := slices.IndexFunc(all, func(r run) bool { return r.stray }); err != nil || i < 0 || all[i].job != silent.name {
			t.Errorf("the runs are %+v, %v: the suspended Job is of no use", all, err)
		}
	})
	part("a run whose worker has never begun is halted at once", func(t *testing.T, w *workshop) {
		r := w.begin(1, 1)
		if err := w.halt(t.Context(), w.found(r.name)); err != nil {
			t.Fatal(err)
		}
		if r := w.found(r.name); r.active {
			t.Errorf("the run is %+v", r)
		}
		if err := w.start(t.Context(), aMigration(nil), r, ""); err != nil {
			t.Fatal(err)
		}
		if r := w.found(r.name); !r.active {
			t.Errorf("the run is %+v", r)
		}
	})
	part("a run whose checkpoint and migration are gone is active until its worker has stopped (I8)", func(t *testing.T,
		w *workshop) {
		first := w.begin(1, 1)
		w.says(first.name, `{"process": "a"}`)
		if err := w.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: first.name}}); err != nil {
			t.Fatal(err)
		}
		now := w.found(first.name)
		if !now.active || !now.incomplete || now.uid != first.uid || now.resource != first.resource {
			t.Fatalf("the run is %+v", now)
		}
		if err := w.remove(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if _, r := w.roster(first.name); r.Tasks[0].Stop.IsZero() {
			t.Errorf("the roster is %+v", r)
		}
		w.says(first.name, `{"process": "a", "ended": [1]}`)
		if all, err := w.list(t.Context(), true); err != nil || len(all) != 0 {
			t.Errorf("the runs are %+v, %v", all, err)
		}
	})
	part("a run is removed once its worker has stopped", func(t *testing.T, w *workshop) {
		r := w.begin(1, 1)
		w.says(r.name, `{"process": "a"}`)
		for _, state := range []string{`{"process": "a"}`, `{"process": "a", "ended": [1]}`} {
			w.says(r.name, state)
			if err := w.remove(t.Context(), w.found(r.name)); err != nil {
				t.Fatal(err)
			}
			all, err := w.list(t.Context(), true)
			if stopped := strings.Contains(state, "ended"); err != nil || (len(all) == 0) != stopped {
				t.Errorf("where its worker says %s, the runs are %+v, %v", state, all, err)
			}
		}
	})
	part("a failed Job is removed when its runs are", func(t *testing.T, w *workshop) {
		r, other := w.begin(1, 1), w.begin(2, 1)
		w.says(r.name, `{"process": "a"}`)
		w.failed(r.name)
		for _, r := range []run{r, other} {
			now := w.found(r.name)
			if now.active || now.outcome() == nil || now.outcome().Result != worker.ResultBroken {
				t.Errorf("the run is %+v", now)
			}
			if err := w.remove(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		all, err := w.list(t.Context(), true)
		if err != nil || len(all) != 1 || !all[0].stray || all[0].active {
			t.Errorf("the runs are %+v, %v", all, err)
		}
	})
	part("a Job of which no one can tell what it does counts as at work on everything, and is removed", func(t *testing.T, w *workshop) {
		r := w.begin(1, 1)
		w.edit(&corev1.ConfigMap{}, rosterOf(r.name), `{"data": {"tasks": "[{}]"}}`)
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
		w.says(halted.name, `{"process": "a", "ended": [1]}`)
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
