// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// entryPlan is what to do about one resource.
type entryPlan struct {
	name     string
	resource *resource              // nil: the resource is gone
	state    *v1alpha1.StorageState // nil: there is no StorageState
	decision ledger.Decision
	// requested means that there is a migration of the resource, or has been one.
	requested bool
	// unsettled means that this look left something open and has to be repeated soon.
	unsettled bool
	failed    bool
	// forbidden means that the worker is forbidden to migrate it.
	forbidden bool
	// newest is the newest release that may have written objects, and rolledBack the condition about it. Both are empty
	// unless the resource is built-in.
	newest     string
	rolledBack v1alpha1.Condition
}

// urgent reports whether a version has to be recorded that was not recorded before.
func (e *entryPlan) urgent() bool {
	if e.decision.Forget || e.state == nil {
		return false
	}
	return !slices.Equal(e.state.Status.PersistedStorageVersionHashes, e.decision.State.Persisted)
}

// decide decides about every resource. Entries that add to a record come first (I1).
func (t *trigger) decide(s *observation) []entryPlan {
	var plan []entryPlan
	for name, r := range s.resources {
		e := entryPlan{name: name, resource: r, state: s.states[name]}
		e.requested = e.state != nil && e.state.Status.Requested || len(s.migrations.of(r.names)) > 0
		since, watched := t.positions[name]
		look := s.lookAt(r, e.state, t.journal, since, &t.Options)
		switch {
		case e.state == nil || len(e.state.Status.PersistedStorageVersionHashes) == 0:
			e.decision = ledger.First(look)
		case watched:
			e.decision = ledger.Looked(recorded(&e.state.Status), look)
		default:
			e.decision = ledger.Returned(recorded(&e.state.Status), look)
		}
		e.unsettled = look.Epoch == nil && (r.view.Disagree ||
			slices.ContainsFunc(look.Servers, func(server ledger.Server) bool { return !server.Answered }))
		// Nothing is requested until the epoch has settled. It may turn out then that nothing has to be rewritten.
		e.unsettled = e.unsettled || look.OnlyDecodable && !look.Settled && !e.decision.State.Migrated()
		plan = append(plan, e)
	}
	for name, state := range s.states {
		if s.missing(state) {
			plan = append(plan, entryPlan{name: name, state: state, decision: ledger.Decision{Forget: true}})
		}
	}
	slices.SortFunc(plan, func(a, b entryPlan) int {
		if a.urgent() != b.urgent() {
			if a.urgent() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return plan
}

// record writes the decision about one resource.
func (t *trigger) record(ctx context.Context, e *entryPlan, s *observation) error {
	if e.decision.Forget {
		return t.forget(ctx, e, s)
	}
	state := e.state
	if state == nil {
		state = &v1alpha1.StorageState{
			ObjectMeta: metav1.ObjectMeta{Name: e.name, Labels: labels()},
			Spec: v1alpha1.StorageStateSpec{Resource: v1alpha1.GroupResource{Group: groupOf(e.resource),
				Resource: e.resource.view.Resource.Resource}},
		}
		if err := t.client.Create(ctx, state); err != nil {
			return err
		}
	}
	next := status(&state.Status, e.decision.State, &e.resource.view, e.decision.Doubt, time.Now())
	next.Requested = e.requested
	next.HeartbeatPeriodSeconds, next.Excluded = t.promise(e.resource)
	next.NewestRelease = e.newest
	unheld := t.holdBack(ctx, e, s)
	if unheld == nil {
		next.Conditions = withRollback(next.Conditions, e.rolledBack, metav1.Now().Rfc3339Copy())
	}
	young := t.Period / 2
	at, waits := t.proved[e.name]
	if waits = waits && e.decision.State.Proven.UpTo >= at; waits {
		young = 0
	}
	if err := t.write(ctx, state, next, e.decision.Doubt, young); err != nil {
		return err
	}
	if waits && t.proved[e.name] == at {
		delete(t.proved, e.name)
	}
	e.state = state
	t.positions[e.name] = s.from
	if _, ok := s.collections[e.name]; ok {
		t.observer.etcds.compared[e.name] = s.servers()
	}
	// each look decides the same again, so only a change is logged
	if before := t.refused[e.name]; e.decision.Refused != "" && e.decision.Refused != before {
		t.Logger.Info("A migration succeeded but proves nothing", "resource", e.name, "reason", e.decision.Refused)
	}
	t.refused[e.name] = e.decision.Refused
	return unheld
}

// groupOf returns the group under which a resource is recorded.
func groupOf(r *resource) string {
	if r.entry != nil {
		return r.entry.Group
	}
	return r.view.Resource.Group
}

// never makes write leave an existing heartbeat alone whatever its age: only a look may renew a heartbeat.
const never = math.MaxInt64

// isYoung reports whether a heartbeat is younger than an age. A heartbeat that is equally far in the future does not
// count as young: a clock that was ahead has written it, and the record would seem fresh for hours without a look.
func isYoung(heartbeat, now time.Time, age time.Duration) bool { return now.Sub(heartbeat).Abs() < age }

// write writes the status of a StorageState. If only the heartbeat would change and it is still young, the write is
// omitted: the record is then equal to what was seen.
func (t *trigger) write(ctx context.Context, state *v1alpha1.StorageState, next v1alpha1.StorageStateStatus,
	doubt string, young time.Duration) error {
	next.State = phase(&next)
	if sameButHeartbeat(state.Status, next) && isYoung(state.Status.LastHeartbeatTime.Time, time.Now(), young) {
		return nil
	}
	if before := state.Status.PersistedVersions; doubt != "" || !slices.Equal(before, next.PersistedVersions) {
		t.Logger.Info("The versions that may be stored changed", "resource", state.Name, "before", before, "now",
			next.PersistedVersions, "doubt", doubt)
	}
	before := state.Status
	state.Status = next
	if err := t.client.Status().Update(ctx, state); err != nil {
		return err
	}
	t.observer.main.saw(state) // a later read must not return an older one
	if next.State == v1alpha1.StoragePhaseMigrated && before.State != next.State {
		t.proved[state.Name], t.lookAgain = t.observer.etcds.newest(), time.Now().Add(unseen+soon)
	}
	for _, n := range news(&before, &next, doubt) {
		t.events.Eventf(state, nil, n.kind, n.reason, "Look", "%s", n.message)
	}
	return nil
}

// promise returns what readers of a StorageState may rely on: how often its heartbeat is renewed, and whether
// migrations of it are requested.
func (o Options) promise(r *resource) (periodSeconds int64, excluded bool) {
	return int64(math.Ceil(o.Period.Seconds())), o.excludes(r.names)
}

// forget deletes our migration of a resource that is gone, and then its StorageState. After a crash in between, the
// next look finds the StorageState and deletes it.
func (t *trigger) forget(ctx context.Context, e *entryPlan, s *observation) error {
	if m := own(s.migrations.of([]string{e.name}), []string{e.name}); m != nil {
		if err := client.IgnoreNotFound(t.client.Delete(ctx, m, client.Preconditions{UID: &m.UID})); err != nil {
			return fmt.Errorf("delete migration %s: %w", m.Name, err)
		}
	}
	if e.state != nil {
		t.Logger.Info("A resource is gone", "resource", e.name)
		at := client.Preconditions{UID: &e.state.UID, ResourceVersion: &e.state.ResourceVersion}
		if err := client.IgnoreNotFound(t.client.Delete(ctx, e.state, at)); err != nil {
			return err
		}
	}
	delete(t.positions, e.name)
	delete(t.observer.etcds.compared, e.name)
	delete(t.observer.etcds.shared, e.name)
	delete(t.proved, e.name)
	delete(t.refused, e.name)
	return nil
}

// settle records the results of migrations since the last look. It reports whether a look is needed: a StorageState is
// missing, or a proof is about another epoch than the last look saw.
func (t *trigger) settle(ctx context.Context) (look bool, err error) {
	if err := t.recordStorageVersions(ctx); err != nil { // first: a proof must not trim what a CRD says by now (I1)
		return false, err
	}
	found, err := t.observer.read(ctx)
	if err != nil {
		return false, err
	}
	t.observer.etcds.note(found.version, time.Now())
	if found.restored {
		t.restored = true // the next look records it
		return true, nil
	}
	for name := range t.positions {
		state := found.states[name]
		if state == nil {
			delete(t.positions, name) // a user deleted it to force rediscovery
			look = true
			continue
		}
		names := []string{name}
		if t.observer.known != nil {
			if r, err := t.observer.known.Find(name); err == nil {
				names = r.Names()
			}
		}
		before, proofs := recorded(&state.Status), proofsOf(found.migrations.of(names), names)
		d := ledger.Finished(before, proofs, ledger.Collection{})
		if d.Refused == ledger.NotCompared && t.disturbed(name) {
			look = true // an etcd may have been restored since the run; the recorded epoch does not show it
			continue
		}
		if d.Refused == ledger.NotCompared {
			now, err := t.observer.etcds.read(ctx, []string{name}, found.version) // after the migrations
			if err != nil {
				t.Logger.Warn("Cannot compare a collection; its migration proves nothing yet", "error", err)
			}
			d = ledger.Finished(before, proofs, now[name])
		}
		look = look || d.Refused != "" && !before.Migrated()
		if slices.Equal(d.State.Persisted, before.Persisted) {
			continue
		}
		if err := t.write(ctx, state, status(&state.Status, d.State, nil, "", time.Now()), "", 0); err != nil {
			return look, fmt.Errorf("storage state %s: %w", name, err)
		}
	}
	return look, nil
}

// disturbed reports whether API servers may have come or gone, or the CRD may have changed, since the recorded look. It
// always does for aggregated API servers, which no one watches.
func (t *trigger) disturbed(name string) bool {
	p := t.journal.since(t.positions[name], name)
	return t.observer.etcds.collections[name].aggregated || !p.serversWatched ||
		len(p.processes) > 0 || len(p.crds) > 0
}

// recordStorageVersions records at once what changed CRDs tell servers to write: a look takes longer, and by its end
// the CRDs may have changed back (I1).
func (t *trigger) recordStorageVersions(ctx context.Context) error {
	here := t.journal.here()
	for _, name := range t.journal.changed(t.recordedUpTo) {
		state := new(v1alpha1.StorageState)
		if err := t.observer.live.Get(ctx, client.ObjectKey{Name: name}, state); apierrors.IsNotFound(err) {
			continue // the first look begins with Unknown
		} else if err != nil {
			return fmt.Errorf("read storage state %s: %w", name, err)
		}
		custom, err := crd.Get(ctx, t.observer.rest, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
		}
		before := recorded(&state.Status)
		d := ledger.Told(before, storageversion.Hash(schema.GroupVersionKind{
			Group: custom.Spec.Group, Version: custom.StorageVersion(), Kind: custom.Spec.Names.Kind,
		}))
		if err := t.write(ctx, state, status(&state.Status, d.State, nil, "", time.Now()), "", never); err != nil {
			return fmt.Errorf("storage state %s: %w", name, err)
		}
	}
	t.recordedUpTo = here
	return nil
}

// listen reacts to changes of StorageStates and migrations: to deleted StorageStates, and to migrations that complete.
func (t *trigger) listen(ctx context.Context) error {
	states, err := t.cache.GetInformer(ctx, &v1alpha1.StorageState{})
	if err != nil {
		return fmt.Errorf("watch storage states: %w", err)
	}
	t.metrics.begin()
	if _, err := states.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    t.metrics.recorded,
		UpdateFunc: func(_, after any) { t.metrics.recorded(after) },
		DeleteFunc: func(o any) { t.metrics.forgot(o); poke(t.changed) },
	}); err != nil {
		return fmt.Errorf("watch storage states: %w", err)
	}
	migrations, err := t.cache.GetInformer(ctx, &v1alpha1.StorageVersionMigration{})
	if err != nil {
		return fmt.Errorf("watch migrations: %w", err)
	}
	_, err = migrations.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			b, a := before.(*v1alpha1.StorageVersionMigration), after.(*v1alpha1.StorageVersionMigration)
			if b.Status.CompletedGeneration != a.Status.CompletedGeneration {
				poke(t.changed)
			}
		},
		DeleteFunc: func(any) { poke(t.moved) }, // ours may have to be requested again
	})
	if err != nil {
		return fmt.Errorf("watch migrations: %w", err)
	}
	return nil
}
