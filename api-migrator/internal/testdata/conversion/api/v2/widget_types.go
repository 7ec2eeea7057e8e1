/*
Copyright 2024 The Test Organisation.
*/

package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Mode is how a widget turns.
// +kubebuilder:validation:Enum=Slow;Fast
type Mode string

// Colour is the key of a map.
type Colour string

// Labels is a named map.
type Labels map[string]string

// Limits are the same in both versions, declared in each.
type Limits struct {
	Soft *int32 `json:"soft,omitempty"`
	Hard int32  `json:"hard"`
}

// Part is one of the parts of a widget.
type Part struct {
	Name  string   `json:"name"`
	Count int32    `json:"count,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	// Material is new.
	Material string `json:"material,omitempty"`
}

// Node is a node of a tree.
type Node struct {
	Name     string `json:"name,omitempty"`
	Weight   int32  `json:"weight,omitempty"`
	Children []Node `json:"children,omitempty"`
}

// Security is who may do what.
type Security struct {
	Users []string `json:"users,omitempty"`
	TLS   *bool    `json:"tls,omitempty"`
}

// WidgetSpec is what is wanted.
type WidgetSpec struct {
	Paused bool   `json:"paused,omitempty"`
	Owner  string `json:"owner,omitempty"`

	Replicas int32               `json:"replicas"`
	Mode     Mode                `json:"mode,omitempty"`
	Port     *intstr.IntOrString `json:"port,omitempty"`
	Since    metav1.Time         `json:"since,omitempty"`
	Period   *metav1.Duration    `json:"period,omitempty"`
	Timeout  metav1.Duration     `json:"timeout,omitempty"`
	Labels   Labels              `json:"labels,omitempty"`
	Limits   *Limits             `json:"limits,omitempty"`
	Bounds   []Limits            `json:"bounds,omitempty"`
	ByColour map[Colour]Limits   `json:"byColour,omitempty"`
	// +listType=map
	// +listMapKey=name
	Parts      []Part            `json:"parts,omitempty"`
	PartsByTag map[string]*Part  `json:"partsByTag,omitempty"`
	Groups     map[string][]Part `json:"groups,omitempty"`
	Root       *Node             `json:"root,omitempty"`
	Security   Security          `json:"security,omitempty"`
}

// WidgetStatus is what there is.
type WidgetStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Ready      int32              `json:"ready,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion

// Widget is a kind whose versions differ.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec,omitempty"`
	Status WidgetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func init() { SchemeBuilder.Register(&Widget{}, &WidgetList{}) }
