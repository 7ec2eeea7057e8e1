// Copyright 2019 The Test Operator Authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewPhase returns a Phase with the given name and message.
func NewPhase(name, message string) *Phase {
	return &Phase{Name: name, Message: message}
}

// TransitionInto enters another phase, and reports whether it is another.
func (p *ObjectPhase) TransitionInto(next *Phase, now metav1.Time) bool {
	if p.Phase == *next {
		return false
	}
	// Only a real transition moves the time.
	p.Phase = *next
	p.LastTransitionTime = now
	return true
}
