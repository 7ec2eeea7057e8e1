// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

func TestWaitingEndsWithARefusalThatLastsAndNotWithAnOutage(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	refused := []error{
		exit.Try(records.ErrNotInstalled, "x"), apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")),
		&inventory.NotFoundError{},
	}
	for _, err := range refused {
		var p patience
		if p.ends(err, start) || p.ends(err, start.Add(refusedFor-time.Second)) || !p.ends(err, start.Add(refusedFor)) {
			t.Errorf("%v: does not end after %v", err, refusedFor)
		}
	}
	var p patience
	if p.ends(errors.New("connection refused"), start) ||
		p.ends(errors.New("connection refused"), start.Add(time.Hour)) {
		t.Error("an outage ends it")
	}
	if p.ends(refused[0], start) || p.ends(nil, start.Add(refusedFor)) || p.ends(refused[0], start.Add(refusedFor)) {
		t.Error("an answer in between does not count")
	}
}

func TestItIsToldOnceThatNothingHappens(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }
	running := func(edit func(*v1alpha1.StorageVersionMigration)) []v1alpha1.StorageVersionMigration {
		m := migrationOf("pods", v1alpha1.PhaseRunning, "", edit)
		m.CreationTimestamp = at(time.Hour)
		return []v1alpha1.StorageVersionMigration{m}
	}
	nothing := func(*v1alpha1.StorageVersionMigration) {}
	quiet := running(nothing)
	for name, test := range map[string]struct {
		all  []v1alpha1.StorageVersionMigration
		want time.Duration
	}{
		"no one has touched it": {quiet, time.Hour},
		"a worker has told": {
			running(func(m *v1alpha1.StorageVersionMigration) { m.Status.Progress.UpdateTime = at(time.Minute) }),
			time.Minute,
		},
		"a condition has changed": {
			running(func(m *v1alpha1.StorageVersionMigration) { m.Status.Conditions[0].LastTransitionTime = at(time.Minute) }), time.Minute,
		},
		"someone has written": {running(func(m *v1alpha1.StorageVersionMigration) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(at(time.Minute))}}
		}), time.Minute},
		"it is paused": {running(isPaused), 0},
		"it has succeeded": {
			running(func(m *v1alpha1.StorageVersionMigration) { m.Status.CompletedGeneration = 1 }), 0,
		},
		"another one is worked on": {append(running(nothing),
			running(func(m *v1alpha1.StorageVersionMigration) { m.Status.Progress.UpdateTime = at(time.Second) })...),
			time.Second},
		"it is to be carried again": {running(func(m *v1alpha1.StorageVersionMigration) {
			m.Status.CompletedGeneration,
				m.Spec.Generation = 1, 2
		}), time.Hour},
	} {
		if got := untouched(test.all, now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	var said strings.Builder
	o := &observer{Client: &records.Client{Program: "kube-migrator", Notes: &said}}
	o.warnIfQuiet(quiet, now)
	o.warnIfQuiet(quiet, now)
	want := "Nothing was written to any StorageVersionMigration for 1h0m0s: perhaps no controller runs.\nTry: " +
		"kubectl get pods --all-namespaces -l app.kubernetes.io/name=kube-migrator\n"
	if said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}
