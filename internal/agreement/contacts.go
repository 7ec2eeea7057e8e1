// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"net/http"
	"sync"
	"time"
)

const (
	// probeTimeout bounds a request to an address that has not answered yet: from outside a cluster, servers' own
	// addresses often lead nowhere, and a look should not wait long to find that out.
	probeTimeout = 2 * time.Second
	// probeAgainAfter is how long an address that did not answer is left alone.
	probeAgainAfter = time.Minute
	// missedFor is how long an address that used to answer may fail before evidence becomes weaker. Until then a
	// failure voids the look: one lost packet must not turn Observed into Sampled.
	missedFor = 30 * time.Second
)

// contacts is what is known about each address of an API server. Safe for concurrent use.
type contacts struct {
	timeout time.Duration // for one that is known to answer

	mu sync.Mutex
	by map[string]contact
}

// contact is when an address answered last, and until when it is left alone because it did not.
type contact struct {
	answered, leaveUntil time.Time
}

func newContacts(timeout time.Duration) *contacts {
	return &contacts{timeout: timeout, by: map[string]contact{}}
}

// timeoutFor returns how long to wait for an address; ok is false while it is left alone.
func (c *contacts) timeoutFor(address string, now time.Time) (timeout time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.by[address]
	if now.Before(known.leaveUntil) {
		return 0, false
	}
	if known.answered.IsZero() {
		return min(probeTimeout, c.timeout), true
	}
	return c.timeout, true
}

// record remembers how an address did. The error it returns voids the look.
func (c *contacts) record(address string, r reply, now time.Time) error {
	if address == "" {
		return r.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.by[address]
	switch {
	case r.skipped:
	case r.err == nil:
		c.by[address] = contact{answered: now}
	case busy(r.err), now.Sub(known.answered) < missedFor:
		return r.err
	default:
		c.by[address] = contact{leaveUntil: now.Add(probeAgainAfter)}
	}
	return nil
}

// busy reports whether a server answered that it cannot answer now. One that refuses our credentials, which may be
// meant for a proxy at the address in the kubeconfig, counts as one that does not answer.
func busy(err error) bool {
	code := statusOf(err)
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
