/*
Copyright 2024 The Test Organisation.
*/

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GadgetPart is a part of a gadget.
type GadgetPart struct {
	Name   string  `json:"name"`
	Limits *Limits `json:"limits,omitempty"`
}

// GadgetSpec is what is wanted.
type GadgetSpec struct {
	Parts map[string][]*GadgetPart `json:"parts,omitempty"`
	// Root is converted by the functions that Widget has already.
	Root *Node `json:"root,omitempty"`
}

// +kubebuilder:object:root=true

// Gadget is a kind whose versions have the same fields, declared in each.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GadgetSpec `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true

// GadgetList is a list of gadgets.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gadget `json:"items"`
}

func init() { SchemeBuilder.Register(&Gadget{}, &GadgetList{}) }
