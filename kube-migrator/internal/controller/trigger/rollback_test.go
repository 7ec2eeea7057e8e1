// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A rewrite by an API server drops the fields that only a newer release knows (I3).
func TestTheReleasesOfTheAPIServersDecideWhetherBuiltInResourcesAreRewritten(t *testing.T) {
	for name, test := range map[string]struct {
		recorded    string
		seen        []string
		unread      string
		accepted    bool
		newest      string
		status      metav1.ConditionStatus
		reason      string
		isContained string
	}{
		"the first look": {seen: []string{"v1.37.0"},
			newest: "1.37", status: metav1.ConditionFalse},
		"nothing changed": {recorded: "1.37", seen: []string{"v1.37.0"},
			newest: "1.37", status: metav1.ConditionFalse},
		"an upgrade": {recorded: "1.36", seen: []string{"v1.37.0"},
			newest: "1.37", status: metav1.ConditionFalse},
		"from one digit to two": {recorded: "1.9", seen: []string{"v1.10.0"},
			newest: "1.10", status: metav1.ConditionFalse},
		"an older patch release": {recorded: "1.37", seen: []string{"v1.37.0", "v1.37.2-gke.100"},
			newest: "1.37", status: metav1.ConditionFalse},
		"the start of an upgrade": {recorded: "1.36", seen: []string{"v1.36.3", "v1.37.0"},
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonMixedReleases, isContained: "1.36 and 1.37"},
		"installed during one": {seen: []string{"v1.36.3", "v1.37.0"},
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonMixedReleases},
		"the start of a rollback": {recorded: "1.37", seen: []string{"v1.36.3", "v1.37.0"},
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonMixedReleases},
		"a rollback": {recorded: "1.37", seen: []string{"v1.36.3"},
			newest: "1.37", status: metav1.ConditionTrue, reason: v1alpha1.ReasonOlderRelease, isContained: "from 1.37 to 1.36"},
		"a rollback over two": {recorded: "1.37", seen: []string{"v1.35.4", "v1.36.3"},
			newest: "1.37", status: metav1.ConditionTrue, reason: v1alpha1.ReasonOlderRelease},
		"an accepted rollback": {recorded: "1.37", seen: []string{"v1.36.3"}, accepted: true,
			newest: "1.36", status: metav1.ConditionFalse},
		"accepted, but still mixed": {recorded: "1.37", seen: []string{"v1.35.4", "v1.36.3"}, accepted: true,
			newest: "1.36", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonMixedReleases},
		"the newer release is back": {recorded: "1.37", seen: []string{"v1.37.0"},
			newest: "1.37", status: metav1.ConditionFalse},
		"a server shows none": {recorded: "1.37", seen: []string{"v1.37.0"}, unread: "api-2 does not answer",
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonReleaseNotKnown, isContained: "api-2 does not answer"},
		"accepted, and one is silent": {recorded: "1.37", seen: []string{"v1.36.3"}, unread: "api-2 does not answer", accepted: true,
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonReleaseNotKnown},
		"none shows one": {recorded: "1.37",
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonReleaseNotKnown},
		"what is no release": {recorded: "1.37", seen: []string{"dev"},
			newest: "1.37", status: metav1.ConditionUnknown, reason: v1alpha1.ReasonReleaseNotKnown, isContained: `"dev"`},
		"no release was ever shown": {unread: "forbidden",
			newest: "", status: metav1.ConditionFalse},
	} {
		newest, c := judgeReleases(test.recorded, agreement.Releases{All: test.seen, Unread: test.unread}, test.accepted)
		if newest != test.newest || c.Status != test.status || c.Reason != test.reason ||
			!strings.Contains(c.Message, test.isContained) {
			t.Errorf("%s: newest %q, %+v", name, newest, c)
		}
		if asks := strings.HasSuffix(c.Message, " Try: "+acceptRollback); asks != (c.Status == metav1.ConditionTrue) {
			t.Errorf("%s: names the command: %t, in %q", name, asks, c.Message)
		}
	}
}

// written holds any number of StorageStates and migrations, as an API server would, and notes what is done.
type written struct {
	client.Client
	states     map[string]*v1alpha1.StorageState
	migrations map[string]*v1alpha1.StorageVersionMigration
	done       []string
}

func (w *written) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	switch o := o.(type) {
	case *v1alpha1.StorageState:
		w.states[o.Name] = o.DeepCopy()
	case *v1alpha1.StorageVersionMigration:
		o.Spec.State = v1alpha1.StateActive
		w.migrations[o.Name] = o.DeepCopy()
		w.done = append(w.done, "create "+o.Name)
	}
	return nil
}

func (w *written) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *v1alpha1.StorageState:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "storagestates"}, key.Name)
	case *v1alpha1.StorageVersionMigration:
		w.migrations[key.Name].DeepCopyInto(o)
	case *corev1.Namespace:
		o.Name, o.UID = key.Name, "n"
	}
	return nil
}

