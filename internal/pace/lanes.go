// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// How long a server that did not answer gets no request: twice as long each time, until it answers.
const (
	firstAvoidance   = time.Second
	longestAvoidance = 10 * time.Minute
)

// mostBehind bounds how much time a server that got no requests may make up for.
const mostBehind = time.Second

// startTogether is how long after Spread no server gets more than twice the concurrency of another one. Each law finds its
// own concurrency, and the first to grow would get most requests before the others have begun. After this time a server
// that does not answer, or slowly, slows its own share only.
const startTogether = 2 * time.Second

// lane is the load of one API server. Each server has a law of its own, so that a slow one slows its own share only
// (I7).
type lane struct {
	index    int
	law      *law
	bucket   *rate.Limiter // of the law's rate
	gate     Gate
	inFlight int
	busy     time.Duration // what its requests have taken; see pick

	avoidedUntil time.Time
	avoidedAt    time.Time     // when Avoid was told last
	avoidance    time.Duration // the last one; 0 since the server has answered
}

func newLane(index, inFlight int, now time.Time) *lane {
	return &lane{index: index, law: newLaw(inFlight, now), bucket: rate.NewLimiter(rate.Inf, 1)}
}

// end takes in a request that has ended. It returns by how much longer the server asked for a pause.
func (l *lane) end(now, started time.Time, kind Kind, retryAfter time.Duration) (paused time.Duration) {
	l.inFlight--
	l.busy += now.Sub(started)
	if kind != Lost {
		l.avoidance = 0
	}
	l.law.observe(now, started, kind, now.Sub(started))
	allowed := rate.Limit(l.law.rate)
	if math.IsInf(l.law.rate, 1) {
		allowed = rate.Inf
	}
	if allowed != l.bucket.Limit() {
		l.bucket.SetLimit(allowed)
	}
	return l.gate.close(retryAfter)
}

// nextToken returns how long it takes until the law's rate allows one more request.
func (l *lane) nextToken(now time.Time) time.Duration {
	if math.IsInf(l.law.rate, 1) {
		return 0
	}
	missing := 1 - l.bucket.TokensAt(now)
	return time.Duration(max(0, missing) / l.law.rate * float64(time.Second))
}

// Spread tells how many servers AcquireAny may choose from. Nothing is known about any of them yet. Each may have its
// part of the requests in flight at most, so that those to a slow server take no room from others.
func (p *Pacer) Spread(servers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lanes, p.spread = nil, time.Now()
	for i := range servers {
		p.lanes = append(p.lanes, newLane(i+1, (p.limits.InFlight+servers-1)/servers, time.Now()))
	}
	p.wake()
}

// Server returns the number of the server of Spread that a request is for, from 1 on; 0 means the one of Acquire. It is
// 0 for a zero Slot, too.
func (s Slot) Server() int {
	if s.lane == nil {
		return 0
	}
	return s.lane.index
}

// AcquireAny waits until one more request may start at any of the servers of Spread: the one with the fewest requests
// in flight of those whose law has room; of several, the one whose requests have taken the least time. So servers of
// the same speed get the same number of requests, and a slow one gets as many as it can answer, also where only one is
// in flight. If Spread was told none, or each of them is avoided, it is Acquire. The only error is that of the context.
func (p *Pacer) AcquireAny(ctx context.Context) (Slot, error) {
	for {
		l, err := p.takeSlot(ctx, p.pick)
		if err != nil {
			return Slot{}, err
		}
		slot, err := p.start(ctx, l)
		switch {
		case err != nil:
			return Slot{}, err
		case !l.gate.isClosed():
			return slot, nil
		}
		p.giveBack(l, slot.expected) // a pause began while we waited for the token; another server may have none
	}
}

// first chooses the lane of Acquire. The lock is held.
func (p *Pacer) first(time.Time) (*lane, time.Duration) {
	if p.main.inFlight < p.main.law.limit {
		return p.main, 0
	}
	return nil, 0
}

// pick chooses the lane of AcquireAny, or returns how long it takes at most until there may be one. The lock is held.
func (p *Pacer) pick(now time.Time) (best *lane, wait time.Duration) {
	var busiest time.Duration
	for _, l := range p.lanes {
		busiest = max(busiest, l.busy)
	}
	reachable, most := false, p.mostConcurrency(now)
	for _, l := range p.lanes {
		left := max(l.gate.left(), l.nextToken(now))
		if now.Before(l.avoidedUntil) {
			left = l.avoidedUntil.Sub(now)
		} else {
			reachable = true
			l.busy = max(l.busy, busiest-mostBehind)
		}
		if left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if l.inFlight < min(l.law.limit, most) && (best == nil || l.inFlight < best.inFlight ||
			l.inFlight == best.inFlight && l.busy < best.busy) {
			best = l
		}
	}
	if !reachable {
		if left := p.main.gate.left(); left > 0 {
			return nil, left
		}
		return p.first(now)
	}
	return best, wait
}

// mostConcurrency returns how many requests one server may have in flight, whatever its law allows. The lock is held.
func (p *Pacer) mostConcurrency(now time.Time) int {
	most := p.limits.InFlight
	if now.Sub(p.spread) > startTogether {
		return most
	}
	for _, l := range p.lanes {
		if !now.Before(l.avoidedUntil) {
			most = min(most, 2*l.law.limit)
		}
	}
	return most
}

// Avoid says that no answer came to a request, or one that another server did not give. Its server gets no request for a
// while, and the others get its share: otherwise a server that fails at once would seem to be the least busy one.
func (p *Pacer) Avoid(slot Slot) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	l := slot.lane
	if l.index == 0 || !slot.started.After(l.avoidedAt) { // requests that fail together count once
		return
	}
	l.avoidance = min(max(2*l.avoidance, firstAvoidance), longestAvoidance)
	l.avoidedAt, l.avoidedUntil = now, now.Add(l.avoidance)
	p.wake()
}

// used returns the lanes that rewrites take. The lock is held.
func (p *Pacer) used() []*lane {
	if len(p.lanes) > 0 {
		return p.lanes
	}
	return []*lane{p.main}
}

// Paused reports whether Acquire or AcquireAny would wait for the end of a Retry-After.
func (p *Pacer) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := func(l *lane) bool { return !l.gate.isClosed() }
	return p.main.gate.isClosed() || !slices.ContainsFunc(p.used(), open)
}
