// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unknown stands among the hashes of a StorageState for versions that cannot
// be determined. While it is there, no upgrade, downgrade or removal of a
// version counts as safe.
const Unknown = "Unknown"

// DefaultHeartbeatPeriod applies where
// StorageStateStatus.HeartbeatPeriodSeconds is absent.
const DefaultHeartbeatPeriod = 10 * time.Minute

// StorageState records in which versions the objects of one resource may be
// stored. It is named after the resource, such as "widgets.demo.example.com".
// The controller creates one for each resource that is stored in etcd.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a superset of https://github.com/kubernetes/enhancements/pull/747"
// +kubebuilder:resource:scope=Cluster,categories=kube-migrator
// +kubebuilder:printcolumn:name="PERSISTED",type=string,JSONPath=`.status.persistedVersions`,description="Versions that stored objects may be encoded in"
// +kubebuilder:printcolumn:name="CURRENT",type=string,JSONPath=`.status.currentVersion`,description="Version that the API servers encode in; empty while they disagree"
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.state`,description="Migrated, or why not: NotMigrated, Unknown, Disagreed, RolledBack, Forbidden or Excluded"
// +kubebuilder:printcolumn:name="SEEN",type=date,JSONPath=`.status.lastHeartbeatTime`,description="How long ago the API servers were last asked"
// +kubebuilder:printcolumn:name="EVIDENCE",type=string,JSONPath=`.status.evidence`,priority=1,description="How it is known that the API servers agree"
// +kubebuilder:printcolumn:name="WHY",type=string,JSONPath=`.status.conditions[?(@.type=="Migrated")].message`,priority=1,description="Message of the condition Migrated"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.resource.resource + (has(self.spec.resource.group) && size(self.spec.resource.group) > 0 ? '.' + self.spec.resource.group : \"\")",message="the name is <resource>.<group>, or <resource> for the core group"
type StorageState struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec names the resource.
	// +required
	Spec StorageStateSpec `json:"spec,omitzero"`
	// Status is the record. Only kube-migrator writes it; delete the object to
	// force rediscovery.
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
	// Items are the StorageStates.
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
	// Resource whose stored versions are recorded. Required, and immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Resource GroupResource `json:"resource,omitzero"`
}

// StoragePhase is status.state of a StorageState: one word for people and
// printer columns. The conditions are the interface for programs.
type StoragePhase string

// The values of StoragePhase. Where several apply, the first of Excluded,
// Migrated, Forbidden, RolledBack, Disagreed, Unknown and NotMigrated is shown:
// the one that a person has to resolve first.
const (
	// StoragePhaseExcluded means that the installation leaves the resource out.
	StoragePhaseExcluded StoragePhase = "Excluded"
	// StoragePhaseMigrated means that every stored object is in the current
	// version.
	StoragePhaseMigrated StoragePhase = "Migrated"
	// StoragePhaseForbidden means that the worker lacks a permission.
	StoragePhaseForbidden StoragePhase = "Forbidden"
	// StoragePhaseRolledBack means that the API servers are older than a release
	// that may have written objects.
	StoragePhaseRolledBack StoragePhase = "RolledBack"
	// StoragePhaseDisagreed means that the API servers encode the resource in
	// different versions.
	StoragePhaseDisagreed StoragePhase = "Disagreed"
	// StoragePhaseUnknown means that objects may be stored in versions that cannot
	// be determined.
	StoragePhaseUnknown StoragePhase = "Unknown"
	// StoragePhaseNotMigrated means that objects may be stored in known versions
	// other than the current one.
	StoragePhaseNotMigrated StoragePhase = "NotMigrated"
)

// StorageStateStatus records how a resource is stored. The controller sets
// every field.
type StorageStateStatus struct {
	// State is one word for people: Migrated (every stored object is in the
	// current version), or the reason why the resource is not migrated. Excluded:
	// the installation leaves it out. Forbidden: the worker lacks a permission.
	// RolledBack: the API servers are older than what may have written objects.
	// Disagreed: the API servers encode it in different versions. Unknown: objects
	// may be stored in versions that cannot be determined. NotMigrated: objects
	// may be stored in other known versions. Where several apply, Excluded and
	// Migrated come first, then the others in this order. Programs read the
	// conditions instead. Empty: an older controller wrote the status.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	State StoragePhase `json:"state,omitempty"`
	// PersistedStorageVersionHashes are the hashes of the versions that stored
	// objects may be encoded in, in the order in which they were first recorded.
	// "Unknown" stands for versions that cannot be determined. An upgrade or
	// downgrade is safe only to API servers that can decode all of these versions,
	// and is never safe while "Unknown" is among them. Empty: nothing was recorded
	// yet, so no upgrade or downgrade counts as safe.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	PersistedStorageVersionHashes []string `json:"persistedStorageVersionHashes,omitempty"`
	// CurrentStorageVersionHash is the hash of the version that the API servers
	// encode the resource in now, as discovery shows it: base64 of 8 bytes.
	// "Unknown" while they disagree. Empty: the API servers have not been asked
	// yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CurrentStorageVersionHash string `json:"currentStorageVersionHash,omitempty"`
	// LastHeartbeatTime is when the API servers were last asked, in RFC 3339.
	// Absent: they never were.
	// +optional
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime,omitzero"`
	// HeartbeatPeriodSeconds is the interval at which the API servers are asked
	// while nothing changes, in seconds. While a controller runs,
	// lastHeartbeatTime is never older than one and a half periods plus the time
	// that asking takes. Do not rely on a record that is older. Absent or 0: 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HeartbeatPeriodSeconds int64 `json:"heartbeatPeriodSeconds,omitempty"`
	// Excluded is true if the options --include and --exclude of the controller
	// leave this resource out. The controller still records what may be stored,
	// but requests no migration, and reports on the whole cluster skip the
	// resource. Default: false.
	// +optional
	Excluded bool `json:"excluded,omitempty"`
	// PersistedVersions are persistedStorageVersionHashes in the same order, for
	// people: the version, such as "v1", where it is known, else the hash itself.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	PersistedVersions []string `json:"persistedVersions,omitempty"`
	// CurrentVersion is currentStorageVersionHash as a version, such as "v2".
	// Empty where no known version has that hash.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	CurrentVersion string `json:"currentVersion,omitempty"`
	// ServerStorageVersions list the version in which each API server encodes the
	// resource, at most 64 of them.
	// +optional
	// +listType=map
	// +listMapKey=apiServerID
	// +kubebuilder:validation:MaxItems=64
	ServerStorageVersions []ServerEncodingVersion `json:"serverStorageVersions,omitempty"`
	// AgreedEncodingVersion is the version that all API servers encode in, such as
	// "v2". Empty while they disagree.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	AgreedEncodingVersion string `json:"agreedEncodingVersion,omitempty"`
	// Evidence is how the agreement is known: Declared (the API servers publish
	// what they store), Observed (each one was asked) or Sampled (not each one
	// could be asked), the strongest first. Empty while they do not agree.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Evidence string `json:"evidence,omitempty"`
	// Epoch is the present period of agreement. Absent while the API servers do
	// not agree.
	// +optional
	Epoch *Epoch `json:"epoch,omitempty"`
	// Definition is the CustomResourceDefinition as it was when the API servers
	// were last asked. Absent for other resources.
	// +optional
	Definition *RecordedCRD `json:"definition,omitempty"`
	// RequiredStartResourceVersion bounds the runs that can prove that no object
	// is stored in another version: those of StorageVersionMigrations whose
	// status.run.startResourceVersion is greater, no matter who created them. An
	// earlier run may have passed objects that were then written in another
	// version. In decimal. Empty: no run proves anything yet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RequiredStartResourceVersion string `json:"requiredStartResourceVersion,omitempty"`
	// OnlyDecodable is true if persistedStorageVersionHashes rest on declarations
	// instead of a migration: every API server declares, in StorageVersion
	// objects, that it can decode no version but the current one, so that none of
	// them could rewrite an object. Default: false.
	// +optional
	OnlyDecodable bool `json:"onlyDecodable,omitempty"`
	// ResourceVersion is the resourceVersion of the resource's own collection when
	// it was last compared, in decimal. If it is lower at the next comparison, or
	// higher by more than could have been written since, the etcd of this resource
	// was restored from a backup. Empty: it was never compared.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Witness is an object of the collection as it was when the collection was
	// last compared. If the same object has a lower resourceVersion later, etcd
	// was restored, even if the collection's resourceVersion is not lower. Absent:
	// the collection was empty, or the resource is a custom resource, which is
	// stored in the same etcd as this object.
	// +optional
	Witness *RecordedWitness `json:"witness,omitempty"`
	// Proven is the part of the last proofs that no doubt about later writes takes
	// back. A run that such a doubt causes rewrites only other objects. Absent:
	// nothing, and every object is rewritten.
	// +optional
	Proven *RecordedProof `json:"proven,omitempty"`
	// Traces are objects that API servers leave behind after they end, as found
	// when they were last listed. A new one reveals an API server that started and
	// ended between two listings. The format is opaque.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=512
	Traces []string `json:"traces,omitempty"`
	// Requested is true once a StorageVersionMigration of the resource has
	// existed. A controller with --bootstrap=none requests migrations of such
	// resources only, even after that object was deleted. Default: false.
	// +optional
	Requested bool `json:"requested,omitempty"`
	// NewestRelease is the newest release of Kubernetes whose API servers may have
	// written objects of a built-in resource, such as "1.37". Empty: none is known,
	// or the resource is not built-in.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	NewestRelease string `json:"newestRelease,omitempty"`
	// Conditions are AllEncodingVersionsEqual (all API servers encode the resource
	// in one version), Migrated (every stored object is in the current version);
	// where a permission of the worker is or was missing, Permitted (the worker may
	// migrate the resource); and, while nothing is rewritten because API servers are
	// older than the newest release that may have written objects, RolledBack.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []Condition `json:"conditions,omitempty"`
}

