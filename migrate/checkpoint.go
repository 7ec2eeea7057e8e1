// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"time"
)

// Checkpoint is what survives the process: all that a sweep needs to go on (I5). Its form is stable within one
// Version; a reader that finds another begins anew.
type Checkpoint struct {
	Version  int    `json:"version"`
	Resource string `json:"resource"`
	// Begun: a pass is under way, or done, in Epoch.
	Begun bool `json:"begun,omitempty"`
	// Epoch is the one that the pass began in; Baseline the collection's resourceVersion, read once it had settled; 0
	// where that is not a number, and before the first page.
	Epoch    Epoch  `json:"epoch"`
	Baseline uint64 `json:"baseline"`
	// Confirmed is the newest resourceVersion read before a moment at which Epoch was still the present one.
	Confirmed uint64 `json:"confirmed"`
	// Ranges are the good ranges of earlier epochs.
	Ranges []Range `json:"ranges,omitempty"`
	// Continue is the list's token behind the last page that is done; Listed is set when no page is left.
	Continue string `json:"continue,omitempty"`
	Listed   bool   `json:"listed,omitempty"`
	// Complete: every object was accounted for, and the epoch was still the same after the last write.
	Complete bool `json:"complete,omitempty"`

	Counts   Counts    `json:"counts"`
	Total    int64     `json:"total"`
	Failures []Failure `json:"failures,omitempty"`
	// FailuresOmitted counts the failures beyond those that are kept.
	FailuresOmitted int64     `json:"failuresOmitted,omitempty"`
	Restarts        int       `json:"restarts,omitempty"`
	Started         time.Time `json:"started"`
	Updated         time.Time `json:"updated"`
}

const (
	checkpointVersion = 1
	// maxFailures bounds the failures that are kept by name (I6).
	maxFailures = 1000
)

// Checkpoints keeps the checkpoint of one resource. The engine calls it from one goroutine at a time.
type Checkpoints interface {
	// Load returns what Save was given last, or nil where there is nothing.
	Load(ctx context.Context) (*Checkpoint, error)
	// Save replaces what is kept, whole or not at all: the process may die at any moment (I5).
	Save(ctx context.Context, c *Checkpoint) error
}

// Failure is one object that could not be rewritten.
type Failure struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    Reason `json:"reason"`
	Message   string `json:"message"`
	// ResourceVersion and Generation are those that the object was listed with.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
}

func (f Failure) object() object {
	return object{namespace: f.Namespace, name: f.Name, resourceVersion: f.ResourceVersion, generation: f.Generation}
}

// inEpoch reports whether the pass that c records can go on: its epoch still lasts.
func (c *Checkpoint) inEpoch(e Epoch) bool { return c.Begun && c.Epoch.lasts(e) }

// resumable reports whether another process may go on within the epoch: whether an epoch that looks the same is the
// same. Servers that were only sampled may have changed without a trace, unless a definition's generation tells.
func (c *Checkpoint) resumable() bool { return c.Epoch.Evidence >= Observed || c.Epoch.CRDUID != "" }

// end ends the pass. What it did stays known as a good range, if its epoch was observed on every API server; a sample
// can miss a server.
func (c *Checkpoint) end() {
	if !c.Begun {
		return
	}
	if c.Epoch.Evidence >= Observed && c.Baseline > 0 {
		c.Ranges = addRange(c.Ranges, Range{Hash: c.Epoch.Hash, From: c.Baseline, To: c.Confirmed})
	}
	c.Begun, c.Baseline, c.Confirmed = false, 0, 0
	c.Continue, c.Listed, c.Complete = "", false, false
	c.recount()
	c.Restarts++
}

// recount begins to count anew: the objects will be listed again.
func (c *Checkpoint) recount() {
	c.Counts = Counts{
		RewrittenBefore: c.Counts.RewrittenBefore + c.Counts.Rewritten,
		Retried:         c.Counts.Retried, ChangedByAdmission: c.Counts.ChangedByAdmission,
	}
	c.Failures, c.FailuresOmitted = nil, 0
}

// begin starts a new pass in an epoch that has settled.
func (c *Checkpoint) begin(e Epoch) {
	c.end()
	c.Begun, c.Epoch = true, e
}

// current reports whether an object is known to be stored in the current version: it was written in this epoch,
// or in a good range of its hash.
func (c *Checkpoint) current(o object) bool {
	resourceVersion := number(o.resourceVersion)
	if resourceVersion == 0 || c.Baseline == 0 || c.Epoch.Evidence < Observed {
		return false
	}
	return resourceVersion > c.Baseline || inRange(c.Ranges, c.Epoch.Hash, resourceVersion)
}

// fail records failures, by name as long as there is room.
func (c *Checkpoint) fail(failures []Failure) {
	for _, f := range failures {
		if len(c.Failures) < maxFailures {
			c.Failures = append(c.Failures, f)
		} else {
			c.FailuresOmitted++
		}
	}
}
