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
	// impose by rejecting or delaying requests. Default: 32 requests in flight,
	// and no other limit.
	// +optional
	Pace Pace `json:"pace,omitzero"`
	// TTLSecondsAfterFinished is how long, in seconds, this object is kept after
	// its migration has succeeded. Values below 15 count as 15, in which the
	// controller records the proof. The controller requests later migrations of
	// the resource with another object. If unset, the default, the object is kept
	// indefinitely.
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
	// 32.
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

// StorageVersionMigrationStatus is the progress and the outcome of a
// migration. The controller sets every field.
type StorageVersionMigrationStatus struct {
	// State is one word for people: Pending (for its turn), Waiting (for the API
	// servers to agree), Running, Paused, Cancelled, Succeeded or Failed. Programs
	// read the conditions instead. Default: Pending.
	// +optional
	State Phase `json:"state,omitempty"`
	// Summary describes the progress or the outcome in one line, for people. Empty
	// until the controller has decided about the migration.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// ObservedGeneration is the spec.generation for which a worker was last
	// started. It is absent while the migration is succeeded, failed, paused or
	// cancelled and metadata.generation differs from spec.generation, which every
	// change of state, pace or groupVersions leads to: kstatus compares this field
	// with metadata.generation, and would wait indefinitely. Do not compare it
	// with spec.generation; two other fields are always set: a migration has
	// succeeded when completedGeneration equals spec.generation, and a run of
	// spec.generation has started when run.generation equals it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// CompletedGeneration is the highest spec.generation whose run has succeeded.
	// Clients wait until it equals spec.generation. 0: no run has succeeded.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CompletedGeneration int64 `json:"completedGeneration,omitempty"`
	// Run identifies the run that the rest of the status describes. Absent before
	// the first one.
	// +optional
	Run Run `json:"run,omitzero"`
	// StorageVersion is the version that this run migrates to, in the resource's
	// group: "v1". Empty where only its hash is known.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	StorageVersion string `json:"storageVersion,omitempty"`
	// StorageVersionHash is the hash of that version, as the API servers'
	// discovery shows it. The proof of a finished run covers this version only.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StorageVersionHash string `json:"storageVersionHash,omitempty"`
	// Epoch is the period of agreement of the API servers in which the run works,
	// or last worked. Absent until the API servers agree.
	// +optional
	Epoch *Epoch `json:"epoch,omitempty"`
	// ResourceVersion is the baseline: the resourceVersion of the collection when
	// the settle time of the epoch had passed. An object with a newer one was
	// written in the epoch, and so in the version that this run migrates to. Empty
	// until then.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Progress counts the objects of this run.
	// +optional
	Progress Progress `json:"progress,omitzero"`
	// Failures are the first objects that could not be rewritten, at most 20;
	// progress.failed counts all of them. They stay until the next run has
	// finished.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Failures []Failure `json:"failures,omitempty"`
	// Conditions are Running (a worker rewrites objects, or waits for the API
	// servers), Succeeded (every object is accounted for) and Failed (the run
	// ended without a proof, and is retried); and the same in the terms of
	// kstatus: Ready, Reconciling and Stalled. The observedGeneration of each is a
	// metadata.generation.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []Condition `json:"conditions,omitempty"`
}

// Run is one run of a worker.
type Run struct {
	// Generation is the spec.generation that the run carries out. 0: no run was
	// started yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// Attempt counts the workers that were started for the generation. It is more
	// than 1 after failures.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int64 `json:"attempt,omitempty"`
	// StartResourceVersion is the resourceVersion of the collection of
	// StorageVersionMigrations before the first worker of the run was started. The
	// run has covered every object that was written before; see
	// requiredStartResourceVersion of StorageState. In decimal. Empty: it is
	// unknown, and no StorageState takes the run as a proof.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StartResourceVersion string `json:"startResourceVersion,omitempty"`
	// Failures counts the failed attempts of the generation. The backoff doubles
	// with each.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int64 `json:"failures,omitempty"`
	// RetryTime is when the next attempt is due, in RFC 3339: after the backoff of
	// a failure, or when the API servers will have agreed for long enough. Absent
	// if no attempt is due.
	// +optional
	RetryTime metav1.Time `json:"retryTime,omitzero"`
}

// Epoch is one uninterrupted period in which all API servers that can write
// the resource encode it in the same version.
type Epoch struct {
	// Servers identify the API server processes that can write, at most 64, each
	// by the holder of its identity Lease, or its address.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	Servers []string `json:"servers,omitempty"`
	// Evidence is how the agreement is known: Declared (the API servers publish
	// what they store), Observed (each one was asked) or Sampled (only a shared
	// address was asked), the strongest first.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Evidence string `json:"evidence,omitempty"`
	// Since is the latest moment at which the epoch can have begun, in RFC 3339.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// CRDUID is the UID of the CustomResourceDefinition, for a custom resource.
	// Empty for others.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	CRDUID string `json:"crdUID,omitempty"`
	// CRDGeneration is the metadata.generation of the CustomResourceDefinition,
	// for a custom resource. 0 for others.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CRDGeneration int64 `json:"crdGeneration,omitempty"`
}

// Progress counts objects. Done = Rewritten + Current + Gone + Failed.
type Progress struct {
	// Total is how many objects there are. 0 while the number is unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int64 `json:"total"`
	// TotalIsExact is true once the whole collection has been listed. Until then,
	// total is an estimate. Default: false.
	// +optional
	TotalIsExact bool `json:"totalIsExact,omitempty"`
	// Done is how many objects are accounted for in this pass: the sum of
	// rewritten, current, gone and failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Done int64 `json:"done"`
	// Rewritten is how many objects the worker wrote back in the present version.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rewritten int64 `json:"rewritten"`
	// Current is how many objects were already stored in the present version.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Current int64 `json:"current"`
	// Gone is how many objects other clients deleted in the meantime.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Gone int64 `json:"gone"`
	// Failed is how many objects could not be rewritten.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`
	// Retried is how many requests were sent again after a transient error.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retried int64 `json:"retried"`
	// ObjectsPerSecond is the present rate, rounded. 0: the worker does not
	// advance, or the rate is unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObjectsPerSecond int64 `json:"objectsPerSecond,omitempty"`
	// EstimatedCompletionTime is when all objects will be done at the present
	// rate, in RFC 3339. Absent while the rate is 0.
	// +optional
	EstimatedCompletionTime metav1.Time `json:"estimatedCompletionTime,omitzero"`
	// StartTime is when the run started, in RFC 3339. Absent until then.
	// +optional
	StartTime metav1.Time `json:"startTime,omitzero"`
	// UpdateTime is when the worker last reported its progress, in RFC 3339.
	// +optional
	UpdateTime metav1.Time `json:"updateTime,omitzero"`
	// CompletionTime is when the run succeeded or failed, in RFC 3339. Absent
	// until then.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitzero"`
}

// Failure is one object that could not be rewritten.
type Failure struct {
	// Namespace of the object. Empty for a cluster-scoped one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Reason in one word: Rejected, Forbidden, WouldChange, Orphaned, Conflicting,
	// ServerError or Unreachable.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// Message is the error message of the API server, at most 1024 characters of
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Attempts is how many attempts of this generation have failed on the object.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int64 `json:"attempts,omitempty"`
}
