// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// failing is a checkpoint with failures whose messages do not compress.
func failing(t *testing.T, n, bytes int) migrate.Checkpoint {
	t.Helper()
	c := map[string]any{"version": 1, "resource": "widgets", "failuresOmitted": 5}
	failures := make([]migrate.Failure, 0, n)
	for i := range n {
		var message strings.Builder
		for message.Len() < bytes {
			message.WriteString(rand.Text())
		}
		failures = append(failures, migrate.Failure{Name: fmt.Sprint("o", i), Reason: migrate.Rejected,
			Message: message.String()})
	}
	c["failures"] = failures
	data, err := json.Marshal(c)
	must(t, err)
	checkpoint, err := migrate.ReadCheckpoint(data)
	must(t, err)
	return checkpoint
}

func TestACheckpointIsCutToSizeAndCountsWhatIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoint migrate.Checkpoint
		limit      int
		least      int // failures that must be kept
		most       int
	}{
		"one that fits is kept whole":           {failing(t, 100, 100), maxBytes, 100, 100},
		"of one that does not the end is left":  {failing(t, 1000, 2000), maxBytes, 400, 999},
		"a failure that does not fit is left":   {failing(t, 1, 5000), 1000, 0, 0},
		"the most that fits is kept, and not 0": {failing(t, 10, 1000), 4000, 4, 6},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := pack(c.checkpoint, c.limit)
			must(t, err)
			if len(raw) > c.limit {
				t.Errorf("%d bytes, want at most %d", len(raw), c.limit)
			}
			got, err := unpack(raw)
			must(t, err)
			kept := len(got.Summary.Failures)
			if kept < c.least || kept > c.most {
				t.Errorf("%d failures are kept, want %d to %d", kept, c.least, c.most)
			}
			if all := int64(kept) + got.Summary.FailuresOmitted; all != int64(len(c.checkpoint.Summary.Failures))+5 {
				t.Errorf("%d failures are named or counted, want all %d", all, len(c.checkpoint.Summary.Failures)+5)
			}
			if diff := cmp.Diff(c.checkpoint.Summary.Failures[:kept], got.Summary.Failures,
				cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
			if c.checkpoint.Summary.FailuresOmitted != 5 {
				t.Error("the engine's own checkpoint was changed")
			}
		})
	}
}

func TestACheckpointThatCannotFitIsAnError(t *testing.T) {
	if raw, err := pack(failing(t, 3, 100), 50); err == nil {
		t.Errorf("packed into %d bytes, want an error", len(raw))
	}
}

func TestACutOffCheckpointIsNone(t *testing.T) {
	raw, err := pack(failing(t, 3, 100), maxBytes)
	must(t, err)
	if c, err := unpack(raw[:len(raw)-4]); err == nil {
		t.Errorf("unpacked %+v from a part", c)
	}
}

func TestAMessageIsCutBetweenCharacters(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a short one stays":          {"héllo", "héllo"},
		"one that just fits stays":   {strings.Repeat("é", maxText), strings.Repeat("é", maxText)},
		"a longer one is cut":        {strings.Repeat("é", maxText+1), strings.Repeat("é", maxText-1) + "…"},
		"broken text becomes proper": {strings.Repeat("\xff", 2*maxText), strings.Repeat("\uFFFD", maxText-1) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cut(c.text)
			if got != c.want || !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxText {
				t.Errorf("got %q (%d characters), want %q", got, utf8.RuneCountInString(got), c.want)
			}
		})
	}
}

func TestThePresentRateIsThatOfTheLastSeconds(t *testing.T) {
	var m speed
	begin := time.Now()
	rate := func(second int, phase migrate.Phase, done int64) float64 {
		return m.at(begin.Add(time.Duration(second)*time.Second),
			migrate.Progress{Phase: phase, Counts: migrate.Counts{Rewritten: done}})
	}
	for second := range 10 {
		rate(second, migrate.Rewriting, int64(100*second))
	}
	for second := 10; second < 15; second++ {
		rate(second, migrate.Rewriting, int64(900+200*(second-9)))
	}
	if got := rate(15, migrate.Rewriting, 2100); got != 200 {
		t.Errorf("rate %v, want 200: that of the last 5 s", got)
	}
	if got := rate(16, migrate.Rewriting, 10); got != 0 {
		t.Errorf("rate %v at the beginning of a new pass, want 0", got)
	}
	if got := rate(17, migrate.Confirming, 10); got != 0 {
		t.Errorf("rate %v while nothing is rewritten, want 0", got)
	}
}
