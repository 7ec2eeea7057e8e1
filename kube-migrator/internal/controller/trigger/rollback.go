// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// An API server drops the fields that its release does not know when it reads an object, and a rewrite stores what is
// left. So a built-in resource is not rewritten while an API server is older than the newest release that may have
// written objects (I3). This file decides that, and pauses the migrations that were requested before
// (docs/adr/0027-a-rollback-asks-first.md).

// acceptRollback is the command that lets the migrations go on, and with them the fields.
const acceptRollback = "kube-migrator resume --all --accept-rollback"

// minorOf returns the minor release, such as "1.37", which decides the fields that an API server knows; nil if it
// cannot be parsed.
func minorOf(release string) *version.Version {
	v, err := version.ParseGeneric(release)
	if err != nil {
		return nil
	}
	return version.MajorMinor(v.Major(), v.Minor())
}

// textOf is the inverse of minorOf.
func textOf(v *version.Version) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

func isOlder(a, b *version.Version) bool { return b != nil && (a == nil || a.LessThan(b)) }

// judgeReleases decides about one built-in resource. recorded is the newest release that may have written objects as the
// record has it, "" if nothing is recorded yet, and accepted means that a user gives its fields up. It returns the
// release to record, and the condition, whose status is False if the resource may be migrated. It is pure.
func judgeReleases(recorded string, seen agreement.Releases, accepted bool) (newest string, c v1alpha1.Condition) {
	var oldest, youngest *version.Version
	unread := seen.Unread
	for _, release := range seen.All {
		v := minorOf(release)
		if v == nil {
			unread = fmt.Sprintf("%q is not a release of Kubernetes", release)
			continue
		}
		if oldest == nil || isOlder(v, oldest) {
			oldest = v
		}
		if isOlder(youngest, v) {
			youngest = v
		}
	}
	if oldest == nil && unread == "" {
		unread = "none could be asked"
	}
	known := minorOf(recorded)
	if isOlder(known, youngest) || accepted && youngest != nil && unread == "" {
		known = youngest
	}
	c = v1alpha1.Condition{Type: v1alpha1.ConditionRolledBack, Status: metav1.ConditionFalse}
	switch {
	case known == nil: // no release was ever seen
	case unread != "":
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonReleaseNotKnown
		c.Message = fmt.Sprintf("API servers of Kubernetes %s have written objects, and an API server does not show its "+
			"release: %s. Nothing is rewritten until it does", textOf(known), unread)
	case isOlder(youngest, known):
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonOlderRelease
		c.Message = fmt.Sprintf("Kubernetes was rolled back from %s to %s: a rewrite would drop the fields of objects "+
			"that only %s knows. Nothing is rewritten until the API servers are of %s again, or a user accepts that. Try: %s",
			textOf(known), textOf(oldest), textOf(known), textOf(known), acceptRollback)
	case isOlder(oldest, known):
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonMixedReleases
		c.Message = fmt.Sprintf("API servers of Kubernetes %s and %s write: a rewrite by the older one would drop fields. "+
			"Nothing is rewritten until all are of %s", textOf(oldest), textOf(known), textOf(known))
	}
	return textOf(known), c
}

// heldBack reports whether a built-in resource is not migrated because of the releases of the API servers.
func heldBack(conditions []v1alpha1.Condition) bool {
	return conditionOf(conditions, v1alpha1.ConditionRolledBack).Type != ""
}

func isRolledBack(conditions []v1alpha1.Condition) bool {
	return conditionOf(conditions, v1alpha1.ConditionRolledBack).Status == metav1.ConditionTrue
}

// withRollback replaces the condition. One with the status False is left out: no condition means that nothing is held
// back.
func withRollback(all []v1alpha1.Condition, c v1alpha1.Condition, now metav1.Time) []v1alpha1.Condition {
	next := slices.DeleteFunc(slices.Clone(all),
		func(c v1alpha1.Condition) bool { return c.Type == v1alpha1.ConditionRolledBack })
	if c.Type == "" || c.Status == metav1.ConditionFalse {
		return next
	}
	return append(next, c.Dated(all, now))
}

// compareReleases decides for each built-in resource whether it is held back.
func (t *trigger) compareReleases(ctx context.Context, plan []entryPlan, s *observation) error {
	accepted, err := t.acceptedUntil(ctx, s)
	t.rolledBack = false
	for i := range plan {
		e := &plan[i]
		if e.resource == nil || e.resource.view.Origin != migrate.BuiltIn {
			continue
		}
		before := e.before()
		recorded := before.NewestRelease
		if recorded == "" { // a user may have deleted the StorageState, which must not forget a release
			recorded = newestOf(s)
		}
		since := conditionOf(before.Conditions, v1alpha1.ConditionRolledBack).LastTransitionTime
		e.newest, e.rolledBack = judgeReleases(recorded, s.round.Releases,
			isRolledBack(before.Conditions) && !accepted.Before(since.Time))
		t.rolledBack = t.rolledBack || e.rolledBack.Status == metav1.ConditionTrue
	}
	return err
}

