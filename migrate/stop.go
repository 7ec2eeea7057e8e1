// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import "context"

// Stop ends the sweep gently: after Stop returns, no new request is started; Run waits for the rewrites in flight, saves
// the checkpoint and returns ErrStopped. The end of Run's context does the same.
func (s *Sweep) Stop() { s.stop(ErrStopped) }

func (s *Sweep) stop(why error) {
	s.update(func() {
		if s.stopped != nil {
			return
		}
		s.stopped = why
		if s.cancelWait != nil {
			s.cancelWait(why)
		}
	})
}

// Abort ends the sweep at once: it cancels the requests in flight, and Run returns ErrStopped. The checkpoint is the one
// after the last finished page, so a sweep that resumes repeats at most one page.
func (s *Sweep) Abort() {
	s.Stop()
	s.update(func() {
		s.aborted = true
		if s.cancelAll != nil {
			s.cancelAll(ErrStopped)
		}
	})
}

// untilStop is a context that ends when the sweep is stopped, too: for waiting, for starting something new, and for
// requests that write nothing. A rewrite that has started goes on under the context of Run. It is a type of its own so
// that the two cannot be swapped.
type untilStop struct{ context.Context }

// untilStopped returns an untilStop. Run has one at a time. Stop itself cancels it, because a goroutine that waits for
// Stop would let requests start until it is scheduled.
func (s *Sweep) untilStopped(ctx context.Context) (untilStop, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.update(func() {
		if s.stopped != nil {
			cancel(s.stopped)
		}
		s.cancelWait = cancel
	})
	return untilStop{ctx}, func() { cancel(nil) }
}
