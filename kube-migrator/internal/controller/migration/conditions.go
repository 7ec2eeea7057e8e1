// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// ourConditions are the types of the conditions that this controller writes.
var ourConditions = []v1alpha1.ConditionType{
	v1alpha1.ConditionRunning, v1alpha1.ConditionSucceeded, v1alpha1.ConditionFailed, v1alpha1.ConditionReady,
	v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
}

// conditions returns the conditions of a migration in a phase: always all of ours, in the same order, each with the
// reason and the message of the phase. Conditions of other types follow unchanged.
//
// Every condition contains metadata.generation, which `kubectl wait` compares: a raised spec.generation invalidates an
// older success at once, before the controller has seen it. A time changes only with what it is about, so an unchanged
// status stays the same. A paused migration is still reconciling: it has neither reached its goal nor stalled. A
// cancelled one is stalled, because it will not reach its goal. It is pure.
func conditions(previous []v1alpha1.Condition, now metav1.Time, metadataGeneration int64, phase v1alpha1.Phase, reason,
	message string) []v1alpha1.Condition {
	succeeded, failed := phase == v1alpha1.PhaseSucceeded, phase == v1alpha1.PhaseFailed
	stalled := failed || phase == v1alpha1.PhaseCancelled
	all := []struct {
		is   v1alpha1.ConditionType
		true bool
	}{
		{v1alpha1.ConditionRunning, phase == v1alpha1.PhaseRunning || phase == v1alpha1.PhaseWaiting},
		{v1alpha1.ConditionSucceeded, succeeded},
		{v1alpha1.ConditionFailed, failed},
		{v1alpha1.ConditionReady, succeeded},
		{v1alpha1.ConditionReconciling, !succeeded && !stalled},
		{v1alpha1.ConditionStalled, stalled},
	}
	next := make([]v1alpha1.Condition, 0, len(all))
	for _, one := range all {
		c := v1alpha1.Condition{Type: one.is, Status: metav1.ConditionFalse, ObservedGeneration: metadataGeneration,
			Reason: reason, Message: message}
		if one.true {
			c.Status = metav1.ConditionTrue
		}
		next = append(next, c.Dated(previous, now))
	}
	for _, c := range previous {
		if !slices.ContainsFunc(next, ofType(c.Type)) {
			next = append(next, c)
		}
	}
	return next
}

func ofType(t v1alpha1.ConditionType) func(v1alpha1.Condition) bool {
	return func(c v1alpha1.Condition) bool { return c.Type == t }
}
