// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// failing is a checkpoint with failures whose messages do not compress.
func failing(t *testing.T, n, bytes int) Checkpoint {
	t.Helper()
	c := map[string]any{"version": 1, "resource": "widgets", "failuresOmitted": 5}
	failures := make([]Failure, 0, n)
	for i := range n {
		var message strings.Builder
		for message.Len() < bytes {
			message.WriteString(rand.Text())
		}
		failures = append(failures, Failure{Name: fmt.Sprint("o", i), Reason: Rejected,
			Message: message.String()})
	}
	c["failures"] = failures
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := ReadCheckpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint
}

func TestACheckpointIsCutToSizeAndCountsWhatIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoint Checkpoint
		limit      int
		least      int // failures that must be kept
		most       int
	}{
		"one that fits is kept whole":           {failing(t, 100, 100), maxPacked, 100, 100},
		"of one that does not the end is left":  {failing(t, 1000, 2000), maxPacked, 400, 999},
		"a failure that does not fit is left":   {failing(t, 1, 5000), 1000, 0, 0},
		"the most that fits is kept, and not 0": {failing(t, 10, 1000), 4000, 4, 6},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := c.checkpoint.Pack(c.limit)
			if err != nil || len(raw) > c.limit {
				t.Fatalf("%d bytes (%v), want at most %d", len(raw), err, c.limit)
			}
			got, err := ReadCheckpoint(raw)
			if err != nil {
				t.Fatal(err)
			}
			kept := len(got.Summary.Failures)
			if kept < c.least || kept > c.most {
				t.Errorf("%d failures are kept, want %d to %d", kept, c.least, c.most)
			}
			if all := int64(kept) + got.Summary.FailuresOmitted; all != int64(len(c.checkpoint.Summary.Failures))+5 {
				t.Errorf("%d failures are named or counted, want all %d", all, len(c.checkpoint.Summary.Failures)+5)
			}
			if want := c.checkpoint.Summary.Failures[:kept]; !slices.Equal(want, got.Summary.Failures) {
				t.Errorf("failures %+v, want %+v", got.Summary.Failures, want)
			}
			if c.checkpoint.Summary.FailuresOmitted != 5 {
				t.Error("the engine's own checkpoint was changed")
			}
		})
	}
}

func TestACheckpointThatCannotFitIsAnError(t *testing.T) {
	if raw, err := failing(t, 3, 100).Pack(50); !errors.Is(err, ErrCheckpointTooLarge) {
		t.Errorf("packed into %d bytes (%v), want ErrCheckpointTooLarge", len(raw), err)
	}
}

func TestACutOffCheckpointIsNone(t *testing.T) {
	raw, err := failing(t, 3, 100).Pack(maxPacked)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ReadCheckpoint(raw[:len(raw)-4]); err == nil {
		t.Errorf("unpacked %+v from a part", c)
	}
}

func TestACheckpointThatUnpacksToTooMuchIsNone(t *testing.T) {
	for _, size := range []int{maxUnpacked, maxUnpacked + 1} {
		text := append([]byte(`{"version":1}`), bytes.Repeat([]byte(" "), size-13)...)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if c, err := ReadCheckpoint(packed.Bytes()); (err == nil) != (size <= maxUnpacked) {
			t.Errorf("%d bytes from %d: %+v (%v)", size, packed.Len(), c, err)
		}
	}
}
