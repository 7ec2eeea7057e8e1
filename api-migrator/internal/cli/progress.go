// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/progress"
)

// repeated is after how many lines' time a step that goes on is shown again.
const repeated = 5

// watched returns a context whose steps are written to out: at most one line in each interval, with the step that has
// begun last and the time since the start. Work that is shorter than an interval has no line. An interval of zero has
// none at all. stop ends the lines, and has to be called.
func watched(ctx context.Context, out io.Writer, interval time.Duration) (with context.Context, stop func()) {
	if interval <= 0 {
		return ctx, func() {}
	}
	var mu sync.Mutex
	var step string
	ended := make(chan struct{})
	var lines sync.WaitGroup
	lines.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		begin, shown, quiet := time.Now(), "", 0
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			mu.Lock()
			now := step
			mu.Unlock()
			if quiet++; now == "" || now == shown && quiet < repeated {
				continue
			}
			shown, quiet = now, 0
			fmt.Fprintf(out, "%v: %s\n", time.Since(begin).Round(time.Second), now)
		}
	})
	with = progress.With(ctx, func(begun string) {
		mu.Lock()
		defer mu.Unlock()
		step = begun
	})
	return with, func() {
		close(ended)
		lines.Wait()
	}
}

// shared lets several goroutines write.
type shared struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}
