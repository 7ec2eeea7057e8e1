// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func TestEachPhaseHasItsConditions(t *testing.T) {
	order := []v1alpha1.ConditionType{
		v1alpha1.ConditionRunning,
		v1alpha1.ConditionSucceeded,
		v1alpha1.ConditionFailed,
		v1alpha1.ConditionReady,
		v1alpha1.ConditionReconciling,
		v1alpha1.ConditionStalled,
	}
	now := metav1.NewTime(time.Unix(1_000, 0))
	for phase, want := range map[v1alpha1.Phase][]v1alpha1.ConditionType{ // those that are True
		"":                      {v1alpha1.ConditionReconciling},
		v1alpha1.PhasePending:   {v1alpha1.ConditionReconciling},
		v1alpha1.PhaseWaiting:   {v1alpha1.ConditionRunning, v1alpha1.ConditionReconciling},
		v1alpha1.PhaseRunning:   {v1alpha1.ConditionRunning, v1alpha1.ConditionReconciling},
		v1alpha1.PhasePaused:    {v1alpha1.ConditionReconciling},
		v1alpha1.PhaseSucceeded: {v1alpha1.ConditionSucceeded, v1alpha1.ConditionReady},
		v1alpha1.PhaseFailed:    {v1alpha1.ConditionFailed, v1alpha1.ConditionStalled},
	} {
		t.Run(string(phase), func(t *testing.T) {
			var types, trues []v1alpha1.ConditionType
			for _, c := range conditions(nil, now, 3, phase, "Because", "A sentence.") {
				types = append(types, c.Type)
				if c.Status == metav1.ConditionTrue {
					trues = append(trues, c.Type)
				}
				want := v1alpha1.Condition{
					Type: c.Type, Status: c.Status, ObservedGeneration: 3, LastUpdateTime: now, LastTransitionTime: now,
					Reason: "Because", Message: "A sentence.",
				}
				if diff := cmp.Diff(want, c); diff != "" {
					t.Errorf("condition (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(order, types); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, trues); diff != "" {
				t.Errorf("true conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimesOfConditionsMoveOnlyWithWhatTheyAreAbout(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(1_000, 0)), metav1.NewTime(time.Unix(2_000, 0))
	before := conditions(nil, then, 3, v1alpha1.PhaseRunning, v1alpha1.ReasonRewriting, "Rewriting objects")
	for name, test := range map[string]struct {
		generation      int64
		phase           v1alpha1.Phase
		reason, message string
		updated         metav1.Time
		transitions     map[v1alpha1.ConditionType]bool
	}{
		"the same again is the same": {3, v1alpha1.PhaseRunning, v1alpha1.ReasonRewriting,
			"Rewriting objects", then, nil},
		"another message": {3, v1alpha1.PhaseRunning, v1alpha1.ReasonRewriting, "Trying again", now, nil},
		"another reason": {3, v1alpha1.PhaseRunning, v1alpha1.ReasonConfirming,
			"Rewriting objects", now, nil},
		"another metadata.generation": {4, v1alpha1.PhaseRunning, v1alpha1.ReasonRewriting,
			"Rewriting objects", now, nil},
		"success": {3, v1alpha1.PhaseSucceeded, v1alpha1.ReasonProven, "", now, map[v1alpha1.ConditionType]bool{
			v1alpha1.ConditionRunning: true, v1alpha1.ConditionSucceeded: true, v1alpha1.ConditionReady: true,
			v1alpha1.ConditionReconciling: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range conditions(before, now, test.generation, test.phase, test.reason, test.message) {
				transition := then
				if test.transitions[c.Type] {
					transition = now
				}
				if !c.LastUpdateTime.Equal(&test.updated) || !c.LastTransitionTime.Equal(&transition) {
					t.Errorf("%s: updated %v, transition %v, want %v, %v", c.Type, c.LastUpdateTime,
						c.LastTransitionTime, test.updated, transition)
				}
			}
		})
	}
}

func TestConditionsOfOthersAreKept(t *testing.T) {
	now := metav1.NewTime(time.Unix(2_000, 0))
	foreign := v1alpha1.Condition{Type: "example.com/Noticed", Status: metav1.ConditionTrue, Reason: "Seen"}
	// kube-storage-version-migrator writes neither lastTransitionTime nor observedGeneration.
	old := v1alpha1.Condition{Type: v1alpha1.ConditionRunning, Status: metav1.ConditionTrue,
		LastUpdateTime: metav1.NewTime(time.Unix(1, 0))}
	got := conditions([]v1alpha1.Condition{foreign, old}, now, 1, v1alpha1.PhaseRunning, "Rewriting", "")
	if len(got) != 7 || got[6] != foreign {
		t.Errorf("got %v, want ours and %v at the end", got, foreign)
	}
	if running := got[0]; running.Type != v1alpha1.ConditionRunning || !running.LastTransitionTime.Equal(&now) {
		t.Errorf("got %v, want Running to have the present time for the one that it lacked", running)
	}
}
