// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageVersionMigration requests that every stored object of one resource be
// rewritten in the present storage version. Its status shows the progress, and
// whether success was proven.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a superset of https://github.com/kubernetes/enhancements/pull/747"
// +kubebuilder:resource:scope=Cluster,shortName=svmig,categories=kube-migrator
// +kubebuilder:printcolumn:name="RESOURCE",type=string,JSONPath=`.spec.resource.resource`,description="Resource that is migrated"
// +kubebuilder:printcolumn:name="STORAGE",type=string,JSONPath=`.status.storageVersion`,description="Version that this run migrates to"
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.state`,description="State of the migration"
// +kubebuilder:printcolumn:name="DONE",type=integer,JSONPath=`.status.progress.done`,description="Objects accounted for"
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.progress.total`,description="Objects in the collection, an estimate until all are listed"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.progress.failed`,description="Objects that could not be rewritten"
// +kubebuilder:printcolumn:name="RATE",type=integer,JSONPath=`.status.progress.objectsPerSecond`,priority=1,description="Objects per second"
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.progress.estimatedCompletionTime`,priority=1,description="When the sweep is expected to end"
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.spec.reason`,priority=1,description="Why it was requested"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageVersionMigration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec is the request. Required.
	// +required
	Spec StorageVersionMigrationSpec `json:"spec,omitzero"`
	// Status is the progress and the outcome. Only kube-migrator writes it.
	// +optional
	// +kubebuilder:default={state: "Pending", conditions: {{type: "Reconciling", status: "True", reason: "Pending", message: "Waiting for the controller"}}}
	Status StorageVersionMigrationStatus `json:"status,omitzero"`
}

// StorageVersionMigrationList is a list of StorageVersionMigrations.
//
// +kubebuilder:object:root=true
type StorageVersionMigrationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the migrations.
	Items []StorageVersionMigration `json:"items"`
}

// GroupVersionResource names a resource and the version at which it is
// accessed.
type GroupVersionResource struct {
	// Group of the resource, a DNS subdomain. Empty, the default: the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group,omitempty"`
	// Version at which objects are listed and patched, a DNS label. Empty, the
	// default: the storage version if it is served, otherwise the preferred
	// version.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Version string `json:"version,omitempty"`
	// Resource is the plural name, such as "widgets", a DNS label. Required.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Resource string `json:"resource,omitempty"`
}

// GroupVersion is one version of an API group.
type GroupVersion struct {
	// Group that serves the resource, a DNS subdomain. Empty, the default: the
	// core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group,omitempty"`
	// Version in the group, such as "v1", a DNS label.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Version string `json:"version,omitempty"`
}

// StorageVersionMigrationSpec is a request. Users set its fields; the
// controller sets those of its own requests, and groupVersions.
//
// +kubebuilder:validation:XValidation:rule="!has(self.incrementalGeneration) || self.incrementalGeneration <= self.generation",message="incrementalGeneration is at most generation"
type StorageVersionMigrationSpec struct {
	// Resource to migrate. Required, and immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable; create another StorageVersionMigration for another resource"
	// +kubebuilder:validation:XValidation:rule="has(self.resource) && self.resource != ''",message="names no resource"
	Resource GroupVersionResource `json:"resource"`
	// GroupVersions are the API versions at which the resource is served: the
	// preferred version of its group first, then other groups that serve the same
	// objects. The controller fills them in for every migration and keeps them up
	// to date, unless another field manager has written them. They inform readers;
	// kube-migrator does not use them. Default: empty, until the controller has
	// filled them in.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	GroupVersions []GroupVersion `json:"groupVersions,omitempty"`
	// Generation counts the requested runs. Raise it to run the migration again; a
	// run of a lower generation is stopped. It cannot be lowered. At least 1.
	// Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="can only be raised"
	Generation int64 `json:"generation,omitempty"`
	// IncrementalGeneration is the generation whose run leaves out the objects
	// that status.proven of the StorageState covers, unless no run has succeeded
	// before. The controller sets it when it requests a run itself. A run of any
	// other generation, such as one that a user requests after an encryption key
	// was rotated, rewrites every object; set 0 along with generation if the
	// controller may raise generation at the same moment. At most generation.
	// Default: 0, which no run has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IncrementalGeneration int64 `json:"incrementalGeneration,omitempty"`
	// Reason is why the migration is requested, such as "key rotation", for
	// people. One line of text: control characters, line separators and other
	// invisible characters are rejected, since terminals would interpret them.
	// Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\p{C}\p{Zl}\p{Zp}]*$`
	Reason string `json:"reason,omitempty"`
	// State says whether the migration may write: Active, Paused or Cancelled. A
	// paused migration writes nothing, and continues where it stopped when it is
	// Active again. A cancelled migration writes nothing, and starts over when it
	// is Active again. Until then the controller requests no other migration of
	// the resource. Default: Active.
	// +optional
	// +kubebuilder:default=Active
	// +kubebuilder:validation:Enum=Active;Paused;Cancelled
	State State `json:"state,omitempty"`
	// Priority orders the migrations that wait for their turn: the highest comes
	// first. Each minute of waiting adds 1, so that none waits indefinitely.
	// Migrations that the controller requests have 1 to 24, by how soon the
	// versions that may be stored are likely to be removed. From 1 to 1000.
	// Default: 100, so that migrations of users come first.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
	// Pace limits the load on the API servers, in addition to the limits that they
	// impose by rejecting or delaying requests. Default: 64 requests in flight,
	// and no other limit.
	// +optional
	Pace Pace `json:"pace,omitzero"`
	// AcceptFieldLoss names fields of a custom resource that may be lost, each with
	// all fields below it, such as "spec.size" or "spec.rules[].name". An object
	// that would lose another field, because the schema under which it would be
	// stored does not have it, is not rewritten: the migration fails with the
	// reason WouldLoseFields and names object and field. Raise spec.generation
	// together with this field. Default: empty, no field may be lost.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^[^\p{C}\p{Zl}\p{Zp}]*$`
	AcceptFieldLoss []string `json:"acceptFieldLoss,omitempty"`
	// TTLSecondsAfterFinished is how long, in seconds, this object is kept after
	// its migration has succeeded. Values below 15 count as 15. In any case it is
	// kept until the StorageState of the resource records the proof, or refuses it
	// for good. The controller requests later migrations of the resource with
	// another object. If unset, the default, the object is kept indefinitely.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// ContinueToken is kept unchanged for clients of
	// kube-storage-version-migrator. kube-migrator never uses it, since a field
	// that users can write proves nothing. Printable ASCII characters, at most
	// 4096 of them. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[!-~]*$`
	ContinueToken string `json:"continueToken,omitempty"`
}

