// Copyright 2019 The Test Operator Authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperatorGroupSpec defines the desired state of OperatorGroup
// +k8s:openapi-gen=true
type OperatorGroupSpec struct {
	// Selector chooses the namespaces.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// OperatorGroupStatus defines the observed state of OperatorGroup
// +k8s:openapi-gen=true
type OperatorGroupStatus struct {
	// CurrentPhase is where the object is in its life.
	CurrentPhase ObjectPhase `json:"currentPhase,omitempty"`
	// Namespaces are those that the selector chose.
	Namespaces []string `json:"namespaces,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// OperatorGroup is the Schema for the operatorgroups API
// +k8s:openapi-gen=true
// +kubebuilder:subresource:status
type OperatorGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OperatorGroupSpec   `json:"spec,omitempty"`
	Status OperatorGroupStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// OperatorGroupList contains a list of OperatorGroup
type OperatorGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperatorGroup `json:"items"`
}

func init() {
	SchemeBuilder.Register(&OperatorGroup{}, &OperatorGroupList{})
}
