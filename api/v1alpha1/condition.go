// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionType names the aspect of an object that a condition describes.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
type ConditionType string

// Conditions of a StorageVersionMigration.
const (
	// ConditionRunning is True while a worker rewrites objects, or waits until the
	// API servers agree.
	ConditionRunning ConditionType = "Running"
	// ConditionSucceeded is True once every object was accounted for in one
	// settled epoch of agreement. The version that it is about is in
	// status.storageVersion and status.storageVersionHash.
	ConditionSucceeded ConditionType = "Succeeded"
	// ConditionFailed is True after a run that could not rewrite at least one
	// object, or could not prove anything. The controller starts the run again
	// after a backoff.
	ConditionFailed ConditionType = "Failed"
	// ConditionReady, ConditionReconciling and ConditionStalled say the same in
	// the terms of kstatus
	// (https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md).
	ConditionReady       ConditionType = "Ready"
	ConditionReconciling ConditionType = "Reconciling"
	ConditionStalled     ConditionType = "Stalled"
)

// Conditions of a StorageState. A StorageVersion has the first one, too.
const (
	// ConditionAllEncodingVersionsEqual is True while all API servers encode the
	// resource in one version.
	ConditionAllEncodingVersionsEqual ConditionType = "AllEncodingVersionsEqual"
	// ConditionMigrated is True when every stored object is in the current
	// version.
	ConditionMigrated ConditionType = "Migrated"
	// ConditionPermitted is False while the worker lacks a permission that a
	// migration of the resource takes. Absent: no permission was missing since the
	// StorageState exists.
	ConditionPermitted ConditionType = "Permitted"
	// ConditionRolledBack is True while every API server is older than the newest
	// release of Kubernetes that may have written objects of a built-in resource,
	// and Unknown while only some are, or while one does not show its release. The
	// controller requests no migration then, because a rewrite would drop the
	// fields that only the newer release knows. Absent: nothing is held back.
	ConditionRolledBack ConditionType = "RolledBack"
)

// StateBeforeRollback is the annotation of a StorageVersionMigration that the
// controller has paused while the condition RolledBack of its resource is not
// absent. Its value is the spec.state to which the controller returns later.
const StateBeforeRollback = "migration.k8s.io/state-before-rollback"

// Reasons of the condition RolledBack.
const (
	// ReasonOlderRelease means that all API servers are older than the newest
	// release that may have written objects.
	ReasonOlderRelease = "OlderRelease"
	// ReasonMixedReleases means that some of them are.
	ReasonMixedReleases = "MixedReleases"
	// ReasonReleaseNotKnown means that an API server does not show its release.
	ReasonReleaseNotKnown = "ReleaseNotKnown"
)

// Reasons of the condition AllEncodingVersionsEqual of a StorageState.
const (
	// ReasonAgreement means that all API servers encode the resource in one
	// version.
	ReasonAgreement = "Agreement"
	// ReasonDisagreement means that two API servers encode the resource in
	// different versions.
	ReasonDisagreement = "Disagreement"
	// ReasonNotKnown means that not every API server could be asked.
	ReasonNotKnown = "NotKnown"
	// ReasonUnresolved means that the API servers disagreed when they were last
	// asked, and that not every one of them could be asked since.
	ReasonUnresolved = "Unresolved"
	// ReasonOnlySampled and ReasonOnlyObserved mean that the API servers seem to
	// agree, but that the installation requires stronger evidence than the one
	// that the reason names.
	ReasonOnlySampled  = "OnlySampled"
	ReasonOnlyObserved = "OnlyObserved"
)

// Reasons of the condition Permitted.
const (
	// ReasonForbidden means that the worker lacks a permission. A failed
	// StorageVersionMigration has it, too.
	ReasonForbidden = "Forbidden"
	// ReasonGranted means that the worker has every permission that it needs.
	ReasonGranted = "Granted"
	// ReasonByHand means that the worker lacks the permission on purpose: an
	// administrator migrates the resource by hand.
	ReasonByHand = "ByHand"
	// ReasonUnguarded means that the worker lacks a permission, and that the
	// controller does not grant it because the guard is not in force.
	ReasonUnguarded = "Unguarded"
)

