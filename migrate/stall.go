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
