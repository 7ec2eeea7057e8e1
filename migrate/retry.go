// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

const (
	// maxAttempts is how often one request is sent if the server answers it with an error that may be transient, such as
	// 500 or 409. An API server at its own address is asked once, and then the address in the config (see counts). An
	// object that fails is tried once more in the same way at the end of the pass (see
	// retryFailed); after that the controller repeats the whole run with a backoff of its own.
	maxAttempts  = 6
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// errOutage reports that a request was not answered within outageTimeout.
var errOutage = errors.New("gave up waiting for an answer")

// outage is an errOutage.
type outage struct {
	since   time.Time
	after   time.Duration
	others  bool // patches of other objects were answered meanwhile
	problem error
}

func (o *outage) Error() string {
	return fmt.Sprintf("%v after %v: %v", errOutage, o.after, o.problem)
}

func (o *outage) Unwrap() []error { return []error{errOutage, o.problem} }

// maxSilent is how many objects of a pass may get no answer before the sweep ends. Each of them takes outageTimeout,
// and the fewer requests are in flight the fewer share that time. An object that no API server can answer about is so
// rare that this many are a component that is down, for some of the objects.
const maxSilent = 20

// silence decides what an object without an answer means for the sweep.
type silence struct {
	last    Failure // of any kind
	objects int     // without an answer, in this pass
	at      int64   // Sweep.patched when the last one of them was set aside while no patch was answered
}

// ends returns why the sweep has to end because an object got no answer, or nil if it is set aside: if other patches
// were answered meanwhile, it is about this object; if none was, another object has to tell. When failed objects are
// tried once more, there may be no other one (retrying).
func (s *Sweep) ends(o *outage, retrying bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent.objects++
	patched := s.patched.Load()
	switch alone := !o.others && !retrying; {
	case alone && s.silent.at == patched+1, s.silent.objects > maxSilent:
	case alone:
		s.silent.at = patched + 1
		return nil
	default:
		return nil
	}
	if s.answer.Load() > o.since.UnixNano() { // the API server is there, so others can have the turn
		return fmt.Errorf("%w: %w", ErrStalled, o)
	}
	return o
}

// acquire waits until a request may start: pace.Pacer.Acquire at the address in the config, AcquireAny at any server.
type acquire func(context.Context) (pace.Slot, error)

// try is tryAt for requests to the address in the config that write nothing. The end of starting ends them, too.
func (s *Sweep) try(starting untilStop, send func(context.Context) (pace.Kind, error)) error {
	return s.tryAt(starting, starting, s.pacer.Acquire, func(ctx context.Context, _ pace.Slot) (pace.Kind, error) {
		return send(ctx)
	})
}

// tryAt sends one request, and repeats it as long as that helps: bounded in number if the server answers, and in time
// if it does not, honouring Retry-After. starting ends the waiting and the repeating; ctx ends the request, too.
func (s *Sweep) tryAt(ctx context.Context, starting untilStop, acquire acquire,
	send func(context.Context, pace.Slot) (pace.Kind, error)) error {
	var since time.Time // of the outage
	var patched int64   // before it
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		slot, err := acquire(starting)
		if err != nil {
			return err
		}
		kind, err := send(slot.Count(ctx), slot)
		c := classify(err)
		switch c { //nolint:exhaustive // the other classes say nothing about load
		case throttled:
			kind = pace.Throttled
		case lost:
			kind = pace.Lost
		}
		s.pacer.Release(slot, kind, retryAfter(err, c))
		if c == lost && ctx.Err() == nil {
			s.pacer.Avoid(slot)
		}
		if ctx.Err() != nil {
			return causeOf(ctx, err)
		}
		switch c {
		case fine, missing, expired, rejected, refused, untrusted, cancelled:
			s.answer.Store(time.Now().UnixNano())
			return err
		case throttled, lost:
			attempt--
			if since.IsZero() {
				since, patched = time.Now(), s.patched.Load()
			}
			if time.Since(since) > s.options.outageTimeout {
				return &outage{since: since, after: s.options.outageTimeout, others: s.patched.Load() > patched,
					problem: err}
			}
		case faulty, unready, conflict: // an API server that is just starting does not know the Services yet
			// An answer of one of several servers does not count (see counts), so repeating it there helps no one.
			if since = (time.Time{}); attempt >= maxAttempts || slot.Server() != 0 {
				return err
			}
		}
		s.retried.Add(1)
		if err := pace.Sleep(starting, backoff/2+rand.N(backoff)); err != nil {
			return err
		}
		backoff = min(2*backoff, maxBackoff)
	}
}