func (w *written) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	m := o.(*v1alpha1.StorageVersionMigration)
	w.migrations[m.Name] = m.DeepCopy()
	w.done = append(w.done, "set "+m.Name+" "+string(m.Spec.State))
	return nil
}

func (w *written) Status() client.SubResourceWriter { return writtenStatus{written: w} }

type writtenStatus struct {
	client.SubResourceWriter
	written *written
}

func (s writtenStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	state := o.(*v1alpha1.StorageState)
	s.written.states[state.Name] = state.DeepCopy()
	s.written.done = append(s.written.done, "record "+state.Name)
	return nil
}

// rolling is a cluster with a built-in resource and a custom one. Each look finds that objects may be stored in two
// versions, so that both have to be migrated.
type rolling struct {
	*trigger
	written *written
	marked  time.Time
}

func newRolling() *rolling {
	w := &written{states: map[string]*v1alpha1.StorageState{}, migrations: map[string]*v1alpha1.StorageVersionMigration{}}
	r := &rolling{written: w}
	r.trigger = &trigger{
		Options: Options{Namespace: "n", Logger: slog.New(slog.DiscardHandler), Period: DefaultPeriod,
			RollbackAccepted: func(context.Context, rest.Interface) (time.Time, error) { return r.marked, nil }},
		client: w, positions: map[string]position{}, refused: map[string]string{}, proved: map[string]uint64{},
		events: events.NewFakeRecorder(100),
		asker:  asker{client: w, live: w, namespace: "n", create: true}, journal: newJournal(func() {}),
	}
	r.permits, _ = newPermits(nil, access.Account{}, prometheus.NewRegistry())
	r.permits.until[everything] = time.Now().Add(time.Hour)
	r.observer = observer{live: w, etcds: comparer{compared: map[string]string{}}, known: &inventory.Inventory{
		Resources: []inventory.Resource{*r.of("pods").entry, *r.of("widgets.demo.example.com").entry}}}
	return r
}

func (r *rolling) of(name string) *resource {
	origin := migrate.BuiltIn
	if strings.Contains(name, ".") {
		origin = migrate.Custom
	}
	gr := schema.ParseGroupResource(name)
	return &resource{names: []string{name}, view: agreement.Verdict{Resource: gr, Origin: origin},
		entry: &inventory.Resource{GroupResource: gr, Endpoint: "v1"}}
}

// look passes once over what servers of these releases show.
func (r *rolling) look(t *testing.T, releases ...string) {
	t.Helper()
	s := &observation{round: &agreement.Round{Releases: agreement.Releases{All: releases}},
		states: map[string]*v1alpha1.StorageState{}}
	for name, state := range r.written.states {
		s.states[name] = state.DeepCopy()
	}
	for _, m := range r.written.migrations {
		s.migrations = append(s.migrations, needed(m, map[string]string{}))
	}
	slices.SortFunc(s.migrations, func(a, b v1alpha1.StorageVersionMigration) int { return strings.Compare(a.Name, b.Name) })
	var plan []entryPlan
	for _, name := range []string{"pods", "widgets.demo.example.com"} {
		request := int64(1)
		if m := r.written.migrations[name]; m != nil {
			if request = 0; m.Status.CompletedGeneration == m.Spec.Generation {
				request = m.Spec.Generation + 1
			}
		}
		plan = append(plan, entryPlan{name: name, resource: r.of(name), state: s.states[name], requested: request != 1,
			decision: ledger.Decision{Request: request, Reason: "a doubt",
				State: ledger.State{Heartbeat: time.Now(), Persisted: []string{ledger.Unknown, "h"}, Current: "h"}}})
	}
	if err := errors.Join(r.carryOut(t.Context(), plan, s)...); err != nil {
		t.Fatal(err)
	}
}

func (r *rolling) did() []string {
	done := r.written.done
	r.written.done = nil
	return done
}

