// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pace decides when the next request to an API server may start.
//
// It owns the load that a sweep puts on an API server: concurrency and rate follow the latency of the server and its
// signals (429, Retry-After, 503), and stay within the limits that the user configured (I7). If requests are spread over
// several servers, each server has a law of its own, and the limits bound all of them together. A Pacer sends nothing.
package pace

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultInFlight bounds the requests in flight if the user does not.
const DefaultInFlight = 64

// Limits are configured by the user. A Pacer never exceeds them, even if the server could handle more.
type Limits struct {
	// ObjectsPerSecond bounds how many requests start in a second. 0 means no bound.
	ObjectsPerSecond float64
	// InFlight bounds how many requests are in flight. 0 means DefaultInFlight.
	InFlight int
	// BytesPerSecond bounds the bytes of the requests and their answers together, as Slot.Count counts them. The bytes
	// of one second may be transferred at once. 0 means no bound.
	BytesPerSecond int64
}

// Kind says how a request ended. Latencies are compared only within one kind.
type Kind int

const (
	// Wrote means that the server wrote to etcd.
	Wrote Kind = iota
	// Unchanged means that the server had nothing to write.
	Unchanged
	kinds // the latency of the kinds above shows the load
	// Throttled means that the server refused the request because of load (429, 503).
	Throttled
	// Lost means that no answer came. The server may be overloaded, or the network may have failed.
	Lost
	// Other is any other end. It shows nothing about the load.
	Other
)

// Stats is the state of a Pacer.
type Stats struct {
	InFlightLimit int           // requests that may be in flight now
	RateLimit     float64       // objects per second that may start now; +Inf means not limited
	Throttles     int64         // how often a server refused a request because of load
	Paused        time.Duration // for how long no request was started because a server asked for that, summed over servers
	Bytes         int64         // the bytes of requests and their answers, as Slot.Count counts them
	Servers       int           // over which requests are spread; 0 means that they are not
}

// Bounds are Limits that the Pacers of several sweeps keep together. It is safe for concurrent use.
type Bounds struct {
	limits Limits
	bucket *rate.Limiter // tokens do not accumulate, so the configured rate holds over any interval

	mu       sync.Mutex
	bytes    bandwidth
	inFlight int           // of all Pacers
	changed  chan struct{} // closed and replaced whenever a request that waits may be able to start
}

// NewBounds returns Bounds that no request has used.
func NewBounds(limits Limits) *Bounds {
	if limits.InFlight <= 0 {
		limits.InFlight = DefaultInFlight
	}
	b := &Bounds{limits: limits, bytes: newBandwidth(limits.BytesPerSecond, time.Now()), changed: make(chan struct{}),
		bucket: rate.NewLimiter(rate.Inf, 1)}
	if limits.ObjectsPerSecond > 0 {
		b.bucket.SetLimit(rate.Limit(limits.ObjectsPerSecond))
	}
	return b
}

// Pacer gives permission to send requests, one by one. It is safe for concurrent use.
type Pacer struct {
	*Bounds
	main *lane // of Acquire

	// The mutex of the bounds guards these.
	lanes  []*lane   // of the servers of Spread
	spread time.Time // when Spread was called
	stats  Stats
}

// New returns a Pacer that starts with one request in flight.
func New(limits Limits) *Pacer { return Within(NewBounds(limits)) }

// Within returns a Pacer that starts with one request in flight, and keeps the bounds together with all others within
// them. Its law is its own: one server may take longer for the objects of one resource than for those of another.
func Within(b *Bounds) *Pacer {
	return &Pacer{Bounds: b, main: newLane(0, b.limits.InFlight, time.Now())}
}

// Slot is the permission for one request in flight, from Acquire to Release.
type Slot struct {
	lane     *lane
	started  time.Time
	expected float64 // bytes
	meter    *meter
}