// State says whether a migration may write.
type State string

// DefaultPriority is the default of spec.priority.
const DefaultPriority int32 = 100

// The states of spec.state.
const (
	// StateActive lets the migration write.
	StateActive State = "Active"
	// StatePaused stops the migration; it continues where it stopped when it is
	// Active again.
	StatePaused State = "Paused"
	// StateCancelled stops the migration; it starts over when it is Active again.
	StateCancelled State = "Cancelled"
)

// The greatest values of the fields of a Pace; the CRD rejects greater ones.
const (
	MostObjectsPerSecond = 100000
	MostInFlight         = 1024
	MostBytesPerSecond   = 1000000000000
)

// Pace limits the load of one migration.
type Pace struct {
	// MaxObjectsPerSecond limits how many objects are rewritten per second. 0, the
	// default: no limit but the ones that the API servers impose.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxObjectsPerSecond int32 `json:"maxObjectsPerSecond,omitempty"`
	// MaxInFlight limits how many requests are in flight at once. 0, the default:
	// 64.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	MaxInFlight int32 `json:"maxInFlight,omitempty"`
	// MaxBytesPerSecond limits how many bytes per second the requests of the sweep
	// and their responses carry, both directions together. The bodies of lists,
	// patches and reads count as they are on the wire, compressed if the API
	// server compresses them. HTTP headers, HTTP/2 framing and TLS do not count:
	// about 250 bytes for each request. Requests outside the sweep (discovery,
	// Leases, the reports of the worker) do not count either. The bytes of one
	// second may arrive at once; a larger response delays the next request
	// accordingly. 0, the default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	MaxBytesPerSecond int64 `json:"maxBytesPerSecond,omitempty"`
}

// Phase is status.state: one word for people and printer columns. The
// conditions are the interface for programs.
// +kubebuilder:validation:Enum=Pending;Waiting;Running;Paused;Cancelled;Succeeded;Failed
type Phase string

// The phases.
const (
	// PhasePending means that the migration waits for its turn, or that its worker
	// starts or stops.
	PhasePending Phase = "Pending"
	// PhaseWaiting means that the migration waits for the API servers to agree,
	// for the settle time to pass, or for another migrator.
	PhaseWaiting Phase = "Waiting"
	// PhaseRunning means that a worker rewrites objects, or confirms the result.
	PhaseRunning Phase = "Running"
	// PhasePaused means that spec.state is Paused.
	PhasePaused Phase = "Paused"
	// PhaseCancelled means that spec.state is Cancelled.
	PhaseCancelled Phase = "Cancelled"
	// PhaseSucceeded means that every object is stored in the version that the
	// status names.
	PhaseSucceeded Phase = "Succeeded"
	// PhaseFailed means that the last attempt failed. The controller starts the
	// next one at status.run.retryTime.
	PhaseFailed Phase = "Failed"
)
