// Copyright 2019 The Test Operator Authors

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EDIT THIS FILE!  THIS IS SCAFFOLDING FOR YOU TO OWN!
// NOTE: json tags are required.  Any new fields you add must have json tags for the fields to be serialized.

// CatalogSourceConfigSpec defines the desired state of CatalogSourceConfig
// +k8s:openapi-gen=true
type CatalogSourceConfigSpec struct {
	// TargetNamespace is where the catalog goes.
	TargetNamespace string `json:"targetNamespace"`
	// Packages is a list of names, separated by commas.
	// +optional
	Packages string `json:"packages,omitempty"` // parsed by PackageList
	// Size is how many packages may be there.
	// +kubebuilder:validation:Minimum=0
	Size int32 `json:"size"`
}

// CatalogSourceConfigStatus defines the observed state of CatalogSourceConfig
// +k8s:openapi-gen=true
type CatalogSourceConfigStatus struct {
	// CurrentPhase is where the object is in its life.
	CurrentPhase ObjectPhase `json:"currentPhase,omitempty"`
	// PackageVersions is what was found.
	PackageVersions map[string]string `json:"packageVersions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CatalogSourceConfig is the Schema for the catalogsourceconfigs API
// +k8s:openapi-gen=true
// +kubebuilder:subresource:status
type CatalogSourceConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CatalogSourceConfigSpec   `json:"spec,omitempty"`
	Status CatalogSourceConfigStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CatalogSourceConfigList contains a list of CatalogSourceConfig
type CatalogSourceConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CatalogSourceConfig `json:"items"`
}

func init() {
	SchemeBuilder.Register(&CatalogSourceConfig{}, &CatalogSourceConfigList{})
}
