// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// maxBytes bounds the contents of the ConfigMap: the API server accepts 1 MiB.
	maxBytes = 900 << 10
	// maxUnpacked bounds the size of an unpacked checkpoint (I6). It is several times what a sweep writes. A larger
	// checkpoint, from an older release, is ignored, which costs the work of one pass.
	maxUnpacked = 8 << 20
)

var errTooLarge = errors.New("the checkpoint is too large for a ConfigMap")

// pack compresses a checkpoint to at most limit bytes. If it does not fit, pack leaves out failures, the last ones
// first, and counts them: a sweep that resumes from it starts a new pass, because it does not know every object that
// failed.
func pack(c migrate.Checkpoint, limit int) ([]byte, error) {
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
		packed, err = packWithFailures(c, all-drop)
		return len(packed) <= limit
	})
	if err != nil {
		return nil, err
	}
	if packed, err = packWithFailures(c, all-dropped); err == nil && len(packed) > limit {
		err = fmt.Errorf("%w: %d bytes", errTooLarge, len(packed))
	}
	return packed, err
}

func packWithFailures(c migrate.Checkpoint, n int) ([]byte, error) {
	fewer, err := c.WithFailures(n)
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

func unpack(raw []byte) (migrate.Checkpoint, error) {
	var none migrate.Checkpoint
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return none, fmt.Errorf("unpack checkpoint: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1)) // to the end, which contains the checksum
	if err == nil && len(data) > maxUnpacked {
		err = fmt.Errorf("it has more than %d bytes", maxUnpacked)
	}
	if err != nil {
		return none, fmt.Errorf("unpack checkpoint: %w", err)
	}
	return migrate.ReadCheckpoint(data)
}
