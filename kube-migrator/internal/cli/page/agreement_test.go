// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func TestTheTimelineShowsFromWhenTheServersAgreed(t *testing.T) {
	a := agreementOf(someProgress(), nil)
	if diff := cmp.Diff(map[State]int{Agree: 2, Disagree: 1, Unknown: 1}, a.Now); diff != "" {
		t.Errorf("now (-want +got):\n%s", diff)
	}
	var says []string
	for _, e := range a.events() {
		says = append(says, e.Time.Format("15:04 ")+e.sentence())
	}
	if diff := cmp.Diff([]string{
		"02:54 The API servers began to disagree about secrets: api-1 encodes v1.",
		"02:44 It became unknown whether the API servers agree about widgets.demo.example.com: api-2 did not answer.",
		"02:24 The API servers began to agree about gadgets.demo.example.com, nodes: v2, observed.",
	}, says); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := a.window(now); got != time.Hour {
		t.Errorf("the window is %v, want 1h", got)
	}
	var pieces []string
	for _, s := range a.spans(now, time.Hour) {
		pieces = append(pieces, fmt.Sprintf("%.2f-%.2f %d %d %d", s.begin, s.end, s.counts[Agree], s.counts[Unknown],
			s.counts[Disagree]))
	}
	if diff := cmp.Diff([]string{"0.00-0.33 0 4 0", "0.33-0.83 2 2 0", "0.83-1.00 2 1 1"}, pieces); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Server{{ID: "api-0", Process: "api-0_1", Resources: 4},
		{ID: "api-1", Process: "api-1_2", Resources: 4, Others: 1},
		{ID: "api-2", Resources: 4, Silent: 4}}, a.Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestEarlierChangesStayInTheTimeline(t *testing.T) {
	p := someProgress()
	first := agreementOf(p, nil)
	p.Resources[3].Recorded = recorded(metav1.ConditionTrue, v1alpha1.ReasonAgreement, "", time.Minute)
	second := agreementOf(p, first.Changes)
	if got := len(second.Changes) - len(first.Changes); got != 1 {
		t.Errorf("%d changes were added, want 1", got)
	}
	if again := agreementOf(p, second.Changes); len(again.Changes) != len(second.Changes) {
		t.Errorf("the same look added %d changes", len(again.Changes)-len(second.Changes))
	}
	pieces := second.spans(now, time.Hour)
	if last := pieces[len(pieces)-1]; last.counts[Agree] != 3 || last.counts[Disagree] != 0 {
		t.Errorf("at the end: %v", last.counts)
	}
	if got := pieces[len(pieces)-2].counts[Disagree]; got != 1 {
		t.Errorf("%d resources disagreed before, want 1", got)
	}
}

func TestEvidenceThatIsTooWeakIsNoAgreementAndNoDisagreement(t *testing.T) {
	r := someProgress().Resources[3]
	r.Recorded = recorded(metav1.ConditionFalse, v1alpha1.ReasonOnlySampled, "only one address answers", time.Hour)
	if got := changeOf(r); got.State != Unknown || got.Why != "only one address answers" {
		t.Errorf("got %+v", got)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	var earlier []Change
	for i := range most {
		earlier = append(earlier, Change{Time: now.Add(-time.Duration(most-i) * time.Hour), Resource: "nodes", State: Agree})
	}
	a := agreementOf(someProgress(), earlier)
	if len(a.Changes) != most || a.Changes[most-1].Resource != "secrets" {
		t.Errorf("%d changes, the last of %s", len(a.Changes), a.Changes[len(a.Changes)-1].Resource)
	}
}
