// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// Checkpoints stores the checkpoint of one resource; ConfigMapCheckpoints is one. A sweep calls it from one goroutine at
// a time.
type Checkpoints interface {
	// Load returns the Data of the checkpoint that Save stored last, or its Pack, or nil if there is none. An error ends
	// the run.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces what is stored, either completely or not at all: the process may die at any moment. It is
	// called after each page of a list; an error ends the run.
	Save(ctx context.Context, checkpoint Checkpoint) error
}

// Checkpoint contains everything that a sweep needs to resume in another process, and a summary of it.
type Checkpoint struct {
	// Data is the value that Load has to return. It is JSON in a versioned format: a sweep that loads Data in an
	// unknown format starts over. It usually has some KiB; if many objects cannot be rewritten, it names them and may
	// grow to 1 MiB: see Pack.
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

// ReadCheckpoint returns the checkpoint with that Data, or with the result of its Pack. Use it to read the Summary of a
// stored checkpoint.
func ReadCheckpoint(data []byte) (Checkpoint, error) {
	data, err := unpacked(data)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("unpack checkpoint: %w", err)
	}
	c, err := decodeCheckpoint(data)
	if err != nil {
		return Checkpoint{}, err
	}
	return Checkpoint{Data: data, Summary: c.summary()}, nil
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

// maxUnpacked bounds the size of an unpacked checkpoint (I6). It is several times what a sweep writes. A larger
// checkpoint, from an older release, is refused.
const maxUnpacked = 8 << 20

// ErrCheckpointTooLarge reports that a checkpoint does not fit even if it names no failure.
var ErrCheckpointTooLarge = errors.New("the checkpoint is too large")

// Pack returns Data in at most limit bytes, for a store that has a limit: it compresses Data, and if that does not
// suffice, it leaves out failures, the last ones first, and counts them. A sweep that resumes from the result then lists
// all objects again, because it does not know which ones failed. Load may return the result as it is. The error is
// ErrCheckpointTooLarge.
func (c Checkpoint) Pack(limit int) ([]byte, error) {
	packed, err := zip(c.Data)
	if err != nil || len(packed) <= limit {
		return packed, err
	}
	// Find the largest number of failures that fits: packing fewer takes fewer bytes.
	all := len(c.Summary.Failures)
	dropped := sort.Search(all, func(drop int) bool {
		if err != nil {
			return true
		}
		packed, err = c.packWith(all - drop)
		return len(packed) <= limit
	})
	if err != nil {
		return nil, err
	}
	if packed, err = c.packWith(all - dropped); err == nil && len(packed) > limit {
		err = fmt.Errorf("%w: %d bytes", ErrCheckpointTooLarge, len(packed))
	}
	return packed, err
}

// packWith packs a checkpoint that names at most n failures and only counts the others.
func (c Checkpoint) packWith(n int) ([]byte, error) {
	state, err := decodeCheckpoint(c.Data)
	if err != nil {
		return nil, err
	}
	if dropped := len(state.Failures) - n; dropped > 0 {
		state.Failures = state.Failures[:n]
		state.FailuresOmitted += int64(dropped)
	}
	fewer, err := state.encode()
	if err != nil {
		return nil, err
	}
	return zip(fewer.Data)
}

func zip(data []byte) ([]byte, error) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress checkpoint: %w", err)
	}
	return buffer.Bytes(), nil
}

// unpacked returns data as it was before Pack. Data that is not packed, which is JSON, is returned as it is.
func unpacked(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // gzip
		return data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1)) // to the end, which contains the checksum
	if err == nil && len(raw) > maxUnpacked {
		err = fmt.Errorf("it has more than %d bytes", maxUnpacked)
	}
	return raw, err
}