// before returns the recorded status, which is empty if there is none.
func (e *entryPlan) before() v1alpha1.StorageStateStatus {
	if e.state == nil {
		return v1alpha1.StorageStateStatus{}
	}
	return e.state.Status
}

// holdBack pauses the migrations of a resource that were requested before the API servers were older. It does so before
// the condition is recorded, which says that it was done: if the process dies in between, the next look does it again. A
// migration that is requested later is carried out, because its user can see the condition.
func (t *trigger) holdBack(ctx context.Context, e *entryPlan, s *observation) error {
	if e.rolledBack.Type == "" || e.rolledBack.Status == metav1.ConditionFalse || heldBack(e.before().Conditions) {
		return nil
	}
	var problems []error
	for _, m := range s.migrations.of(e.resource.names) {
		if err := t.steer(ctx, &m, hold); err != nil {
			problems = append(problems, fmt.Errorf("hold back migration %s: %w", m.Name, err))
		}
	}
	return errors.Join(problems...)
}

// newestOf returns the newest release that any StorageState records.
func newestOf(s *observation) string {
	var newest *version.Version
	for _, state := range s.states {
		if v := minorOf(state.Status.NewestRelease); isOlder(newest, v) {
			newest = v
		}
	}
	return textOf(newest)
}

// acceptedUntil reads which rollbacks a user has accepted: those that were recorded by then. It reads nothing while
// nothing is rolled back.
func (t *trigger) acceptedUntil(ctx context.Context, s *observation) (time.Time, error) {
	for _, state := range s.states {
		if t.RollbackAccepted == nil || !isRolledBack(state.Status.Conditions) {
			continue
		}
		accepted, err := t.RollbackAccepted(ctx, t.observer.rest)
		if err != nil {
			return time.Time{}, fmt.Errorf("read whether the rollback is accepted: %w", err)
		}
		t.accepted = accepted
		return accepted, nil
	}
	return time.Time{}, nil
}

// isAnswered reports whether a user has accepted a rollback since the last look that found one.
func (t *trigger) isAnswered(ctx context.Context) bool {
	if !t.rolledBack || t.RollbackAccepted == nil {
		return false
	}
	accepted, err := t.RollbackAccepted(ctx, t.observer.rest)
	return err == nil && accepted.After(t.accepted)
}

// release lets the migrations go on that hold has paused.
func (t *trigger) release(ctx context.Context, plan []entryPlan, s *observation) (problems []error) {
	for i := range plan {
		e := &plan[i]
		if e.resource == nil || e.failed || e.state == nil || heldBack(e.state.Status.Conditions) {
			continue
		}
		for _, m := range s.migrations.of(e.resource.names) {
			if _, held := m.Annotations[v1alpha1.StateBeforeRollback]; !held {
				continue
			}
			if err := t.steer(ctx, &m, letGo); err != nil {
				problems = append(problems, fmt.Errorf("let migration %s go on: %w", m.Name, err))
			}
		}
	}
	return problems
}

// hold pauses a migration that has not succeeded, and notes which state it had. It reports whether it changed m.
func hold(m *v1alpha1.StorageVersionMigration) bool {
	_, held := m.Annotations[v1alpha1.StateBeforeRollback]
	if held || m.Spec.State == v1alpha1.StateCancelled || m.Spec.Generation <= m.Status.CompletedGeneration {
		return false
	}
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.StateBeforeRollback, string(m.Spec.State))
	m.Spec.State = v1alpha1.StatePaused
	return true
}

// letGo undoes hold. A state that a user has set since stays.
func letGo(m *v1alpha1.StorageVersionMigration) bool {
	before, held := m.Annotations[v1alpha1.StateBeforeRollback]
	if !held {
		return false
	}
	delete(m.Annotations, v1alpha1.StateBeforeRollback)
	if m.Spec.State == v1alpha1.StatePaused && before != string(v1alpha1.StatePaused) {
		m.Spec.State = v1alpha1.StateActive
	}
	return true
}

// mostConflicts is how often steer tries again. The status of a migration that runs is written every few seconds.
const mostConflicts = 5

// steer changes a migration under its resourceVersion.
func (t *trigger) steer(ctx context.Context, m *v1alpha1.StorageVersionMigration,
	change func(*v1alpha1.StorageVersionMigration) bool) (err error) {
	for range mostConflicts {
		before := m.DeepCopy()
		if !change(m) {
			return nil
		}
		err = t.client.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			break
		}
		if err := t.observer.live.Get(ctx, client.ObjectKey{Name: before.Name}, m); err != nil || m.UID != before.UID {
			return client.IgnoreNotFound(err)
		}
	}
	if err == nil {
		t.Logger.Info("A migration was held back, or let go, because of the releases of the API servers",
			"migration", m.Name, "state", m.Spec.State)
	}
	return client.IgnoreNotFound(err)
}