func TestARollbackAsksBeforeBuiltInResourcesAreRewritten(t *testing.T) {
	r := newRolling()
	expect := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, r.did()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	conditionOfPods := func() v1alpha1.Condition {
		return conditionOf(r.written.states["pods"].Status.Conditions, v1alpha1.ConditionRolledBack)
	}
	r.look(t, "v1.37.0")
	expect("both are requested", "record pods", "record widgets.demo.example.com", "create pods",
		"create widgets.demo.example.com")

	r.look(t, "v1.36.3")
	expect("the built-in one is paused before that is recorded", "set pods Paused", "record pods",
		"record widgets.demo.example.com")
	if c := conditionOfPods(); c.Status != metav1.ConditionTrue || r.written.states["pods"].Status.State !=
		v1alpha1.StoragePhaseRolledBack || !r.rolledBack {
		t.Errorf("after the rollback: %+v", r.written.states["pods"].Status)
	}
	if got := r.written.states["widgets.demo.example.com"].Status; heldBack(got.Conditions) || got.NewestRelease != "" {
		t.Errorf("the custom resource: %+v", got)
	}
	for name := range r.written.migrations {
		r.written.migrations[name].Status.CompletedGeneration = r.written.migrations[name].Spec.Generation
	}
	r.did()
	r.look(t, "v1.36.3")
	expect("only the custom resource is requested again", "set widgets.demo.example.com Active")

	r.written.migrations["widgets.demo.example.com"].Status.CompletedGeneration = 0
	r.written.migrations["pods"].Status.CompletedGeneration = 0
	r.written.migrations["pods"].Spec.State = v1alpha1.StateActive // a user resumes it by name
	r.look(t, "v1.36.3")
	expect("what a user wants is not paused again")
	r.written.migrations["pods"].Spec.State = v1alpha1.StatePaused

	r.look(t, "v1.36.3", "v1.37.0")
	expect("the newer release comes back", "record pods")
	r.look(t, "v1.37.0")
	expect("it is back", "record pods", "set pods Active")
	if c := conditionOfPods(); c.Type != "" || len(r.written.migrations["pods"].Annotations) > 0 || r.rolledBack {
		t.Errorf("once the newer release is back: %+v, migration %+v", c, r.written.migrations["pods"].ObjectMeta)
	}
}

func TestAnAcceptedRollbackIsAcceptedOnce(t *testing.T) {
	r := newRolling()
	r.look(t, "v1.37.0")
	r.marked = time.Now().Add(-time.Hour) // an earlier rollback was accepted
	r.look(t, "v1.36.3")
	if c := conditionOf(r.written.states["pods"].Status.Conditions, v1alpha1.ConditionRolledBack); c.Status !=
		metav1.ConditionTrue {
		t.Fatalf("the mark of an earlier rollback accepts this one: %+v", c)
	}
	r.look(t, "v1.36.3")
	if r.isAnswered(t.Context()) {
		t.Error("the mark of an earlier rollback is taken for an answer")
	}
	r.marked = conditionOf(r.written.states["pods"].Status.Conditions, v1alpha1.ConditionRolledBack).LastTransitionTime.Time
	if !r.isAnswered(t.Context()) {
		t.Error("the answer is not noticed")
	}
	r.look(t, "v1.36.3")
	if state := r.written.states["pods"].Status; heldBack(state.Conditions) || state.NewestRelease != "1.36" ||
		r.written.migrations["pods"].Spec.State != v1alpha1.StateActive {
		t.Errorf("accepted: %+v", state)
	}
	if r.isAnswered(t.Context()) {
		t.Error("it still waits for an answer")
	}
	delete(r.written.states, "pods") // to force rediscovery
	r.written.states["secrets"] = &v1alpha1.StorageState{ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		Status: v1alpha1.StorageStateStatus{NewestRelease: "1.37"}}
	r.look(t, "v1.36.3")
	if state := r.written.states["pods"].Status; state.NewestRelease != "1.37" || !isRolledBack(state.Conditions) {
		t.Errorf("a StorageState that is created again forgets the newest release: %+v", state)
	}
}

// A migration whose state a user sets while it is held back keeps that state later.
func TestWhatIsHeldBackReturnsToTheStateThatUsersSee(t *testing.T) {
	for name, test := range map[string]struct {
		state, then, want v1alpha1.State
		completed         int64
	}{
		"active":          {state: v1alpha1.StateActive, want: v1alpha1.StateActive},
		"paused":          {state: v1alpha1.StatePaused, want: v1alpha1.StatePaused},
		"cancelled":       {state: v1alpha1.StateCancelled, want: v1alpha1.StateCancelled},
		"succeeded":       {state: v1alpha1.StateActive, completed: 1, want: v1alpha1.StateActive},
		"cancelled since": {state: v1alpha1.StateActive, then: v1alpha1.StateCancelled, want: v1alpha1.StateCancelled},
		"resumed by name": {state: v1alpha1.StatePaused, then: v1alpha1.StateActive, want: v1alpha1.StateActive},
	} {
		m := &v1alpha1.StorageVersionMigration{Spec: v1alpha1.StorageVersionMigrationSpec{Generation: 1, State: test.state},
			Status: v1alpha1.StorageVersionMigrationStatus{CompletedGeneration: test.completed}}
		hold(m)
		if runs := m.Spec.State == v1alpha1.StateActive; runs != (test.completed == 1) {
			t.Errorf("%s: held back it is %s", name, m.Spec.State)
		}
		if hold(m) {
			t.Errorf("%s: it is held back twice", name)
		}
		if test.then != "" {
			m.Spec.State = test.then
		}
		letGo(m)
		if m.Spec.State != test.want || len(m.Annotations) > 0 || letGo(m) {
			t.Errorf("%s: let go it is %s, with %v", name, m.Spec.State, m.Annotations)
		}
	}
}
