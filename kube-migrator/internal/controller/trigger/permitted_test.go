// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

func TestAConditionTellsWhatTheWorkerMayNotMigrate(t *testing.T) {
	lacks := &access.ForbiddenError{Permission: access.Permission{Verb: "patch",
		Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}}}
	begun, now := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Hour))
	forbidden, ok := permitted(nil, lacks, false, begun)
	if !ok || forbidden.Status != metav1.ConditionFalse || forbidden.Reason != v1alpha1.ReasonForbidden ||
		forbidden.Message != "forbidden: the worker cannot patch widgets.demo.example.com, so that no migration is "+
			"requested. Try: kube-migrator install" {
		t.Errorf("the first time: %v, %+v", ok, forbidden)
	}
	if c, ok := permitted(nil, lacks, true, begun); !ok || c.Status != metav1.ConditionFalse ||
		c.Reason != v1alpha1.ReasonUnguarded || !strings.HasSuffix(c.Message, "is granted nothing until the admission "+
		"policies of the guard are in force. Try: "+showGuard) {
		t.Errorf("without the guard: %v, %+v", ok, c)
	}
	policies := &access.ForbiddenError{Permission: access.Permission{Verb: "get",
		Resource: schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}}}
	if c, ok := permitted(nil, policies, true, begun); !ok || c.Status != metav1.ConditionFalse ||
		c.Reason != v1alpha1.ReasonByHand ||
		!strings.HasSuffix(c.Message, "an administrator migrates it. Try: kube-migrator migrate "+
			"validatingadmissionpolicies.admissionregistration.k8s.io") {
		t.Errorf("what no policy guards: %v, %+v", ok, c)
	}
	before := []v1alpha1.Condition{{Type: v1alpha1.ConditionMigrated}, forbidden}
	if again, ok := permitted(before, lacks, false, now); !ok || again != forbidden {
		t.Errorf("again: %v, %+v, want no change of %+v", ok, again, forbidden)
	}
	if granted, ok := permitted(before, nil, false, now); !ok || granted.Status != metav1.ConditionTrue ||
		granted.LastTransitionTime != now {
		t.Errorf("once it is granted: %v, %+v", ok, granted)
	}
	if c, ok := permitted(before[:1], nil, false, now); ok {
		t.Errorf("what was never forbidden gets %+v", c)
	}
}

// An earlier look may have been overtaken by a write about a changed CRD. Its condition is then refused as a conflict, and
// the next look decides.
func TestNothingIsRequestedWhileTheConditionAboutPermissionsIsNotWritten(t *testing.T) {
	for _, refusal := range []error{nil, apierrors.NewConflict(schema.GroupResource{}, settled, errors.New("it was modified"))} {
		tr, m := settling(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
		})
		m.refusal = refusal
		m.state.Status.Conditions = append(m.state.Status.Conditions,
			v1alpha1.Condition{Type: v1alpha1.ConditionPermitted, Status: metav1.ConditionFalse})
		permits, err := newPermits(tr.observer.rest, access.Account{}, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		tr.permits = permits
		plan := []entryPlan{{name: settled, state: m.state.DeepCopy(), resource: &resource{entry: &inventory.Resource{
			GroupResource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}}}}}
		problems := errors.Join(tr.permit(t.Context(), plan)...)
		if failed := refusal != nil; plan[0].failed != failed || (problems != nil) != failed || plan[0].forbidden {
			t.Errorf("with the error %v: %+v, problems %v", refusal, plan[0], problems)
		}
	}
}

// Alerts about forbidden resources recommend `kube-migrator install`, which does not help with these.
func TestWhatAnAdministratorMigratesByHandIsNotCountedAsForbidden(t *testing.T) {
	for reason, want := range map[string]bool{v1alpha1.ReasonForbidden: true, v1alpha1.ReasonByHand: false} {
		s := &v1alpha1.StorageStateStatus{Conditions: []v1alpha1.Condition{{Type: v1alpha1.ConditionPermitted,
			Status: metav1.ConditionFalse, Reason: reason}}}
		if got := slices.Contains(measure(s).reasons, abnormalForbidden); got != want {
			t.Errorf("with the reason %s it counts as forbidden: %t, want %t", reason, got, want)
		}
		if !slices.Contains(measure(s).reasons, abnormalNotMigrated) {
			t.Errorf("with the reason %s it does not count as not migrated", reason)
		}
	}
}

func TestForbiddenResourcesLeaveTheNumberOfSeriesBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	p, err := newPermits(nil, access.Account{}, registry)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		p.forbid(fmt.Sprintf("made-up-%d.example.com", i))
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != mostNamed || len(p.missing) != 5000 {
		t.Errorf("%d families (%v), %d missing, want %d series and 5,000 missing", len(families),
			err, len(p.missing), mostNamed)
	}
}
