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

// conditions returns the conditions of a migration that is in a phase, always all of ours and in the same order; each
// carries the reason and the message of the phase. Conditions of other types are kept behind them, as they are.
//
// Every condition says metadata.generation, which is what `kubectl wait` compares: a raised spec.generation voids an
// older success at once, before anyone has looked at it. A time moves only where what it is about does, so a status
// that says the same is the same. A paused migration is still reconciling: it is neither at its goal nor stalled. A
// cancelled one is stalled: it will not get there. It is pure.
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
