// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// Counts says what happened to the objects. The objects of one pass are Rewritten + Current + Gone + Failed.
type Counts struct {
	// Rewritten counts the objects that the API server wrote again in this pass.
	Rewritten int64 `json:"rewritten"`
	// Current counts the objects that were already stored in the current version.
	Current int64 `json:"current"`
	// Accepted counts the objects that the API server would rewrite or leave as they are, in a dry run: it stores nothing
	// then, so its answer does not tell which of the two (Options.DryRun).
	Accepted int64 `json:"accepted,omitempty"`
	// Gone counts the objects that someone else deleted during the pass.
	Gone int64 `json:"gone"`
	// Failed counts the objects that could not be rewritten.
	Failed int64 `json:"failed"`
	// WouldLoseFields counts those of them that were left alone because they would lose fields.
	WouldLoseFields int64 `json:"wouldLoseFields,omitempty"`
	// RewrittenBefore counts the objects that were rewritten in earlier passes of this run, before the end of an epoch
	// cut them short.
	RewrittenBefore int64 `json:"rewrittenBefore,omitempty"`
	// Retried counts the requests that were sent again.
	Retried int64 `json:"retried"`
	// ThroughStatus counts the objects, of this pass and those before it, that only an empty patch of their status could
	// rewrite (Options.RetryThroughStatus).
	ThroughStatus int64 `json:"throughStatus,omitempty"`
	// ChangedByAdmission counts the objects that admission changed when they were rewritten: their generation,
	// labels, annotations, finalizers or owners changed, and their managedFields, if they have any, show that no client
	// wrote them in the meantime. Changes of other fields of objects without a generation (a ConfigMap, a Secret) are
	// visible only to those who read the objects, and are not counted.
	ChangedByAdmission int64 `json:"changedByAdmission"`
	// ManagedFieldsDropped counts the objects that lost their managedFields when they were rewritten. The API server
	// drops them if an object would otherwise be too large for etcd in its new encoding, and, before Kubernetes 1.37,
	// if they name a version to which it cannot convert the object.
	ManagedFieldsDropped int64 `json:"managedFieldsDropped,omitempty"`
}

// Done returns how many objects of the pass are accounted for.
func (c Counts) Done() int64 { return c.Rewritten + c.Current + c.Accepted + c.Gone + c.Failed }

