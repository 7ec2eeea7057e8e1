// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// Checkpoints stores the checkpoint of one resource, such as in a file or a ConfigMap. A sweep calls it from one
// goroutine at a time.
type Checkpoints interface {
	// Load returns the Data of the checkpoint that Save stored last, or nil if there is none. An error ends the run.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces what is stored, either completely or not at all: the process may die at any moment (I5). It is
	// called after each page of a list; an error ends the run.
	Save(ctx context.Context, checkpoint Checkpoint) error
}

// Checkpoint contains everything that a sweep needs to resume in another process (I5), and a summary of it.
type Checkpoint struct {
	// Data is the value that Load has to return. It is JSON in a versioned format: a sweep that loads Data in an
	// unknown format starts over. It usually has some KiB; if many objects cannot be rewritten, it names them and may
	// grow to 1 MiB.
	Data []byte
	// Summary describes the same moment as Data.
	Summary Summary
}

// Summary says how far a sweep had come at a checkpoint.
type Summary struct {
	// Epoch is the epoch in which the current pass started. Baseline is the resourceVersion of the collection at that
	// time; it is 0 before the first page, and if the resourceVersion is not a number.
	Epoch    Epoch
	Baseline uint64
	// Listed means that the pass has rewritten the last page. Complete means that, in addition, every object was
	// accounted for and the epoch was still the same after the last write.
	Listed, Complete bool
	// Total is the number of objects, an estimate.
	Total  int64
	Counts Counts
	// Failures are the objects that could not be rewritten in this pass. FailuresOmitted counts those that are not
	// among them because there are too many.
	Failures        []Failure
	FailuresOmitted int64
}

// ReadCheckpoint returns the checkpoint that has data as its Data. Use it to read the Summary of a stored checkpoint.
func ReadCheckpoint(data []byte) (Checkpoint, error) {
	c, err := decodeCheckpoint(data)
	if err != nil {
		return Checkpoint{}, err
	}
	return Checkpoint{Data: data, Summary: c.summary()}, nil
}

// WithFailures returns a checkpoint that names at most n failures and only counts the others, for a store that cannot
// hold all of them. A sweep that resumes from it lists all objects again, because it does not know which ones failed.
func (c Checkpoint) WithFailures(n int) (Checkpoint, error) {
	state, err := decodeCheckpoint(c.Data)
	if err != nil {
		return Checkpoint{}, err
	}
	if dropped := len(state.Failures) - n; dropped > 0 {
		state.Failures = state.Failures[:n]
		state.FailuresOmitted += int64(dropped)
	}
	return state.encode()
}

// maxSavedToken bounds the continue token in a saved checkpoint, in bytes.
const maxSavedToken = 16 << 10

// encode leaves a long continue token out (I6). A process that resumes from the checkpoint starts the list over, counts
// again, and does not rewrite what was rewritten in this epoch.
func (c *checkpoint) encode() (Checkpoint, error) {
	saved := *c
	if len(saved.Continue) > maxSavedToken {
		saved.Continue = ""
	}
	data, err := json.Marshal(saved)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("encode checkpoint: %w", err)
	}
	return Checkpoint{Data: data, Summary: c.summary()}, nil
}

func (c *checkpoint) summary() Summary {
	return Summary{Epoch: c.Epoch, Baseline: c.Baseline, Listed: c.Listed, Complete: c.Complete, Total: c.Total,
		Counts: c.Counts, Failures: c.Failures, FailuresOmitted: c.FailuresOmitted}
}

func decodeCheckpoint(data []byte) (*checkpoint, error) {
	if err := boundElements(data); err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	c := new(checkpoint)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	return c, nil
}

// boundElements refuses a checkpoint whose lists have more elements than a sweep writes, before they are decoded: an
// element of two bytes takes hundreds in memory (I6).
func boundElements(data []byte) error {
	type list = bounded.List[json.RawMessage]
	var lists struct {
		Failures, Ranges, Witnesses list
		Epoch                       struct{ Servers list }
	}
	return json.Unmarshal(data, &lists)
}

// noCheckpoints stores nothing.
type noCheckpoints struct{}

func (noCheckpoints) Load(context.Context) ([]byte, error)   { return nil, nil }
func (noCheckpoints) Save(context.Context, Checkpoint) error { return nil }
