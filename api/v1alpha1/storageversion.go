// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageVersion lets API servers publish in which version they encode one
// resource, and which versions they can decode. Its name is
// <group>.<resource>, with "core" for the core group. It is for API servers
// that cannot use internal.apiserver.k8s.io. The validation is that of
// internal.apiserver.k8s.io/v1alpha1; in addition, every list and string is
// bounded.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a superset of https://github.com/kubernetes/enhancements/pull/747"
// +kubebuilder:resource:scope=Cluster,categories=kube-migrator
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\\\\.[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name is <group>.<resource>, or core.<resource> for the core group"
// +kubebuilder:printcolumn:name="COMMON",type=string,JSONPath=`.status.commonEncodingVersion`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageVersion struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec is empty.
	// +optional
	Spec StorageVersionSpec `json:"spec,omitzero"`
	// Status holds the entries that the API servers publish.
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
	// Items are the StorageVersions.
	Items []StorageVersion `json:"items"`
}

// StorageVersionSpec is empty.
type StorageVersionSpec struct{}

// StorageVersionStatus holds the entries that API servers publish about one
// resource. The API servers set every field.
//
// +kubebuilder:validation:XValidation:rule="has(self.commonEncodingVersion) ? has(self.storageVersions) && size(self.storageVersions) > 0 && self.storageVersions.all(s, s.encodingVersion == self.commonEncodingVersion) : !has(self.storageVersions) || size(self.storageVersions) == 0 || self.storageVersions.exists(s, s.encodingVersion != self.storageVersions[0].encodingVersion)",message="commonEncodingVersion is the encodingVersion of all entries, and absent while they differ or there are none"
type StorageVersionStatus struct {
	// StorageVersions has one entry for each API server that serves the resource,
	// at most 64.
	// +optional
	// +listType=map
	// +listMapKey=apiServerID
	// +kubebuilder:validation:MaxItems=64
	StorageVersions []ServerStorageVersion `json:"storageVersions,omitempty"`
	// CommonEncodingVersion is the encodingVersion that all entries have,
	// "group/version". Absent while they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CommonEncodingVersion *string `json:"commonEncodingVersion,omitempty"`
	// Conditions has one type, AllEncodingVersionsEqual: it is True while all
	// entries have the same encodingVersion.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []Condition `json:"conditions,omitempty"`
}

// ServerStorageVersion is the entry of one API server.
//
// +kubebuilder:validation:XValidation:rule="has(self.decodableVersions) && self.encodingVersion in self.decodableVersions",message="decodableVersions must include encodingVersion"
// +kubebuilder:validation:XValidation:rule="!has(self.servedVersions) || has(self.decodableVersions) && self.servedVersions.all(v, v in self.decodableVersions)",message="decodableVersions must include all servedVersions"
type ServerStorageVersion struct {
	// APIServerID identifies the API server: the name of its identity Lease, a DNS
	// subdomain. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIServerID string `json:"apiServerID"`
	// EncodingVersion is the version in which it stores the resource:
	// "group/version", or "version" for the core group. Required, and one of
	// decodableVersions.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]*[a-z0-9])?$`
	EncodingVersion string `json:"encodingVersion"`
	// DecodableVersions are the versions that it can read from storage:
	// "group/version" each, at most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]*[a-z0-9])?$`
	DecodableVersions []string `json:"decodableVersions,omitempty"`
	// ServedVersions are the versions that it serves, a part of decodableVersions:
	// "group/version" each, at most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]*[a-z0-9])?$`
	ServedVersions []string `json:"servedVersions,omitempty"`
}