// RecordedProof says that every object of the resource whose resourceVersion is
// at most ResourceVersion is stored in the version of StorageVersionHash. This
// holds until etcd is restored from a backup.
type RecordedProof struct {
	// StorageVersionHash is the hash of the version, as discovery shows it: base64
	// of 8 bytes. Required.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	StorageVersionHash string `json:"storageVersionHash,omitempty"`
	// ResourceVersion is a resourceVersion of the collection, in decimal. It rises
	// while the API servers are seen to write the same version. Required.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// RecordedCRD is the part of a CustomResourceDefinition that is about
// storage, as of one generation.
type RecordedCRD struct {
	// UID of the CustomResourceDefinition. Required.
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

// ServerEncodingVersion is the version in which one API server encodes a
// resource.
type ServerEncodingVersion struct {
	// APIServerID identifies the API server: the name of its identity Lease, or
	// its address. Required.
	// +kubebuilder:validation:MaxLength=512
	APIServerID string `json:"apiServerID"`
	// HolderIdentity identifies the process: the holder of the identity Lease.
	// Empty where that is not known.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	HolderIdentity string `json:"holderIdentity,omitempty"`
	// Answered is true once the process has answered a request. A process that
	// ends before that may have written in any version. Default: false.
	// +optional
	Answered bool `json:"answered,omitempty"`
	// EncodingVersionHash is the storageVersionHash in the discovery document of
	// this API server. Empty: it did not answer, or does not serve the resource.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	EncodingVersionHash string `json:"encodingVersionHash,omitempty"`
	// EncodingVersion is that hash as a version, such as "v2". Empty where no
	// known version has that hash.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	EncodingVersion string `json:"encodingVersion,omitempty"`
}
