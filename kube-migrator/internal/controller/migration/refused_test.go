// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// refusing are runs whose creation the API server refuses for some migrations.
type refusing struct {
	*noted
	tried  []string
	reason map[string]error
}

func (r *refusing) start(ctx context.Context, m *v1alpha1.StorageVersionMigration, one run, seed string) error {
	r.tried = append(r.tried, m.Name)
	if err := r.reason[m.Name]; err != nil {
		return fmt.Errorf("create checkpoint %s: %w", one.name, err)
	}
	return r.noted.start(ctx, m, one, seed)
}

func overQuota() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "migrate-x",
		errors.New("exceeded quota: few, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2"))
}

// succeededBefore is a migration whose former generation has succeeded.
func succeededBefore(name string) *v1alpha1.StorageVersionMigration {
	m := fresh(name)
	m.Status.CompletedGeneration, m.Status.Run.Generation = m.Spec.Generation, m.Spec.Generation
	now := time.Now()
	m.Status = statusAfter(m, decide(facts{now: now, since: now, migration: m}), now, 0)
	m.Spec.Generation++
	return m
}

func conditionOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) v1alpha1.Condition {
	return m.Status.Conditions[slices.IndexFunc(m.Status.Conditions, ofType(t))]
}

func TestARunThatCannotBeCreatedSaysSoAndLetsTheOthersGoOn(t *testing.T) {
	refused, other := succeededBefore("gadgets"), fresh("widgets")
	c, kept, _, n := passing(t, refused, other)
	r := &refusing{noted: n, reason: map[string]error{"gadgets": overQuota()}}
	c.runs = r
	told := func() {
		t.Helper()
		s := refused.Status
		const want = "Cannot create the run of generation 3: create checkpoint migrate-of-gadge-3-1: configmaps " +
			`"migrate-x" is forbidden: exceeded quota: few`
		if !strings.HasPrefix(s.Summary, want) || s.State != v1alpha1.PhasePending || s.Run.Generation != 2 {
			t.Fatalf("the status is %s of generation %d: %s", s.State, s.Run.Generation, s.Summary)
		}
		if ready := conditionOf(refused, v1alpha1.ConditionSucceeded); ready.Status != metav1.ConditionFalse ||
			ready.Reason != v1alpha1.ReasonNotCreated || !strings.HasPrefix(ready.Message, want) {
			t.Fatalf("the condition is %+v", ready)
		}
	}
	if result, err := c.Reconcile(t.Context(), request{}); err != nil || result.RequeueAfter > settleInterval {
		t.Fatalf("the next pass is in %v (%v), want at once: another may have the turn", result.RequeueAfter, err)
	}
	told()
	if c.passes(t, 1); !slices.Equal(n.started, []string{"widgets"}) {
		t.Fatalf("started %v, want what is not refused", n.started)
	}
	told() // also while it is another's turn, and the next try is due
	writes := kept.writes
	if c.passes(t, 3); kept.writes > writes+1 { // that widgets have begun
		t.Errorf("%d writes of what is told already", kept.writes-writes)
	}
	told()

	n.all, other.Spec.State = nil, v1alpha1.StatePaused
	c.passes(t, 2)
	if want := []string{"gadgets", "widgets", "gadgets"}; !slices.Equal(r.tried, want) {
		t.Errorf("tried %v, want %v: another run could be created, so the first one is due", r.tried, want)
	}
	told()
	r.reason = nil
	c.refused["of-gadgets"] = refusedStart{} // its time has come
	if c.passes(t, 1); !slices.Equal(n.started, []string{"widgets", "gadgets"}) || len(c.refused) != 0 {
		t.Errorf("started %v, and %v are refused", n.started, c.refused)
	}
	if s := refused.Status; s.Summary != waitingForWorker || s.Run.Generation != 3 {
		t.Errorf("the status of generation %d is %s", s.Run.Generation, s.Summary)
	}
}

func TestOnlyWhatTheAPIServerRefusesIsARefusal(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a quota":                       {overQuota(), true},
		"an invalid object":             {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), true},
		"a webhook that fails":          {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"what exists by now":            {apierrors.NewAlreadyExists(resource, "x"), false},
		"what has changed":              {apierrors.NewConflict(resource, "x", nil), false},
		"what is gone":                  {apierrors.NewNotFound(resource, "x"), false},
		"an API server without answer":  {errors.New("connection refused"), false},
		"a controller that may not act": {errNotLeading, false},
		"no error":                      {nil, false},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("create job x: %w", err)
		}
		if got := isRefusal(err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// However many are refused, one of them is tried at a time, and each in its turn.
func TestRefusedStartsAreTriedOneAfterTheOther(t *testing.T) {
	all := refusedStarts{}
	for i, uid := range []types.UID{"a", "b", "c", "a"} {
		all.add(uid, errors.New("quota"), noon)
		if due := all[uid].due.Sub(noon); due != time.Duration(i+1)*startAgain {
			t.Errorf("the next try of %s is in %v", uid, due)
		}
	}
	m := fresh("gadgets")
	all[m.UID] = refusedStart{why: "quota", due: noon.Add(3 * time.Second)}
	s := snapshot{now: noon, migrations: []v1alpha1.StorageVersionMigration{*m}, refused: all}
	if p := planAll(s, 1, waits{}); p.migrations[0].step != stepNothing || p.again() != 3*time.Second {
		t.Errorf("%s, again in %v, want nothing before its time", p.migrations[0].step, p.again())
	}
	s.now = noon.Add(3 * time.Second)
	if p := planAll(s, 1, waits{}); p.migrations[0].step != stepStart {
		t.Errorf("%s, want a start at its time", p.migrations[0].step)
	}
	if all.started("b"); len(all) != 3 || !all["a"].due.IsZero() || all["a"].why != "quota" {
		t.Errorf("after another start: %+v, want all others due", all)
	}
}
