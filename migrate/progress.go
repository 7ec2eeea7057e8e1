// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"time"
)

// Counts says what became of the objects. Objects of one pass are Rewritten + Current + Gone + Failed.
type Counts struct {
	// Rewritten: the API server wrote the object again in this pass.
	Rewritten int64 `json:"rewritten"`
	// Current: the object was stored in the current version already.
	Current int64 `json:"current"`
	// Gone: the object was deleted by someone else meanwhile.
	Gone int64 `json:"gone"`
	// Failed: the object could not be rewritten.
	Failed int64 `json:"failed"`
	// RewrittenBefore: objects rewritten in earlier passes of this run, which an epoch's end cut short.
	RewrittenBefore int64 `json:"rewrittenBefore,omitempty"`
	// Retried: requests that were sent again.
	Retried int64 `json:"retried"`
	// ThroughStatus: those of the rewritten objects that only an empty patch of their status could rewrite
	// (Options.RetryThroughStatus).
	ThroughStatus int64 `json:"throughStatus,omitempty"`
	// ChangedByAdmission: objects that admission changed on its own account when they were rewritten (I3): their
	// generation, labels, annotations, finalizers or owners changed, and their managedFields, if they have any, say
	// that no client wrote them meanwhile. A change of other fields of an object without a generation (a ConfigMap, a
	// Secret) cannot be seen without reading it, and is not counted.
	ChangedByAdmission int64 `json:"changedByAdmission"`
	// ManagedFieldsDropped: objects that lost their managedFields when they were rewritten. The API server drops them
	// if an object would otherwise be too large for etcd in its new encoding, and, before Kubernetes 1.37, if they name
	// a version that it cannot convert the object to.
	ManagedFieldsDropped int64 `json:"managedFieldsDropped,omitempty"`
}

// Done is how many objects of the pass are accounted for.
func (c Counts) Done() int64 { return c.Rewritten + c.Current + c.Gone + c.Failed }

func (c *Counts) add(o Counts) {
	c.Rewritten += o.Rewritten
	c.Current += o.Current
	c.Gone += o.Gone
	c.Failed += o.Failed
	c.Retried += o.Retried
	c.ThroughStatus += o.ThroughStatus
	c.ChangedByAdmission += o.ChangedByAdmission
	c.ManagedFieldsDropped += o.ManagedFieldsDropped
}

// unsettle moves objects that were accounted for to the failed ones.
func (c *Counts) unsettle(n int64) {
	fromRewritten := min(n, c.Rewritten)
	c.Rewritten -= fromRewritten
	c.Current -= min(n-fromRewritten, c.Current)
	c.Failed += n
}

// Phase is what a sweep is doing.
type Phase string

// The phases, in their order; a new epoch goes back to Waiting.
const (
	Preparing  Phase = "Preparing" // checking permissions and readiness
	Waiting    Phase = "Waiting"   // for the API servers to agree or answer, or for the settle time
	Rewriting  Phase = "Rewriting"
	Retrying   Phase = "Retrying"   // once more what failed
	Verifying  Phase = "Verifying"  // a second pass in which nothing may move
	Confirming Phase = "Confirming" // that the API servers still agree
	Done       Phase = "Done"
)

// Progress is a sweep at one moment.
type Progress struct {
	Phase Phase
	// Waiting says for what, in the phase Waiting.
	Waiting string
	// Total is how many objects there are; 0 while it is not known. An estimate: objects come and go.
	Total  int64
	Counts Counts
	// Verified counts the objects that the second pass has seen.
	Verified int64
	Epoch    Epoch
	// Restarts counts the passes that the end of an epoch cut short.
	Restarts int
	Pace     Pace
	Started  time.Time
}

// Pace is the load that a sweep puts on the API servers, and how they responded to it.
type Pace struct {
	// InFlightLimit is how many requests may be in flight now.
	InFlightLimit int
	// RateLimit is how many objects per second may be sent now. +Inf: the rate is not limited.
	RateLimit float64
	// Throttles counts the requests that an API server refused because of load.
	Throttles int64
	// Paused is for how long the sweep sent nothing because an API server asked it to wait.
	Paused time.Duration
	// Bytes is what requests and answers carried, as Options.MaxBytesPerSecond counts it.
	Bytes int64
}

// Result is what a sweep came to.
type Result struct {
	// Epoch is the one that the result is about, with the evidence of its agreement.
	Epoch    Epoch     `json:"epoch"`
	Counts   Counts    `json:"counts"`
	Total    int64     `json:"total"`
	Failures []Failure `json:"failures,omitempty"`
	// FailuresOmitted counts the failures beyond those that are named.
	FailuresOmitted int64 `json:"failuresOmitted,omitempty"`
	// Complete: every object was accounted for in one epoch that had settled before (I2, I4).
	Complete bool `json:"complete"`
	// Proven: Complete, with evidence at least as strong as asked for.
	Proven bool `json:"proven"`
	// Verified: a second pass saw every object stay as it is. Moved counts those that did not at first, because
	// someone else wrote them at that moment.
	Verified bool  `json:"verified,omitempty"`
	Moved    int64 `json:"moved,omitempty"`
	// Restarts counts the passes that the end of an epoch cut short.
	Restarts int `json:"restarts"`
	// Throttled counts the requests that the API server refused because of load.
	Throttled int64 `json:"throttled"`
	// Bytes is what requests and answers of this process carried, as Options.MaxBytesPerSecond counts it.
	Bytes   int64     `json:"bytes"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// RewritingSeconds is how long this process took to rewrite, without waiting and verifying.
	RewritingSeconds float64 `json:"rewritingSeconds"`
}

// Accounted is how many objects the result accounts for without failure.
func (r Result) Accounted() int64 { return r.Counts.Rewritten + r.Counts.Current + r.Counts.Gone }