func (c *Counts) add(o Counts) {
	c.Rewritten += o.Rewritten
	c.Current += o.Current
	c.Accepted += o.Accepted
	c.Gone += o.Gone
	c.Failed += o.Failed
	c.WouldLoseFields += o.WouldLoseFields
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

// The phases, in this order. A new epoch returns to Waiting.
const (
	Preparing  Phase = "Preparing" // checking permissions and readiness
	Waiting    Phase = "Waiting"   // waiting for the API servers to agree or answer, or for the settle time
	Rewriting  Phase = "Rewriting"
	Retrying   Phase = "Retrying"   // trying once more to rewrite the failed objects
	Verifying  Phase = "Verifying"  // a second pass, in which every object has to be at rest
	Confirming Phase = "Confirming" // confirming that the API servers still agree
	Done       Phase = "Done"
)

// Progress describes a sweep at one moment.
type Progress struct {
	Phase Phase
	// Waiting says what the sweep is waiting for in the phase Waiting.
	Waiting string
	// Total is the number of objects, or 0 while it is unknown. It is an estimate, because objects are created and
	// deleted meanwhile.
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
	// InFlightLimit is the current limit of requests in flight.
	InFlightLimit int
	// RateLimit is the current limit of objects per second. +Inf: the rate is not limited.
	RateLimit float64
	// Throttles counts the requests that an API server refused because of load.
	Throttles int64
	// Paused is the total time for which the sweep sent nothing to an API server because the server asked it to wait,
	// summed over the servers.
	Paused time.Duration
	// Bytes is the size of requests and answers, as Options.MaxBytesPerSecond counts it.
	Bytes int64
	// Servers is the number of API servers over which patches are spread at the moment. 0: every request goes to the
	// address in the config.
	Servers int
}

// Result is the outcome of a sweep.
type Result struct {
	// Epoch is the epoch of the result, with the evidence for the agreement.
	Epoch    Epoch     `json:"epoch"`
	Counts   Counts    `json:"counts"`
	Total    int64     `json:"total"`
	Failures []Failure `json:"failures,omitempty"`
	// FailuresOmitted counts the failures that Failures does not name.
	FailuresOmitted int64 `json:"failuresOmitted,omitempty"`
	// Complete means that every object was accounted for in one epoch that had settled before.
	Complete bool `json:"complete"`
	// Proven means Complete, with evidence at least as strong as Options.MinEvidence.
	Proven bool `json:"proven"`
	// Verified means that a second pass found every object at rest. Moved counts the objects that it had to rewrite
	// first, because they were not stored in the current version.
	Verified bool  `json:"verified,omitempty"`
	Moved    int64 `json:"moved,omitempty"`
	// Restarts counts the passes that the end of an epoch cut short.
	Restarts int `json:"restarts"`
	// Endpoint is the version at which objects were listed and patched: that of Target, or the storage version of a
	// custom resource if that is served.
	Endpoint string `json:"endpoint,omitempty"`
	// Throttled counts the requests that the API server refused because of load.
	Throttled int64 `json:"throttled"`
	// Bytes is the size of the requests and answers of this process, as Options.MaxBytesPerSecond counts it.
	Bytes int64 `json:"bytes"`
	// SpreadOver is the number of API servers over which this process spread the patches of a pass: the greatest one
	// of all passes. 0: every request went to the address in the config.
	SpreadOver int `json:"spreadOver,omitempty"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// RewritingSeconds is how long this process was rewriting, without waiting and verifying.
	RewritingSeconds float64 `json:"rewritingSeconds"`
}

// stallChecks is how often within stallTimeout watchProgress looks.
const stallChecks = 20

// watchProgress ends the pass with ErrStalled when no object has been accounted for during stallTimeout, apart from
// what has a bound of its own (I5): a run that gets nowhere must not keep the turn of others.
func (s *Sweep) watchProgress(ctx context.Context, end context.CancelCauseFunc) {
	every := max(s.options.stallTimeout/stallChecks, time.Millisecond)
	last, idle, most := s.accounted.Load(), time.Duration(0), int64(1)
	for pace.Sleep(ctx, every) == nil {
		switch now := s.accounted.Load(); {
		case now != last:
			last, idle, most = now, 0, 1
		case !s.hasToMove():
		default:
			idle += every
		}
		most = max(most, s.options.Bounds.sweeps.Load())
		if idle >= s.options.stallTimeout+s.longestGap(most) {
			end(fmt.Errorf("%w: %s: no object was accounted for within %v%s", ErrStalled, s.wire.target.GroupResource(),
				s.options.stallTimeout, s.hindered()))
			return
		}
	}
}

// hindered names the last object that failed, if one did.
func (s *Sweep) hindered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent.last.Name == "" {
		return ""
	}
	return fmt.Sprintf("; the last one that failed is %s: %s", printable.Name(s.silent.last.Namespace, s.silent.last.Name),
		s.silent.last.Message)
}

// longestGap is how much later the next object may be due because of a low configured rate or bandwidth, which two
// pages may be read for before: the next one, and the one after that; and because the other sweeps within the bounds
// may have theirs first. There are sweeps of them.
func (s *Sweep) longestGap(sweeps int64) time.Duration {
	seconds := 2 / s.pacer.Stats().RateLimit
	if bytes := s.options.Bounds.bytesPerSecond; bytes > 0 {
		seconds += 2 * maxPageBytes / float64(bytes)
	}
	seconds *= float64(sweeps)
	return time.Duration(min(seconds, math.MaxInt32) * float64(time.Second))
}

// hasToMove reports whether objects should be accounted for now, because nothing else is waited for.
func (s *Sweep) hasToMove() bool {
	s.mu.Lock()
	phase := s.phase
	s.mu.Unlock()
	working := phase == Rewriting || phase == Retrying || phase == Verifying
	return working && !s.hold.isClosed() && !s.pacer.Paused()
}
