// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unknown stands among the hashes of a StorageState for versions that no one knows. Nothing is safe while it is there.
const Unknown = "Unknown"

// DefaultHeartbeatPeriod is what StorageStateStatus.HeartbeatPeriodSeconds means where it is absent.
const DefaultHeartbeatPeriod = 10 * time.Minute

// StorageState says in which versions the objects of one resource may be stored. Its name is the resource's:
// "widgets.demo.example.com".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a superset of https://github.com/kubernetes/enhancements/pull/747"
// +kubebuilder:resource:scope=Cluster,categories=kube-migrator
// +kubebuilder:printcolumn:name="PERSISTED",type=string,JSONPath=`.status.persistedVersions`,description="Versions that stored objects may be encoded in"
// +kubebuilder:printcolumn:name="CURRENT",type=string,JSONPath=`.status.currentVersion`,description="Version that the API servers encode in; empty while they disagree"
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.state`,description="Migrated, or why not: NotMigrated, Unknown, Disagreed, Forbidden or Excluded"
// +kubebuilder:printcolumn:name="SEEN",type=date,JSONPath=`.status.lastHeartbeatTime`,description="How long ago the API servers were last asked"
// +kubebuilder:printcolumn:name="EVIDENCE",type=string,JSONPath=`.status.evidence`,priority=1,description="How it is known that the API servers agree"
// +kubebuilder:printcolumn:name="WHY",type=string,JSONPath=`.status.conditions[?(@.type=="Migrated")].message`,priority=1,description="What the condition Migrated says"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.resource.resource + (has(self.spec.resource.group) && size(self.spec.resource.group) > 0 ? '.' + self.spec.resource.group : \"\")",message="the name is <resource>.<group>, or <resource> for the core group"
type StorageState struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec names the resource.
	// +required
	Spec StorageStateSpec `json:"spec,omitzero"`
	// Status is what is known. Written by kube-migrator alone; delete the object to force rediscovery.
	// +optional
	Status StorageStateStatus `json:"status,omitzero"`
}

// StorageStateList is a list of StorageStates.
//
// +kubebuilder:object:root=true
type StorageStateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the states.
	Items []StorageState `json:"items"`
}

// GroupResource names a resource.
type GroupResource struct {
	// Group of the resource, a DNS subdomain. Empty, the default: the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group,omitempty"`
	// Resource is the plural name, such as "widgets", a DNS label. Required.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Resource string `json:"resource,omitempty"`
}

// StorageStateSpec names the resource.
type StorageStateSpec struct {
	// Resource that the state is about. Required, and immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Resource GroupResource `json:"resource,omitzero"`
}

// StoragePhase is status.state of a StorageState: one word for people and printer columns. The conditions are the
// interface for programs.
type StoragePhase string

// The values of StoragePhase. Where several apply, it is the first of Excluded, Migrated, Forbidden, Disagreed, Unknown
// and NotMigrated: what a person has to resolve first.
const (
	StoragePhaseExcluded  StoragePhase = "Excluded"  // the installation leaves the resource out
	StoragePhaseMigrated  StoragePhase = "Migrated"  // everything that is stored is in the current version
	StoragePhaseForbidden StoragePhase = "Forbidden" // the worker lacks a permission
	StoragePhaseDisagreed StoragePhase = "Disagreed" // the API servers encode the resource in different versions
	StoragePhaseUnknown   StoragePhase = "Unknown"   // objects may be stored in versions that no one knows
	// objects may be stored in other known versions than the current one
	StoragePhaseNotMigrated StoragePhase = "NotMigrated"
)

