// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// maxBytes bounds what is in the ConfigMap: the API server takes 1 MiB.
	maxBytes = 900 << 10
	// maxUnpacked bounds what a checkpoint may unpack to (I6): several times what a sweep writes. A larger one of an
	// older release is none, which costs the work of a pass.
	maxUnpacked = 8 << 20
)

var errTooLarge = errors.New("the checkpoint is too large for a ConfigMap")

// pack encodes a checkpoint in at most limit bytes. Where that needs it, failures are left out from the end and
// counted: who resumes from it begins a new pass, because it does not know every object that failed.
func pack(c *migrate.Checkpoint, limit int) ([]byte, error) {
	packed, err := packed(c)
	if err != nil || len(packed) <= limit {
		return packed, err
	}
	smallest := packed
	// The most failures that fit; packing fewer takes less.
	dropped := sort.Search(len(c.Failures), func(drop int) bool {
		if err != nil {
			return true
		}
		smallest, err = packedWithout(c, drop)
		return len(smallest) <= limit
	})
	if err != nil {
		return nil, err
	}
	if smallest, err = packedWithout(c, dropped); err == nil && len(smallest) > limit {
		err = fmt.Errorf("%w: %d bytes", errTooLarge, len(smallest))
	}
	return smallest, err
}

// packedWithout leaves out the last failures.
func packedWithout(c *migrate.Checkpoint, drop int) ([]byte, error) {
	less := *c
	less.Failures = c.Failures[:len(c.Failures)-drop]
	less.FailuresOmitted += int64(drop)
	return packed(&less)
}

func packed(c *migrate.Checkpoint) ([]byte, error) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if err := errors.Join(json.NewEncoder(w).Encode(c), w.Close()); err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return buffer.Bytes(), nil
}

func unpack(raw []byte) (*migrate.Checkpoint, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("unpack checkpoint: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1)) // to the end, where the checksum is
	if err == nil && len(text) > maxUnpacked {
		err = fmt.Errorf("it has more than %d bytes", maxUnpacked)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack checkpoint: %w", err)
	}
	if err := countElements(text); err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	c := new(migrate.Checkpoint)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	return c, nil
}

// countElements refuses a checkpoint whose lists have more elements than a sweep writes, before they are decoded: an
// element of two bytes takes hundreds in memory, so that maxUnpacked bounds nothing by itself (I6).
func countElements(text []byte) error {
	type list = bounded.List[json.RawMessage]
	var lists struct {
		Failures, Ranges, Witnesses list
		Epoch                       struct{ Servers list }
	}
	return json.Unmarshal(text, &lists)
}
