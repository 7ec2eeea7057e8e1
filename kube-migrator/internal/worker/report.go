// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Result is how a run ended. The set is closed.
type Result string

// The results. Those of runs that have failed are reasons of the API, which says what they mean.
const (
	// ResultProven means that every object was accounted for within one settled epoch, with strong enough evidence.
	ResultProven              Result = v1alpha1.ReasonProven
	ResultObjectsFailed       Result = v1alpha1.ReasonObjectsFailed
	ResultWouldLoseFields     Result = v1alpha1.ReasonWouldLoseFields
	ResultNotProven           Result = v1alpha1.ReasonNotProven
	ResultNoAgreement         Result = v1alpha1.ReasonNoAgreement
	ResultStorageVersionMoved Result = v1alpha1.ReasonStorageVersionMoved
	ResultForbidden           Result = v1alpha1.ReasonForbidden
	ResultNotReady            Result = v1alpha1.ReasonNotReady
	ResultResourceGone        Result = v1alpha1.ReasonResourceGone
	ResultUntrustedAnswer     Result = v1alpha1.ReasonUntrustedAnswer
	ResultNoProgress          Result = v1alpha1.ReasonNoProgress
	ResultBroken              Result = v1alpha1.ReasonBroken
	// ResultUnsettled means that the API servers have not agreed for long enough. The run gives its turn away
	// meanwhile; Outcome.Left says for how long. It is no reason of the API.
	ResultUnsettled Result = "Unsettled"
)

// Failures returns the results of runs that have failed. They are the reasons of the condition Failed of a
// StorageVersionMigration.
func Failures() []Result {
	return []Result{
		ResultObjectsFailed, ResultWouldLoseFields, ResultNotProven, ResultNoAgreement, ResultStorageVersionMoved, ResultForbidden,
		ResultNotReady, ResultResourceGone, ResultUntrustedAnswer, ResultNoProgress, ResultBroken,
	}
}

// maxReportedFailures bounds the failures that a report names; the checkpoint names more.
const maxReportedFailures = 20

// Report is what a worker reports about its run, besides the checkpoint in the same ConfigMap. Only the worker writes
// it; see GiveUp for the exception.
type Report struct {
	// Generation and Attempt are those of the run.
	Generation int64 `json:"generation"`
	Attempt    int64 `json:"attempt"`

	Phase migrate.Phase `json:"phase"`
	// Waiting says what the run waits for, in the phase Waiting.
	Waiting string `json:"waiting,omitempty"`
	// Total is how many objects there are; an estimate unless Listed. 0 while the number is unknown.
	Total  int64          `json:"total"`
	Listed bool           `json:"listed,omitempty"`
	Counts migrate.Counts `json:"counts"`
	// Verified is how many objects a second pass has read.
	Verified int64 `json:"verified,omitempty"`
	// StorageVersion is the version for users, such as "v2". Empty if only its hash, in Epoch, is known.
	StorageVersion string        `json:"storageVersion,omitempty"`
	Epoch          migrate.Epoch `json:"epoch"`
	// Baseline is the collection's resourceVersion when the epoch had settled; 0 until then.
	Baseline uint64 `json:"baseline,omitempty"`
	// Restarts counts the passes that the end of an epoch cut short.
	Restarts int `json:"restarts,omitempty"`
	// ObjectsPerSecond is the present rate.
	ObjectsPerSecond float64 `json:"objectsPerSecond,omitempty"`
	// Throttled counts the requests that the API server rejected because of load.
	Throttled int64 `json:"throttled,omitempty"`
	// ThrottledSeconds is how long the run paused because the API server asked it to slow down.
	ThrottledSeconds float64 `json:"throttledSeconds,omitempty"`
	// Failures are the first objects that could not be rewritten, at most 20.
	Failures []migrate.Failure `json:"failures,omitempty"`
	Started  time.Time         `json:"started"`
	Updated  time.Time         `json:"updated"`
	// Outcome is set once, when the run has ended.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Outcome is how a run ended.
type Outcome struct {
	Result  Result    `json:"verdict"`
	Message string    `json:"message,omitempty"`
	Ended   time.Time `json:"ended"`
	// Left is how much longer the epoch has to last if the result is Unsettled. It is a duration, because clocks
	// differ.
	Left time.Duration `json:"left,omitempty"`
}