// StorageStateStatus is what is known of how a resource is stored.
type StorageStateStatus struct {
	// State is one word for people: Migrated (everything that is stored is in the current version), or why the resource
	// is not migrated. Excluded: the installation leaves it out. Forbidden: the worker lacks a permission. Disagreed:
	// the API servers encode it in different versions. Unknown: objects may be stored in versions that no one knows.
	// NotMigrated: objects may be stored in other known versions. Where several apply, Excluded and Migrated come
	// first, then the others in this order. Programs read the conditions. Empty: an older controller wrote the status.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	State StoragePhase `json:"state,omitempty"`
	// PersistedStorageVersionHashes are the hashes of the versions that stored objects may be encoded in, in the order
	// in which they came. "Unknown" stands for versions that no one knows. An upgrade or downgrade is safe only to API
	// servers that can decode all of them, and not while "Unknown" is among them. Empty: nothing was recorded yet, and
	// nothing is safe.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	PersistedStorageVersionHashes []string `json:"persistedStorageVersionHashes,omitempty"`
	// CurrentStorageVersionHash is the hash of the version that the API servers encode the resource in now, as
	// discovery shows it: base64 of 8 bytes. "Unknown" while they disagree. Empty: nobody has looked yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CurrentStorageVersionHash string `json:"currentStorageVersionHash,omitempty"`
	// LastHeartbeatTime is when the API servers were last asked, in RFC 3339. Absent: they never were.
	// +optional
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime,omitzero"`
	// HeartbeatPeriodSeconds is how often the API servers are asked while nothing moves, in seconds. While a controller
	// runs, lastHeartbeatTime is never older than one and a half periods and the time that asking takes; a record that
	// is older says nothing about the present. Absent or 0: 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HeartbeatPeriodSeconds int64 `json:"heartbeatPeriodSeconds,omitempty"`
	// Excluded says that the options --include and --exclude of the controller leave this resource out: what may be
	// stored is recorded, and the controller requests no migration. Reports of the whole cluster leave the resource
	// out. Default: false.
	// +optional
	Excluded bool `json:"excluded,omitempty"`
	// PersistedVersions are persistedStorageVersionHashes in the same order, for people: the version, such as "v1",
	// where it is known, else the hash itself.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	PersistedVersions []string `json:"persistedVersions,omitempty"`
	// CurrentVersion is currentStorageVersionHash as a version, such as "v2". Empty where no known version has that
	// hash.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CurrentVersion string `json:"currentVersion,omitempty"`
	// ServerStorageVersions say what each API server encodes the resource in, at most 64 of them.
	// +optional
	// +listType=map
	// +listMapKey=apiServerID
	// +kubebuilder:validation:MaxItems=64
	ServerStorageVersions []ServerEncodingVersion `json:"serverStorageVersions,omitempty"`
	// AgreedEncodingVersion is the version that all API servers encode in, such as "v2". Empty while they disagree.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	AgreedEncodingVersion string `json:"agreedEncodingVersion,omitempty"`
	// Evidence is how the agreement is known: Declared (the API servers publish what they store), Observed (each was
	// asked) or Sampled (only a shared address was), the strongest first. Empty while there is no agreement.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Evidence string `json:"evidence,omitempty"`
	// Epoch is the period of agreement that lasts now. Absent while there is none.
	// +optional
	Epoch *Epoch `json:"epoch,omitempty"`
	// Definition is the CustomResourceDefinition as it was when the API servers were last asked. Absent for other
	// resources.
	// +optional
	Definition *RecordedDefinition `json:"definition,omitempty"`
	// RequiredStartResourceVersion tells which runs can prove that nothing is stored in another version: those of
	// StorageVersionMigrations whose status.run.startResourceVersion is greater, whoever created them. Earlier ones may
	// have passed objects that were then written in another version. In decimal. Empty: none proves anything yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RequiredStartResourceVersion string `json:"requiredStartResourceVersion,omitempty"`
	// OnlyDecodable says that no migration has proven what persistedStorageVersionHashes say. Every API server
	// declares, in StorageVersion objects, that it can decode no version but the current one: there is nothing that any
	// of them could rewrite. Default: false.
	// +optional
	OnlyDecodable bool `json:"onlyDecodable,omitempty"`
	// ResourceVersion is that of the resource's own collection when it was compared last, in decimal. A lesser one, or
	// one that is greater by more than could have been written since, tells later that the etcd of this resource was
	// restored from a backup. Empty: it was never compared.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Witness is an object of the collection as it was when the collection was compared last: the same object with a
	// lesser resourceVersion tells later that etcd was restored, also where the collection's resourceVersion is not
	// lower. Absent: the collection was empty, or is one of a custom resource, whose etcd is the one that holds this
	// object.
	// +optional
	Witness *RecordedWitness `json:"witness,omitempty"`
	// Traces are what API servers leave behind for longer than they live, as of the last look: a new one tells of a
	// server that came and went unseen. Opaque.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=512
	Traces []string `json:"traces,omitempty"`
	// Requested is true once there was a StorageVersionMigration of the resource. A controller with --bootstrap=none
	// asks for migrations of such resources, also after that object was deleted. Default: false.
	// +optional
	Requested bool `json:"requested,omitempty"`
	// Conditions are AllEncodingVersionsEqual (all API servers encode the resource in one version), Migrated
	// (everything that is stored is in the current version) and, where a permission of the worker is or was missing,
	// Permitted (the worker may migrate the resource).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []Condition `json:"conditions,omitempty"`
}

// RecordedDefinition is what a CustomResourceDefinition said about storage at one generation.
type RecordedDefinition struct {
	// UID of the definition. Required.
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`
	// Generation is its metadata.generation. Required.
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`
	// StorageVersionHash is the hash of the storage version in its spec. Required.
	// +kubebuilder:validation:MaxLength=64
	StorageVersionHash string `json:"storageVersionHash"`
}

// RecordedWitness is one object as it was at one moment.
type RecordedWitness struct {
	// UID of the object. Required.
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid"`
	// ResourceVersion is its metadata.resourceVersion, in decimal. Required.
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion"`
}

// ServerEncodingVersion is what one API server encodes a resource in.
type ServerEncodingVersion struct {
	// APIServerID identifies the API server: the name of its identity Lease, or its address. Required.
	// +kubebuilder:validation:MaxLength=512
	APIServerID string `json:"apiServerID"`
	// HolderIdentity identifies the process: the holder of the identity Lease. Empty where that is not known.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	HolderIdentity string `json:"holderIdentity,omitempty"`
	// Answered is true once the process has been asked and has answered. One that goes away before may have written
	// anything. Default: false.
	// +optional
	Answered bool `json:"answered,omitempty"`
	// EncodingVersionHash is the storageVersionHash that its discovery shows. Empty: it did not answer, or does not
	// serve the resource.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	EncodingVersionHash string `json:"encodingVersionHash,omitempty"`
	// EncodingVersion is that hash as a version, such as "v2". Empty where no known version has that hash.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	EncodingVersion string `json:"encodingVersion,omitempty"`
}
