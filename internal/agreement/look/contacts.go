// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"net/http"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
)

const (
	// probeTimeout bounds a request to an address that has not answered yet: from outside a cluster, servers' own
	// addresses often lead nowhere, and a look should not wait long to find that out.
	probeTimeout = 2 * time.Second
	// probeAgainAfter is how long to wait before asking an address again that did not answer.
	probeAgainAfter = time.Minute
)

// contacts is what is known about each address of an API server. It is safe for concurrent use.
type contacts struct {
	timeout time.Duration // for an address that is known to answer

	mu sync.Mutex
	by map[string]contact
}

// contact is when an address last answered, and until when it is not asked because it did not answer.
type contact struct {
	answered, leaveUntil time.Time
}

func newContacts(timeout time.Duration) *contacts {
	return &contacts{timeout: timeout, by: map[string]contact{}}
}

// timeoutFor returns how long to wait for an address. ok is false while the address is not to be asked.
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

// record remembers the reply of an address. An error means that the look is void.
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
	case busy(r.err), now.Sub(known.answered) < servers.MissedFor:
		return r.err
	default:
		c.by[address] = contact{leaveUntil: now.Add(probeAgainAfter)}
	}
	return nil
}

// busy reports whether a server answered that it cannot answer at the moment. A server that refuses our credentials
// counts as one that does not answer: the credentials may be meant for a proxy at the address in the kubeconfig.
func busy(err error) bool {
	code := statusOf(err)
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
