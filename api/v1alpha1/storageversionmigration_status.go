// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// what they store), Observed (each one was asked), Verified (not each one
	// could be asked, and a second pass found every object in the current
	// version) or Sampled (not each one could be asked), the strongest first.
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
	// Verified is how many objects the second pass has read, which a run needs
	// where not every API server can be asked.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Verified int64 `json:"verified,omitempty"`
	// WouldLoseFields is how many of the failed objects were left alone because
	// they would lose fields; see spec.acceptFieldLoss.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WouldLoseFields int64 `json:"wouldLoseFields,omitempty"`
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
	// Name of the object. A name that has more than 253 characters is cut, and
	// ends with an ellipsis.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Reason in one word: Rejected, Forbidden, WouldChange, WouldLoseFields,
	// Orphaned, Conflicting, ServerError or Unreachable.
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
