// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// longestClosed bounds how long one answer closes a Gate. An aggregated API server may ask for any time, such as an
// hour, and a Gate is closed for all requests. The API Priority and Fairness of a kube-apiserver asks for at most 32 s.
const longestClosed = time.Minute

// Gate holds requests back as long as a server asks for that: after an answer 429 or 503 with Retry-After, no request
// passes the Gate until that time, but at most longestClosed, is over (I7). A request that must not be late, such as
// the renewal of a Lease, must not pass the Gate, or must be bounded by HeldUntil. A Gate is safe for concurrent use;
// the zero value is open.
type Gate struct {
	mu          sync.Mutex
	closedUntil time.Time
}

// Wait waits until the gate is open, or until the moment of HeldUntil. The only error is that of the context.
func (g *Gate) Wait(ctx context.Context) error {
	latest, bounded := ctx.Value(heldUntil{}).(time.Time)
	for {
		g.mu.Lock()
		wait := time.Until(g.closedUntil)
		g.mu.Unlock()
		if bounded {
			wait = min(wait, time.Until(latest))
		}
		if wait <= 0 {
			return context.Cause(ctx)
		}
		if err := Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// isClosed reports whether Wait would wait.
func (g *Gate) isClosed() bool { return g.left() > 0 }

// left is how long the gate stays closed; not more than 0 while it is open.
func (g *Gate) left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.closedUntil)
}

// maxGates bounds the addresses that Gates remember: those that asked for a pause which is over are forgotten first.
const maxGates = 256

// Gates have a Gate for each address: a pause that one API server asks for holds back requests to its address only.
// They are safe for concurrent use; the zero value is open.
type Gates struct {
	mu sync.Mutex
	by map[string]*Gate
}

// of returns the gate of an address.
func (g *Gates) of(address string) *Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == nil {
		g.by = map[string]*Gate{}
	}
	if g.by[address] == nil {
		if len(g.by) >= maxGates {
			maps.DeleteFunc(g.by, func(_ string, one *Gate) bool { return !one.isClosed() })
		}
		g.by[address] = new(Gate)
	}
	return g.by[address]
}

// Wrap puts the gates in front of a RoundTripper.
func (g *Gates) Wrap(next http.RoundTripper) http.RoundTripper {
	return &gatedByAddress{gates: g, next: next}
}

type gatedByAddress struct {
	gates *Gates
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *gatedByAddress) RoundTrip(request *http.Request) (*http.Response, error) {
	return t.gates.of(request.URL.Host).Wrap(t.next).RoundTrip(request)
}

// WrappedRoundTripper lets client-go find what is below.
func (t *gatedByAddress) WrappedRoundTripper() http.RoundTripper { return t.next }

// heldUntil is the key of the moment until which a closed Gate may hold the requests of a context.
type heldUntil struct{}

// HeldUntil returns a context whose requests a closed Gate holds at most until a given moment, and not at all if the
// moment has passed. It is for small requests that cannot wait as long as a server may ask, such as the looks that keep
// a pass valid. The caller must keep them rare (I7).
func HeldUntil(ctx context.Context, latest time.Time) context.Context {
	return context.WithValue(ctx, heldUntil{}, latest)
}

// close keeps the gate closed for d from now, but at most for longestClosed, and returns by how much that prolongs the
// time for which it is closed.
func (g *Gate) close(d time.Duration) (longer time.Duration) {
	d = min(d, longestClosed)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.closedUntil.Before(now) {
		g.closedUntil = now
	}
	if longer = now.Add(d).Sub(g.closedUntil); longer <= 0 {
		return 0
	}
	g.closedUntil = now.Add(d)
	return longer
}

// Wrap puts the gate in front of a RoundTripper.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return &gated{gate: g, next: next} }

type gated struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *gated) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.gate.Wait(request.Context()); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	response, err := t.next.RoundTrip(request)
	if err == nil && (response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusServiceUnavailable) {
		if seconds, parseErr := strconv.Atoi(response.Header.Get("Retry-After")); parseErr == nil && seconds > 0 {
			// a longer time could overflow
			t.gate.close(time.Duration(min(seconds, int(longestClosed/time.Second))) * time.Second)
		}
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the wrapped RoundTripper.
func (t *gated) WrappedRoundTripper() http.RoundTripper { return t.next }