// Acquire waits until one more request may start. The only error is that of the context.
func (p *Pacer) Acquire(ctx context.Context) (Slot, error) {
	l, err := p.takeSlot(ctx, p.first)
	if err != nil {
		return Slot{}, err
	}
	slot, err := p.start(ctx, l)
	if err == nil {
		if err = l.gate.Wait(ctx); err != nil { // a pause may have begun during the wait for the token
			p.giveBack(l, slot.expected)
			return Slot{}, err
		}
		slot.started = time.Now()
	}
	return slot, err
}

// start waits for what a request in a lane needs besides its slot.
func (p *Pacer) start(ctx context.Context, l *lane) (Slot, error) {
	expected, err := p.takeBytes(ctx)
	if err != nil {
		p.giveBack(l, 0)
		return Slot{}, err
	}
	configured, own := p.bucket.Reserve(), l.bucket.Reserve()
	if Sleep(ctx, max(configured.Delay(), own.Delay())) != nil {
		configured.Cancel()
		own.Cancel()
		p.giveBack(l, expected)
		return Slot{}, context.Cause(ctx)
	}
	return Slot{lane: l, started: time.Now(), expected: expected, meter: new(meter)}, nil
}

// takeBytes waits until the bandwidth allows one more request, and charges its expected bytes.
func (p *Pacer) takeBytes(ctx context.Context) (expected float64, err error) {
	for {
		p.mu.Lock()
		wait := p.bytes.wait(time.Now())
		if wait <= 0 {
			expected = p.bytes.begin()
		}
		changed := p.changed // a request that has ended may have carried less than expected
		p.mu.Unlock()
		if wait <= 0 {
			return expected, context.Cause(ctx)
		}
		if err := await(ctx, changed, wait); err != nil {
			return 0, err
		}
	}
}

// takeSlot waits until choose returns a lane with room, and takes a slot in it.
func (p *Pacer) takeSlot(ctx context.Context, choose func(now time.Time) (*lane, time.Duration)) (*lane, error) {
	for {
		p.mu.Lock()
		l, wait := choose(time.Now())
		if l != nil && p.inFlight < p.limits.InFlight {
			p.inFlight++
			l.inFlight++
			p.mu.Unlock()
			return l, nil
		}
		changed := p.changed
		p.mu.Unlock()
		if err := await(ctx, changed, wait); err != nil {
			return nil, err
		}
	}
}

// await waits for a change, for as long as wait at most where that is not 0. The only error is that of the context.
func await(ctx context.Context, changed <-chan struct{}, wait time.Duration) error {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// giveBack ends a request that was not sent.
func (p *Pacer) giveBack(l *lane, expected float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	l.inFlight--
	p.bytes.level += expected
	p.wake()
}

// wake must be called with the lock held.
func (p *Pacer) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Release says that and how a request has ended. retryAfter is the pause that the server asked for: no request to that
// server starts before it is over. 0 means none.
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
	p.stats.Paused += slot.lane.end(now, slot.started, kind, retryAfter)
	p.wake()
}

// WaitWhilePaused waits until the Retry-After of the server of Acquire is over. It is for requests that are not paced,
// such as the looks of a sweep that waits for an agreement. The only error is that of the context.
func (p *Pacer) WaitWhilePaused(ctx context.Context) error { return p.main.gate.Wait(ctx) }

// Sleep waits for d or for the end of the context. If the context has ended, it returns the cause, even if d is over
// too: the caller starts nothing after the end.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// Stats returns the current state.
func (p *Pacer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Servers = len(p.lanes)
	for _, l := range p.used() {
		s.InFlightLimit += l.law.limit
		s.RateLimit += l.law.rate
	}
	s.InFlightLimit = min(s.InFlightLimit, p.limits.InFlight)
	if p.limits.ObjectsPerSecond > 0 {
		s.RateLimit = min(s.RateLimit, p.limits.ObjectsPerSecond)
	}
	return s
}
