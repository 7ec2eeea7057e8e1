// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// longestClosed bounds how long one answer closes a Gate. What is behind an API server may ask for any time, such as an
// hour for one aggregated API, and a Gate is closed for everything. An API server's own priority and fairness asks for
// 32 s at most.
const longestClosed = time.Minute

// Gate holds requests back while a server asks for it: after an answer 429 or 503 with Retry-After, nothing that goes
// through the same Gate is sent until that time is over, or longestClosed (I7). What must not be late, such as the
// renewal of a Lease, has to go another way, or be bounded by HeldUntil. Safe for concurrent use; the zero value is
// open.
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
func (g *Gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.closedUntil) > 0
}

// heldUntil is the key of the moment up to which a closed Gate holds the requests of a context.
type heldUntil struct{}

// HeldUntil returns a context whose requests a closed Gate holds until a moment at most, and not at all where that has
// passed: for the few small requests that cannot wait for as long as a server may ask for, such as the looks that keep
// a pass valid. The caller sees to it that they are rare (I7).
func HeldUntil(ctx context.Context, latest time.Time) context.Context {
	return context.WithValue(ctx, heldUntil{}, latest)
}

// close keeps the gate closed for d from now, and returns by how much longer that is than it would have been.
func (g *Gate) close(d time.Duration) (longer time.Duration) {
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
			// a greater one could overflow
			t.gate.close(time.Duration(min(seconds, int(longestClosed/time.Second))) * time.Second)
		}
	}
	return response, err
}

// WrappedRoundTripper lets client-go find what is below.
func (t *gated) WrappedRoundTripper() http.RoundTripper { return t.next }
