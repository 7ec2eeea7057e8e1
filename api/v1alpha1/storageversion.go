// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageVersion is where API servers publish in which version they encode one resource, and which they can decode.
// Its name is <group>.<resource>, with "core" for the core group. For API servers that cannot use internal.apiserver.k8s.io.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a superset of https://github.com/kubernetes/enhancements/pull/747"
// +kubebuilder:resource:scope=Cluster,categories=kube-migrator
// +kubebuilder:printcolumn:name="COMMON",type=string,JSONPath=`.status.commonEncodingVersion`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageVersion struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec is empty.
	// +optional
	Spec StorageVersionSpec `json:"spec,omitzero"`
	// Status is what the API servers published.
	// +optional
	Status StorageVersionStatus `json:"status,omitzero"`
}

// StorageVersionList is a list of StorageVersions.
//
// +kubebuilder:object:root=true
type StorageVersionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the storage versions.
	Items []StorageVersion `json:"items"`
}

// StorageVersionSpec is empty.
type StorageVersionSpec struct{}

// StorageVersionStatus is what API servers published about one resource.
type StorageVersionStatus struct {
	// StorageVersions has one entry for each API server that serves the resource, at most 64.
	// +optional
	// +listType=map
	// +listMapKey=apiServerID
	// +kubebuilder:validation:MaxItems=64
	StorageVersions []ServerStorageVersion `json:"storageVersions,omitempty"`
	// CommonEncodingVersion is the encodingVersion that all entries have, "group/version". Absent while they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CommonEncodingVersion *string `json:"commonEncodingVersion,omitempty"`
	// Conditions are AllEncodingVersionsEqual: all entries have one encodingVersion.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []Condition `json:"conditions,omitempty"`
}

// ServerStorageVersion is what one API server published.
type ServerStorageVersion struct {
	// APIServerID identifies the API server: the name of its identity Lease. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	APIServerID string `json:"apiServerID"`
	// EncodingVersion is the version in which it stores the resource: "group/version". Empty: it does not store it.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	EncodingVersion string `json:"encodingVersion,omitempty"`
	// DecodableVersions are the versions that it can read from storage: "group/version" each, at most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	DecodableVersions []string `json:"decodableVersions,omitempty"`
	// ServedVersions are the versions that it serves, a part of decodableVersions: "group/version" each, at most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	ServedVersions []string `json:"servedVersions,omitempty"`
}
