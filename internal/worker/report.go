// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// Verdict is what a run came to; a closed set. The words are the reasons of the condition Failed, too.
type Verdict string

// The verdicts.
const (
	// Proven: every object was accounted for within one settled epoch, with evidence that is strong enough.
	Proven Verdict = "Proven"
	// ObjectsFailed: the sweep is over, and some objects could not be rewritten.
	ObjectsFailed Verdict = "ObjectsFailed"
	// NotProven: every object was rewritten, but the evidence is too weak.
	NotProven Verdict = "NotProven"
	// NoAgreement: the API servers did not come to one settled version in time.
	NoAgreement Verdict = "NoAgreement"
	// StorageVersionMoved: the storage version is no longer the one that the run began with.
	StorageVersionMoved Verdict = "StorageVersionMoved"
	// Unsettled: the API servers have not agreed for long enough, and the run gives its turn away meanwhile;
	// Outcome.Left says for how long.
	Unsettled Verdict = "Unsettled"
	// Forbidden: a permission is missing; the message says which verb on what.
	Forbidden Verdict = "Forbidden"
	// NotReady: the resource cannot be migrated as it is now; the message says why.
	NotReady Verdict = "NotReady"
	// ResourceGone: the resource is not served.
	ResourceGone Verdict = "ResourceGone"
	// Untrusted: the resource's API server answered what cannot be true, or has no end; nothing that it said counts.
	Untrusted Verdict = "UntrustedAnswer"
	// NoProgress: no object was accounted for within the engine's StallTimeout; the next attempt goes on from the
	// checkpoint.
	NoProgress Verdict = "NoProgress"
	// Broken: the worker itself failed again and again; the message says on what.
	Broken Verdict = "Broken"
)

// maxReportedFailures bounds the failures that a report names; the checkpoint names more.
const maxReportedFailures = 20

// Report is what a worker tells of its run, beside the checkpoint in the same ConfigMap. Only the worker writes it.
type Report struct {
	// Generation and Attempt are those of the run.
	Generation int64 `json:"generation"`
	Attempt    int64 `json:"attempt"`

	Phase migrate.Phase `json:"phase"`
	// Waiting says for what, in the phase Waiting.
	Waiting string `json:"waiting,omitempty"`
	// Total is how many objects there are, 0 while that is not known; an estimate unless Listed.
	Total  int64          `json:"total"`
	Listed bool           `json:"listed,omitempty"`
	Counts migrate.Counts `json:"counts"`
	// StorageVersion is the version for people, such as "v2"; empty where only the hash, in Epoch, is known.
	StorageVersion string        `json:"storageVersion,omitempty"`
	Epoch          migrate.Epoch `json:"epoch"`
	// Baseline is the collection's resourceVersion when the epoch had settled; 0 before.
	Baseline uint64 `json:"baseline,omitempty"`
	// Restarts counts the passes that the end of an epoch cut short.
	Restarts int `json:"restarts,omitempty"`
	// ObjectsPerSecond is the present rate.
	ObjectsPerSecond float64 `json:"objectsPerSecond,omitempty"`
	// Throttled counts the requests that the API server refused because of load.
	Throttled int64 `json:"throttled,omitempty"`
	// ThrottledSeconds is how long the run stood still because the API server asked for it.
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
	Verdict Verdict   `json:"verdict"`
	Message string    `json:"message,omitempty"`
	Ended   time.Time `json:"ended"`
	// Left is how much longer the epoch has to last, of a run that is Unsettled: a duration, because clocks differ.
	Left time.Duration `json:"left,omitempty"`
}
