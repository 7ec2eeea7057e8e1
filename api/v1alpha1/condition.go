// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionType names what a condition is about.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
type ConditionType string

// Conditions of a StorageVersionMigration.
const (
	// ConditionRunning is True while a worker rewrites objects, or waits until the API servers agree.
	ConditionRunning ConditionType = "Running"
	// ConditionSucceeded is True once every object was accounted for in one settled epoch of agreement. The version
	// that it is about is in status.storageVersion and status.storageVersionHash.
	ConditionSucceeded ConditionType = "Succeeded"
	// ConditionFailed is True after a run that could not rewrite at least one object, or could not prove anything. The
	// controller starts the run again after a backoff.
	ConditionFailed ConditionType = "Failed"
	// ConditionReady, ConditionReconciling and ConditionStalled say the same in the terms of kstatus
	// (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md).
	ConditionReady       ConditionType = "Ready"
	ConditionReconciling ConditionType = "Reconciling"
	ConditionStalled     ConditionType = "Stalled"
)

// Conditions of a StorageState. A StorageVersion has the first one, too.
const (
	// ConditionAllEncodingVersionsEqual is True while all API servers encode the resource in one version.
	ConditionAllEncodingVersionsEqual ConditionType = "AllEncodingVersionsEqual"
	// ConditionMigrated is True when every stored object is in the current version.
	ConditionMigrated ConditionType = "Migrated"
	// ConditionPermitted is False while the worker lacks a permission that a migration of the resource takes. Absent:
	// no permission was missing since the StorageState exists.
	ConditionPermitted ConditionType = "Permitted"
)

// Reasons of the condition AllEncodingVersionsEqual of a StorageState.
const (
	ReasonAgreement    = "Agreement"
	ReasonDisagreement = "Disagreement"
	// ReasonNotKnown: not all API servers could be asked. ReasonUnresolved: nor could they be since they disagreed.
	ReasonNotKnown   = "NotKnown"
	ReasonUnresolved = "Unresolved"
	// ReasonOnlySampled, ReasonOnlyObserved: as far as can be seen they agree, but the installation requires stronger
	// evidence than this one.
	ReasonOnlySampled  = "OnlySampled"
	ReasonOnlyObserved = "OnlyObserved"
)

// Reasons of the condition Permitted.
const (
	ReasonForbidden = "Forbidden" // a permission is missing
	ReasonGranted   = "Granted"
	// the worker is not given the permission, on purpose: an administrator migrates the resource by hand
	ReasonByHand = "ByHand"
)

// Reasons of the conditions of a StorageVersionMigration. Failures have those of the package worker's verdicts too.
const (
	ReasonPending    = "Pending"    // not looked at yet, or waiting for its turn
	ReasonQueued     = "Queued"     // another migration runs
	ReasonBlocked    = "Blocked"    // another program migrates the resource
	ReasonWaiting    = "Waiting"    // for the API servers to agree, or for the settle time
	ReasonRewriting  = "Rewriting"  // objects
	ReasonConfirming = "Confirming" // that the epoch still lasts
	ReasonPaused     = "Paused"
	ReasonCancelled  = "Cancelled"
	ReasonProven     = "Proven"
	ReasonAdopted    = "Adopted"  // kube-storage-version-migrator says that it has succeeded; no proof was recorded
	ReasonRetrying   = "Retrying" // after a failure
)

// Condition is one aspect of an object's state. It is what kube-storage-version-migrator writes, and more.
type Condition struct {
	// Type names what the condition is about. Required.
	Type ConditionType `json:"type"`
	// Status of the condition: True, False or Unknown. Required.
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status"`
	// ObservedGeneration is the metadata.generation that the condition is about. 0: its writer does not tell.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastUpdateTime is when anything about the condition last changed, in RFC 3339.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
	// LastTransitionTime is when the status last changed, in RFC 3339.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is why the status is what it is, in one word for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Message is why the status is what it is, in a sentence for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// Dated returns c with the times of the previous condition of its type, as far as nothing has changed since, and now
// otherwise.
func (c Condition) Dated(previous []Condition, now metav1.Time) Condition {
	c.LastUpdateTime, c.LastTransitionTime = now, now
	i := slices.IndexFunc(previous, func(p Condition) bool { return p.Type == c.Type })
	if i < 0 {
		return c
	}
	before := previous[i]
	if before.Status == c.Status && !before.LastTransitionTime.IsZero() {
		c.LastTransitionTime = before.LastTransitionTime
	}
	if before.Status == c.Status && before.ObservedGeneration == c.ObservedGeneration && before.Reason == c.Reason &&
		before.Message == c.Message && !before.LastUpdateTime.IsZero() {
		c.LastUpdateTime = before.LastUpdateTime
	}
	return c
}
