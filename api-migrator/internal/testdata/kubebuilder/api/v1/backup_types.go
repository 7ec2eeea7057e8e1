/*
Copyright 2024 The Test Organisation.
*/

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Medium is what a place is on.
// +kubebuilder:validation:Enum=Disk;Tape
type Medium string

// The media.
const (
	Disk Medium = "Disk"
	Tape Medium = "Tape"
)

// Place is where data lies.
type Place struct {
	// Medium is Disk or Tape.
	Medium Medium `json:"medium"`
	// Labels choose it.
	Labels map[string]string `json:"labels,omitempty"`
}

// BackupSpec defines the desired state of Backup
type BackupSpec struct {
	Place Place `json:"place"`
}

// +kubebuilder:object:root=true

// Backup is the Schema for the backups API
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BackupSpec `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true

// BackupList contains a list of Backup
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}