// Reasons of the condition Failed of a StorageVersionMigration. ReasonForbidden
// is another one: a permission is missing, and the message names the verb and
// the resource.
const (
	// ReasonObjectsFailed means that some objects could not be rewritten:
	// status.failures names them.
	ReasonObjectsFailed = "ObjectsFailed"
	// ReasonWouldLoseFields means that every object that was not rewritten was
	// left alone because it would lose fields. Repeating the run changes nothing
	// until a person decides, or the CustomResourceDefinition is corrected.
	ReasonWouldLoseFields = "WouldLoseFields"
	// ReasonNotProven means that every object was rewritten, but that the evidence
	// is too weak.
	ReasonNotProven = "NotProven"
	// ReasonNoAgreement means that the API servers did not agree on one version in
	// time.
	ReasonNoAgreement = "NoAgreement"
	// ReasonStorageVersionMoved means that the storage version changed during the
	// run.
	ReasonStorageVersionMoved = "StorageVersionMoved"
	// ReasonNotReady means that the resource cannot be migrated in its present
	// state; the message says why.
	ReasonNotReady = "NotReady"
	// ReasonResourceGone means that the resource is not served.
	ReasonResourceGone = "ResourceGone"
	// ReasonUntrustedAnswer means that the API server of the resource sent an
	// impossible or endless response. None of its responses counts.
	ReasonUntrustedAnswer = "UntrustedAnswer"
	// ReasonNoProgress means that the run made no progress for too long. The next
	// attempt resumes from the checkpoint.
	ReasonNoProgress = "NoProgress"
	// ReasonBroken means that the worker itself failed repeatedly; the message says
	// on what.
	ReasonBroken = "Broken"
)

// Reasons of the other conditions of a StorageVersionMigration.
const (
	// ReasonPending means that no worker is at work yet: the controller is about
	// to start one.
	ReasonPending = "Pending"
	// ReasonQueued means that the migration waits for its turn: others run.
	ReasonQueued = "Queued"
	// ReasonNotCreated means that the API server refuses to create the run, such
	// as for a quota. The controller tries again.
	ReasonNotCreated = "NotCreated"
	// ReasonBlocked means that another program migrates the resource.
	ReasonBlocked = "Blocked"
	// ReasonWaiting means that the worker waits for the API servers to agree, or
	// for the settle time to pass.
	ReasonWaiting = "Waiting"
	// ReasonRewriting means that the worker rewrites objects.
	ReasonRewriting = "Rewriting"
	// ReasonConfirming means that every object is accounted for, and that
	// kube-migrator confirms that the API servers still agree.
	ReasonConfirming = "Confirming"
	// ReasonPaused means that spec.state is Paused.
	ReasonPaused = "Paused"
	// ReasonCancelled means that spec.state is Cancelled.
	ReasonCancelled = "Cancelled"
	// ReasonProven means that the migration succeeded with a proof.
	ReasonProven = "Proven"
	// ReasonAdopted means that kube-storage-version-migrator reported success, and
	// that no proof was recorded.
	ReasonAdopted = "Adopted"
	// ReasonRetrying means that the last attempt failed, and that the next one is
	// due at status.run.retryTime.
	ReasonRetrying = "Retrying"
)

// Condition is one aspect of the state of an object. It has the fields that
// kube-storage-version-migrator writes, and those of metav1.Condition.
type Condition struct {
	// Type names the aspect that the condition describes. Required.
	Type ConditionType `json:"type"`
	// Status of the condition: True, False or Unknown. Required.
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status"`
	// ObservedGeneration is the metadata.generation that the condition is about.
	// 0: the program that wrote the condition did not say.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastUpdateTime is when anything about the condition last changed, in RFC
	// 3339.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
	// LastTransitionTime is when the status last changed, in RFC 3339.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason explains the status in one CamelCase word, for programs.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// Message explains the status in a sentence, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// Dated returns c with its two times set. A time is taken from the previous
// condition of the same type where nothing that it stands for has changed, and
// is now otherwise.
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
