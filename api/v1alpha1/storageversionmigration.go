// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageVersionMigration asks that every stored object of one resource be rewritten in its present storage version,
// and says how far that is and what was proven.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a superset of https://github.com/kubernetes/enhancements/pull/747"
// +kubebuilder:resource:scope=Cluster,shortName=svmig,categories=kube-migrator
// +kubebuilder:printcolumn:name="RESOURCE",type=string,JSONPath=`.spec.resource.resource`,description="Resource that is migrated"
// +kubebuilder:printcolumn:name="STORAGE",type=string,JSONPath=`.status.storageVersion`,description="Version that this run migrates to"
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.state`,description="What is going on"
// +kubebuilder:printcolumn:name="DONE",type=integer,JSONPath=`.status.progress.done`,description="Objects accounted for"
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.progress.total`,description="Objects that there are"
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.progress.failed`,description="Objects that could not be rewritten"
// +kubebuilder:printcolumn:name="RATE",type=integer,JSONPath=`.status.progress.objectsPerSecond`,priority=1,description="Objects per second"
// +kubebuilder:printcolumn:name="ETA",type=string,JSONPath=`.status.progress.estimatedCompletionTime`,priority=1,description="When the sweep is expected to end"
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.spec.reason`,priority=1,description="Why it was asked for"
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageVersionMigration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec is what is asked for. Required.
	// +required
	Spec StorageVersionMigrationSpec `json:"spec,omitzero"`
	// Status is what became of it. Written by kube-migrator alone.
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

