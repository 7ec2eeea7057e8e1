// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/internal/worker"
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
		workerSettings: workerSettings{namespace: "default", minEvidence: "Observed", settleTime: time.Minute},
		client:         c, live: c, log: slog.New(slog.DiscardHandler),
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
	if err := w.client.Patch(w.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
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

func TestJobs(t *testing.T) {
	w := newWorkshop(t)
	t.Run("what nobody can read spoils one run only", func(t *testing.T) {
		w := &workshop{T: t, jobs: w.jobs}
		sound, unreadable, nameless := w.begin(1, 1), w.begin(1, 2), w.begin(1, 3)
		w.edit(&corev1.ConfigMap{}, sound.name, `{"data": {"report": "{\"phase\": \"Rewriting\"}"}}`)
		w.edit(&corev1.ConfigMap{}, unreadable.name, `{"data": {"report": "{\"epoch\": {\"evidence\": \"Prophesied\"}}"}}`)
		w.edit(&batchv1.Job{}, nameless.name, `{"metadata": {"annotations": {"migration.k8s.io/generation": "latest"}}}`)
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
	t.Run("a run that is given up keeps its checkpoint, and has no worker any more", func(t *testing.T) {
		w := &workshop{T: t, jobs: w.jobs}
		r := w.begin(2, 1)
		w.edit(&corev1.ConfigMap{}, r.name, `{"data": {"report": "{}"}, "binaryData": {"checkpoint": "eHg="}}`)
		if err := w.giveUp(t.Context(), w.found(r.name), "no word"); err != nil {
			t.Fatal(err)
		}
		now := w.found(r.name)
		if o := now.outcome(); o == nil || o.Verdict != worker.Broken || o.Message != "no word" || now.active {
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
	t.Run("a run that was heard of meanwhile is not given up", func(t *testing.T) {
		w := &workshop{T: t, jobs: w.jobs}
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
	t.Run("a Job with another image than new ones is told, and begins when it goes on", func(t *testing.T) {
		w := &workshop{T: t, jobs: w.jobs}
		r := w.begin(2, 3)
		w.edit(&batchv1.Job{}, r.name, `{"metadata": {"annotations": {"migration.k8s.io/worker": "example.com/old default", "migration.k8s.io/begun": "2100-01-01T00:00:00Z"}}}`)
		if now := w.found(r.name); !now.outdated || now.heard().Year() != 2100 || now.whereabouts == "" {
			t.Errorf("it is %+v", now)
		}
	})
	t.Run("a Job stays until its pods are gone, whoever deletes it", func(t *testing.T) {
		w := &workshop{T: t, jobs: w.jobs}
		r := w.begin(2, 4)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.name}}
		if err := w.client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if now := w.found(r.name); !now.active || !now.removing {
			t.Errorf("it is %+v", now)
		}
	})
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
