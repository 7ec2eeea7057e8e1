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

// errOutage reports that the API server, or a conversion webhook, has not answered for OutageTimeout. It ends the
// sweep.
var errOutage = errors.New("gave up waiting for an answer")

// acquire waits until a request may start: pace.Pacer.Acquire at the address in the config, AcquireAny at any server.
type acquire func(context.Context) (pace.Slot, error)

// try is tryAt for requests to the address in the config.
func (s *Sweep) try(starting, ctx context.Context, send func(context.Context) (pace.Kind, error)) error {
	return s.tryAt(starting, ctx, s.pacer.Acquire, func(ctx context.Context, _ pace.Slot) (pace.Kind, error) {
		return send(ctx)
	})
}

// tryAt sends one request, and repeats it as long as that helps: bounded in number if the server answers, and in time
// if it does not, honouring Retry-After. starting ends the waiting and the repeating; ctx ends the request, too.
func (s *Sweep) tryAt(starting, ctx context.Context, acquire acquire,
	send func(context.Context, pace.Slot) (pace.Kind, error)) error {
	var since time.Time // of the outage
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
				since = time.Now()
			}
			if time.Since(since) > s.options.OutageTimeout {
				if s.answer.Load() > since.UnixNano() {
					return err // other requests were answered, so it is about this one
				}
				return fmt.Errorf("%w after %v: %w", errOutage, s.options.OutageTimeout, err)
			}
		case faulty, conflict:
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