// GroupVersionResource names a resource and the version at which it is spoken to.
type GroupVersionResource struct {
	// Group of the resource, a DNS subdomain. Empty, the default: the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Group string `json:"group,omitempty"`
	// Version at which objects are listed and patched, a DNS label. Empty, the default: the storage version where that
	// is served, else the preferred version.
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
	// Group that serves the resource, a DNS subdomain. Empty, the default: the core group.
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

// StorageVersionMigrationSpec is what is asked for.
type StorageVersionMigrationSpec struct {
	// Resource to migrate. Required, and immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable; create another StorageVersionMigration for another resource"
	// +kubebuilder:validation:XValidation:rule="has(self.resource) && self.resource != ''",message="names no resource"
	Resource GroupVersionResource `json:"resource"`
	// GroupVersions are where the resource is served: the preferred version of its group first, then other groups that
	// serve the same objects. The controller fills them in for every migration, and refreshes them, unless another
	// field manager has written them. They are for others to read; nothing depends on them. Default: empty, until then.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	GroupVersions []GroupVersion `json:"groupVersions,omitempty"`
	// Generation counts the runs that were asked for: raise it to run again. It stops a run of a lower generation. It
	// cannot be lowered. At least 1. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="can only be raised"
	Generation int64 `json:"generation,omitempty"`
	// Reason is why this is asked for, such as "key rotation". For people. One line of text: control characters, line
	// separators and other characters that are not shown are refused, since terminals would obey them. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\p{C}\p{Zl}\p{Zp}]*$`
	Reason string `json:"reason,omitempty"`
	// State says whether to work: Active, Paused or Cancelled. A paused migration writes nothing, and goes on where it
	// was when it is Active again. A cancelled one writes nothing and forgets how far it was. The controller requests
	// no other migration of the resource by itself until it is Active again. Default: Active.
	// +optional
	// +kubebuilder:default=Active
	// +kubebuilder:validation:Enum=Active;Paused;Cancelled
	State State `json:"state,omitempty"`
	// Priority orders the migrations that wait for their turn: the greatest comes first. Each minute of waiting counts
	// as 1 more, so that none waits indefinitely. Migrations that the controller requests by itself have 1 to 24, by
	// how soon the versions that may be stored are likely to be removed. From 1 to 1000. Default: 100, so that those of
	// users come first.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
	// Pace bounds the load on the API servers, beyond what they ask for themselves. Default: no further bounds.
	// +optional
	Pace Pace `json:"pace,omitzero"`
	// TTLSecondsAfterFinished is how long, in seconds, this object is kept after its migration has succeeded. It is at
	// least 15, in which its proof is recorded. The controller asks for later migrations of the resource with another
	// object. If unset, the default, the object is kept indefinitely.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// ContinueToken is kept as it is, for clients of kube-storage-version-migrator, and never used: a place that users
	// can write proves nothing. Printable ASCII characters, at most 4096 of them. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[!-~]*$`
	ContinueToken string `json:"continueToken,omitempty"`
}

// State says whether to work on a migration.
type State string

// DefaultPriority is spec.priority where no one gives one.
const DefaultPriority int32 = 100

// The states of spec.state.
const (
	StateActive    State = "Active"
	StatePaused    State = "Paused"
	StateCancelled State = "Cancelled"
)

// The bounds of a Pace.
const (
	MostObjectsPerSecond = 100000
	MostInFlight         = 1024
	MostBytesPerSecond   = 1000000000000
)

// Pace bounds the load of one migration.
type Pace struct {
	// MaxObjectsPerSecond is the most objects to rewrite per second. 0, the default: as many as the API servers bear.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxObjectsPerSecond int32 `json:"maxObjectsPerSecond,omitempty"`
	// MaxInFlight is the most requests to have in flight at once. 0, the default: 32.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	MaxInFlight int32 `json:"maxInFlight,omitempty"`
	// MaxBytesPerSecond is the most bytes per second that the requests of the sweep and their answers carry, both
	// directions together. The bodies of lists, patches and reads are counted as they go over the wire, compressed
	// where the API server compresses them. HTTP headers, HTTP/2 framing and TLS are not counted: some 250 bytes for
	// each request. What is asked before and beside the sweep is not counted either: discovery, Leases, the reports of
	// the worker. A second's worth may come at once; an answer that is larger than that delays the next request
	// accordingly. 0, the default: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	MaxBytesPerSecond int64 `json:"maxBytesPerSecond,omitempty"`
}

// Phase is status.state: one word for people and printer columns. The conditions are the interface for programs.
// +kubebuilder:validation:Enum=Pending;Waiting;Running;Paused;Cancelled;Succeeded;Failed
type Phase string

// The phases.
const (
	PhasePending   Phase = "Pending" // for its turn
	PhaseWaiting   Phase = "Waiting" // for the API servers to agree, for the settle time, or for another migrator
	PhaseRunning   Phase = "Running"
	PhasePaused    Phase = "Paused"
	PhaseCancelled Phase = "Cancelled"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
)

// StorageVersionMigrationStatus is what became of a migration.
type StorageVersionMigrationStatus struct {
	// State is one word for people: Pending (for its turn), Waiting (for the API servers to agree), Running, Paused,
	// Cancelled, Succeeded or Failed. Programs read the conditions. Default: Pending.
	// +optional
	State Phase `json:"state,omitempty"`
	// Summary is what is going on, or what came of it, in one line for people. Empty before anything is known.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// ObservedGeneration is the spec.generation for which a worker was last started. It is left out while the migration
	// rests (succeeded, failed, paused or cancelled) and metadata.generation is another number than spec.generation,
	// which every change of state, pace or groupVersions leads to: kstatus compares the field with metadata.generation,
	// and would wait indefinitely. Clients of the proposal do not compare it with spec.generation. What they want to
	// know is told by fields that are always written: a migration has succeeded when completedGeneration equals
	// spec.generation, and a run of spec.generation has started when run.generation equals it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// CompletedGeneration is the greatest spec.generation whose run has succeeded. A client waits until it equals
	// spec.generation. 0: none has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CompletedGeneration int64 `json:"completedGeneration,omitempty"`
	// Run is the run that the rest of the status is about. Absent before the first one.
	// +optional
	Run Run `json:"run,omitzero"`
	// StorageVersion is the version that this run migrates to, in the resource's group: "v1". Empty where only its hash
	// is known.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	StorageVersion string `json:"storageVersion,omitempty"`
	// StorageVersionHash is the hash of that version, as the API servers' discovery shows it. What a finished run
	// proves is about this version alone.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StorageVersionHash string `json:"storageVersionHash,omitempty"`
	// Epoch is the period of agreement of the API servers that the run works in, or worked in last. Absent before there
	// is one.
	// +optional
	Epoch *Epoch `json:"epoch,omitempty"`
	// ResourceVersion is the baseline: the collection's resourceVersion when the epoch had settled. An object with a
	// newer one was written in the epoch, and so in the version that this run migrates to. Empty before.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Progress counts the objects of this run.
	// +optional
	Progress Progress `json:"progress,omitzero"`
	// Failures are the first objects that could not be rewritten, at most 20; progress.failed counts all.
	// They stay until the next run has finished.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Failures []Failure `json:"failures,omitempty"`
	// Conditions are Running (a worker rewrites, or waits for the API servers), Succeeded (every object is accounted
	// for) and Failed (the run ended without a proof, and will be tried again); and the same in the words of kstatus:
	// Ready, Reconciling and Stalled. Each is about the metadata.generation that it names.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []Condition `json:"conditions,omitempty"`
}

// Run is one run of a worker.
type Run struct {
	// Generation is the spec.generation that the run carries out. 0: there was none yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// Attempt counts the workers that were started for the generation: more than 1 after failures.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int64 `json:"attempt,omitempty"`
	// StartResourceVersion is the resourceVersion of the collection of StorageVersionMigrations before the first worker
	// of the run was started. Whatever was written before it, the run has seen; see requiredStartResourceVersion of
	// StorageState. In decimal. Empty: it is not known, and the run proves nothing to a StorageState.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StartResourceVersion string `json:"startResourceVersion,omitempty"`
	// Failures counts the attempts of the generation that failed, for the backoff.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int64 `json:"failures,omitempty"`
	// RetryTime is when the next attempt is due after a failure, or once the API servers have agreed for long enough,
	// in RFC 3339. Absent where none is.
	// +optional
	RetryTime metav1.Time `json:"retryTime,omitzero"`
}

// Epoch is one uninterrupted period in which all API servers that can write the resource encode it in the same version.
type Epoch struct {
	// Servers identify the API server processes that can write, at most 64, each by the holder of its identity Lease,
	// or its address.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	Servers []string `json:"servers,omitempty"`
	// Evidence is how the agreement is known: Declared (the API servers publish what they store), Observed (each was
	// asked) or Sampled (only a shared address was), the strongest first.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Evidence string `json:"evidence,omitempty"`
	// Since is the latest moment at which the epoch can have begun, in RFC 3339.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// CRDUID is the UID of the CustomResourceDefinition, for a custom resource. Empty for others.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	CRDUID string `json:"crdUID,omitempty"`
	// CRDGeneration is the metadata.generation of the CustomResourceDefinition, for a custom resource. 0 for others.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CRDGeneration int64 `json:"crdGeneration,omitempty"`
}

// Progress counts objects. Done = Rewritten + Current + Gone + Failed.
type Progress struct {
	// Total is how many objects there are; 0 while that is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int64 `json:"total"`
	// TotalIsExact is true once the whole collection has been listed. Until then, total is an estimate. Default: false.
	// +optional
	TotalIsExact bool `json:"totalIsExact,omitempty"`
	// Done is how many objects are accounted for in this pass: rewritten + current + gone + failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Done int64 `json:"done"`
	// Rewritten is how many objects were stored anew.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Rewritten int64 `json:"rewritten"`
	// Current is how many objects were stored in the present version already.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Current int64 `json:"current"`
	// Gone is how many objects were deleted by others meanwhile.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Gone int64 `json:"gone"`
	// Failed is how many objects could not be rewritten.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int64 `json:"failed"`
	// Retried is how many requests were sent again after an error that may pass.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retried int64 `json:"retried"`
	// ObjectsPerSecond is the present rate, rounded. 0: nothing moves, or it is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObjectsPerSecond int64 `json:"objectsPerSecond,omitempty"`
	// EstimatedCompletionTime is when all objects will be done at the present rate, in RFC 3339. Absent where the rate
	// is 0.
	// +optional
	EstimatedCompletionTime metav1.Time `json:"estimatedCompletionTime,omitzero"`
	// StartTime is when the run began, in RFC 3339. Absent before.
	// +optional
	StartTime metav1.Time `json:"startTime,omitzero"`
	// UpdateTime is when the worker last told of its progress, in RFC 3339.
	// +optional
	UpdateTime metav1.Time `json:"updateTime,omitzero"`
	// CompletionTime is when the run succeeded or failed, in RFC 3339. Absent before.
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
	// Reason in one word: Rejected, Forbidden, WouldChange, Orphaned, Conflicting, ServerError or Unreachable.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// Message is what the API server said, at most 1024 characters of it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Attempts is how many runs of this generation have failed on the object.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int64 `json:"attempts,omitempty"`
}
