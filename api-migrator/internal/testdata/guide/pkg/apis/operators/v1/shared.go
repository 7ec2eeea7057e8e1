// Copyright 2019 The Test Operator Authors

package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensureFinalizer adds a finalizer once.
func ensureFinalizer(meta *metav1.ObjectMeta, finalizer string) {
	if slices.Contains(meta.Finalizers, finalizer) {
		return
	}
	meta.Finalizers = append(meta.Finalizers, finalizer)
}
