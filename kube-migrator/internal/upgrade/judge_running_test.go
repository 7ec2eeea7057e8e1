// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// run is a migration of widgets: its spec.generation, the generation of its last run, and what is true of it.
func run(
	name string,
	generation, last int64,
	is v1alpha1.ConditionType,
	edits ...func(*v1alpha1.StorageVersionMigration),
) v1alpha1.StorageVersionMigration {
	m := v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.StorageVersionMigrationSpec{Generation: generation, State: v1alpha1.StateActive},
		Status: v1alpha1.StorageVersionMigrationStatus{
			Run: v1alpha1.Run{Generation: last}, StorageVersionHash: widgetHash("v2"),
			Conditions: []v1alpha1.Condition{{Type: is, Status: metav1.ConditionTrue, Message: "so it is"}},
		},
	}
	if is == v1alpha1.ConditionSucceeded {
		m.Status.CompletedGeneration = last
	}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func TestAMigrationSaysWhatIsBeingDoneAndProvesNothing(t *testing.T) {
	const unknown = "its StorageState says Unknown: objects may be stored in versions that no one knows"
	cancelled := func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StateCancelled }
	paused := func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused }
	made := func(at time.Duration) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) { m.CreationTimestamp = metav1.NewTime(now.Add(at)) }
	}
	to := func(version string) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) { m.Status.StorageVersionHash = widgetHash(version) }
	}
	permitted := func(status metav1.ConditionStatus) Facts {
		f := widgets("Unknown")
		f.State.Conditions = append(
			f.State.Conditions,
			v1alpha1.Condition{Type: v1alpha1.ConditionPermitted, Status: status},
		)
		return f
	}
	because := func(reason string) Facts {
		f := permitted(metav1.ConditionFalse)
		f.State.Conditions[len(f.State.Conditions)-1].Reason = reason
		return f
	}
	losing := func(f Facts) Facts {
		f.MayLose = []string{"spec.b"}
		return f
	}
	const alone = "; a migration leaves objects alone that have spec.b, because they would lose it"
	type all = []v1alpha1.StorageVersionMigration
	for name, test := range map[string]struct {
		facts      Facts
		migrations all
		verdict    Verdict
		run        Run
		migration  string
		why, next  string
	}{
		"an administrator migrates it": {because(v1alpha1.ReasonByHand), nil, Undetermined, NotRequested, "",
			unknown + "; its migration is left to an administrator, because no admission policy can guard it against " +
				"a worker", "kube-migrator migrate widgets.demo.example.com"},
		"none": {widgets("Unknown"), nil, Undetermined, NotRequested, "", unknown,
			"kube-migrator request widgets.demo.example.com"},
		"none, and it would leave objects alone": {losing(widgets("Unknown")), nil, Undetermined, NotRequested, "",
			unknown + alone, "kube-migrator request widgets.demo.example.com"},
		"one that has not begun and would leave objects alone": {losing(widgets("Unknown")),
			all{run("m", 2, 1, v1alpha1.ConditionSucceeded)}, Undetermined, NotBegun, "m",
			unknown + alone + "; its migration has not begun", "kube-migrator wait m"},
		"one that has failed and says itself what it left alone": {losing(widgets("Unknown")),
			all{run("m", 1, 1, v1alpha1.ConditionFailed)}, Undetermined, HasFailed, "m",
			unknown + "; its migration failed: so it is", "kubectl describe storageversionmigrations.migration.k8s.io m"},
		"none is needed, so nothing is left alone": {losing(widgets("v2")), nil, Safe, NotRequested, "",
			"everything is stored as v2", ""},
		"one that has not begun": {widgets("Unknown"), all{run("m", 2, 1, v1alpha1.ConditionSucceeded)},
			Undetermined, NotBegun, "m", unknown + "; its migration has not begun", "kube-migrator wait m"},
		"one that is at work": {widgets("v1", "v2"), all{run("m", 1, 1, v1alpha1.ConditionReconciling)},
			Unsafe, AtWork, "m", "its StorageState says that objects may be stored as v1, not only as v2; its " +
				"migration is not finished: so it is", "kube-migrator wait m"},
		"one that is paused": {widgets("Unknown"),
			all{run("m", 1, 1, v1alpha1.ConditionRunning, paused)}, Undetermined, Paused, "m", unknown +
				"; its migration is paused", "kube-migrator resume m"},
		"one that was cancelled": {widgets("Unknown"),
			all{run("m", 1, 1, v1alpha1.ConditionRunning, cancelled)}, Undetermined, WasCancelled, "m", unknown +
				"; its migration was cancelled", "kube-migrator request widgets.demo.example.com"},
		"none, and the worker may not": {permitted(metav1.ConditionFalse), nil, Undetermined,
			NotRequested, "", unknown + "; it cannot be migrated: the worker's permissions do not cover it",
			"kube-migrator install"},
		"none, and the guard is not in force": {because(v1alpha1.ReasonUnguarded), nil, Undetermined, NotRequested, "",
			unknown + "; it cannot be migrated: the admission policies of the guard are not in force",
			"kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings"},
		"one that began before the worker might not": {permitted(metav1.ConditionFalse),
			all{run("m", 1, 1, v1alpha1.ConditionReconciling)}, Undetermined, AtWork, "m", unknown +
				"; its migration is not finished: so it is", "kube-migrator wait m"},
		"none, and the worker may": {permitted(metav1.ConditionTrue), nil, Undetermined, NotRequested,
			"", unknown, "kube-migrator request widgets.demo.example.com"},
		"one that has failed": {widgets("Unknown"), all{run("m", 1, 1, v1alpha1.ConditionFailed)},
			Undetermined, HasFailed, "m", unknown + "; its migration failed: so it is",
			"kubectl describe storageversionmigrations.migration.k8s.io m"},
		"a failure that is past": {widgets("Unknown"), all{run("m", 2, 1, v1alpha1.ConditionFailed)},
			Undetermined, NotBegun, "m", unknown + "; its migration has not begun", "kube-migrator wait m"},
		"a success that proved nothing": {widgets("Unknown"), all{run("m", 1, 1, v1alpha1.ConditionSucceeded)},
			Undetermined, HasSucceeded, "m", unknown, "kube-migrator request widgets.demo.example.com"},
		"a success without a record": {widgets(), all{run("m", 1, 1, v1alpha1.ConditionSucceeded)}, Undetermined,
			HasSucceeded, "m", "it has no StorageState: no one has recorded what is stored",
			"kube-migrator request widgets.demo.example.com"},
		"a failure after a proof": {widgets("v2"), all{run("m", 1, 1, v1alpha1.ConditionFailed)}, Safe,
			HasFailed, "m", "everything is stored as v2", ""},
		"another run after a proof": {widgets("v2"), all{run("m", 2, 1, v1alpha1.ConditionSucceeded)}, Safe,
			NotBegun, "m", "everything is stored as v2", ""},
		"what is not finished counts before what is": {widgets("v2"),
			all{run("done", 1, 1, v1alpha1.ConditionSucceeded, made(0)),
				run("runs", 1, 1, v1alpha1.ConditionRunning, made(-time.Hour))},
			Safe, AtWork, "runs", "everything is stored as v2", ""},
		"a success counts before a newer failure": {widgets("v2"),
			all{run("failed", 1, 1, v1alpha1.ConditionFailed, made(0)),
				run("done", 1, 1, v1alpha1.ConditionSucceeded, made(-time.Hour))},
			Safe, HasSucceeded, "done", "everything is stored as v2", ""},
		"the newest of successes with old versions": {widgets("v2"),
			all{run("a", 1, 1, v1alpha1.ConditionSucceeded, to("v1"), made(-time.Hour)),
				run("b", 1, 1, v1alpha1.ConditionSucceeded, to("v1"), made(0))}, Safe, HasSucceeded, "b",
			"everything is stored as v2", ""},
		"a resource that is gone": {Facts{Resource: schema.GroupResource{Resource: "gadgets"}, Gone: true},
			all{run("m", 1, 1, v1alpha1.ConditionRunning)}, Undetermined, AtWork, "m",
			"the API server does not serve it: what is still stored is unknown", "kube-migrator cancel m"},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.Migrations = test.migrations
			got := question().Judge(test.facts)
			want := Finding{Verdict: test.verdict, Run: test.run, Migration: test.migration,
				Why: test.why, Next: test.next}
			if diff := cmp.Diff(want, Finding{Verdict: got.Verdict, Run: got.Run, Migration: got.Migration,
				Why: got.Why, Next: got.Next}); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}
