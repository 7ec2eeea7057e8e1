// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pace decides when the next request to an API server may start.
//
// It owns the load that a sweep puts on an API server: concurrency and rate follow the latency of the server and its
// signals (429, Retry-After, 503), and stay within what the user configured (I7). A Pacer sends nothing.
package pace

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultInFlight bounds the requests in flight where the user does not.
const DefaultInFlight = 32

// Limits are what a user configures. A Pacer never exceeds them, even if the server could bear more.
type Limits struct {
	// ObjectsPerSecond bounds how many requests start in a second. 0 means no bound.
	ObjectsPerSecond float64
	// InFlight bounds how many requests are in flight. 0 means DefaultInFlight.
	InFlight int
	// BytesPerSecond bounds what the requests and their answers carry together, as Slot.Count counts it. A second's
	// worth may come at once. 0 means no bound.
	BytesPerSecond int64
}

// Kind says how a request ended, as far as load is concerned. Latencies are compared within one kind only.
type Kind int

const (
	// Wrote: the server wrote to etcd.
	Wrote Kind = iota
	// Unchanged: the server had nothing to write.
	Unchanged
	kinds // the kinds above have a latency that means something
	// Throttled: the server refused because of load (429, 503).
	Throttled
	// Lost: no answer came. The server may be overloaded, or the network may have failed.
	Lost
	// Other: anything else; it says nothing about load.
	Other
)

// Stats is the state of a Pacer.
type Stats struct {
	InFlightLimit int           // requests that may be in flight now
	RateLimit     float64       // objects per second that may start now; +Inf: not limited
	Throttles     int64         // how often the server refused because of load
	Paused        time.Duration // how long nothing was started because the server asked for it
	Bytes         int64         // what requests and their answers carried, as Slot.Count counts it
}

// Pacer hands out the right to send a request. Safe for concurrent use.
type Pacer struct {
	limits Limits
	bucket *rate.Limiter // tokens never pile up: a configured rate holds over any interval
	gate   Gate

	mu       sync.Mutex
	bytes    bandwidth
	law      *law
	inFlight int
	changed  chan struct{} // closed and replaced whenever a waiter may have a chance
	stats    Stats
}

// New returns a Pacer that starts with one request in flight.
func New(limits Limits) *Pacer {
	if limits.InFlight <= 0 {
		limits.InFlight = DefaultInFlight
	}
	now := time.Now()
	p := &Pacer{limits: limits, bytes: newBandwidth(limits.BytesPerSecond, now), law: newLaw(limits.InFlight, now),
		changed: make(chan struct{})}
	p.bucket = rate.NewLimiter(p.allowed(), 1)
	return p
}

// Slot is the right to have one request in flight, from Acquire to Release.
type Slot struct {
	started  time.Time
	expected float64 // bytes
	meter    *meter
}

// Acquire waits until one more request may start. The only error is that of the context.
func (p *Pacer) Acquire(ctx context.Context) (Slot, error) {
	if err := p.takeSlot(ctx); err != nil {
		return Slot{}, err
	}
	expected, err := p.takeBytes(ctx)
	if err != nil {
		p.giveBack(0)
		return Slot{}, err
	}
	if token := p.bucket.Reserve(); Sleep(ctx, token.Delay()) != nil {
		token.Cancel()
		p.giveBack(expected)
		return Slot{}, context.Cause(ctx)
	}
	if err := p.WaitWhilePaused(ctx); err != nil { // a pause may have begun while we waited for the token
		p.giveBack(expected)
		return Slot{}, err
	}
	return Slot{started: time.Now(), expected: expected, meter: new(meter)}, nil
}

// takeBytes waits until the bandwidth has something left, and charges what one more request is expected to carry.
func (p *Pacer) takeBytes(ctx context.Context) (expected float64, err error) {
	for {
		p.mu.Lock()
		wait := p.bytes.wait(time.Now())
		if wait <= 0 {
			expected = p.bytes.begin()
		}
		changed := p.changed
		p.mu.Unlock()
		if wait <= 0 {
			return expected, context.Cause(ctx)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed: // a request that ended may have carried less than was expected
		case <-ctx.Done():
			timer.Stop()
			return 0, context.Cause(ctx)
		}
		timer.Stop()
	}
}

func (p *Pacer) takeSlot(ctx context.Context) error {
	for {
		p.mu.Lock()
		if p.inFlight < p.law.limit {
			p.inFlight++
			p.mu.Unlock()
			return nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// giveBack ends a request that was not sent.
func (p *Pacer) giveBack(expected float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.bytes.level += expected
	p.wake()
}

// wake must be called with the lock held.
func (p *Pacer) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Release ends a request and says how it went. retryAfter is what the server asked for; 0 means nothing.
// Until it is over, no request starts.
func (p *Pacer) Release(slot Slot, kind Kind, retryAfter time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	bytes := slot.meter.bytes.Load()
	p.stats.Bytes += bytes
	p.bytes.end(slot.expected, bytes)
	if kind == Throttled {
		p.stats.Throttles++
	}
	p.stats.Paused += p.gate.close(retryAfter)
	p.law.observe(now, slot.started, kind, now.Sub(slot.started))
	if allowed := p.allowed(); allowed != p.bucket.Limit() {
		p.bucket.SetLimit(allowed)
	}
	p.wake()
}

// allowed must be called with the lock held, or before p is shared.
func (p *Pacer) allowed() rate.Limit {
	allowed := p.law.rate
	if p.limits.ObjectsPerSecond > 0 {
		allowed = min(allowed, p.limits.ObjectsPerSecond)
	}
	if math.IsInf(allowed, 1) {
		return rate.Inf
	}
	return rate.Limit(allowed)
}

// WaitWhilePaused waits until the server's Retry-After is over. For the requests that are not paced, such as the looks
// of a sweep that waits for an agreement. The only error is that of the context.
func (p *Pacer) WaitWhilePaused(ctx context.Context) error { return p.gate.Wait(ctx) }

// Paused reports whether the server's Retry-After is not over.
func (p *Pacer) Paused() bool { return p.gate.isClosed() }

// Sleep waits for d, or for the end of the context, whose cause it returns, also where d is over as well: nothing is
// begun after the end.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Stats returns what p has come to by now.
func (p *Pacer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.InFlightLimit, s.RateLimit = p.law.limit, float64(p.allowed())
	if p.allowed() == rate.Inf {
		s.RateLimit = math.Inf(1)
	}
	return s
}
