// Copyright 2019 The Test Operator Authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The phases of an object, in their order.
const (
	// PhaseInitial is where everything begins.
	PhaseInitial = "Initial"
	// PhaseRunning is the state that is wanted.
	PhaseRunning = "Running" // and the longest
	// PhaseFailed is final.
	PhaseFailed = "Failed"
)

// ObjectPhase describes the phase of an object, with the time of its last transition.
// +k8s:openapi-gen=true
type ObjectPhase struct {
	// Phase is the present one.
	Phase Phase `json:"phase,omitempty"`
	// LastTransitionTime is when the phase was entered.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// Phase describes the phase of an object that is being reconciled.
// +k8s:openapi-gen=true
type Phase struct {
	// Name is the name of the phase.
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
}
