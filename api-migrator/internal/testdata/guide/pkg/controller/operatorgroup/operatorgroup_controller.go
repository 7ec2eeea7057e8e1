// Copyright 2019 The Test Operator Authors

// Package operatorgroup reconciles OperatorGroups.
package operatorgroup

import (
	"github.com/test-org/test-operator/pkg/apis/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fail gives a group up.
func Fail(group *v1.OperatorGroup, why string) {
	group.EnsureFinalizer()
	group.Status.CurrentPhase.TransitionInto(v1.NewPhase(v1.PhaseFailed, why), metav1.Now())
}
