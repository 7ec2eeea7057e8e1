// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
)

// presence asks whether a departed server still listens at an address. The connections verify its certificate.
//
// It opens a connection before it sends the request, because only the connection distinguishes a process that has ended
// from one that does not answer: a kernel accepts connections to a port as long as a process listens there, even if the
// process is suspended, and refuses them afterwards. Failures that something on the way may have caused (lost packets,
// no route, a reset, another certificate, a proxy) prove nothing.
func (c *client) presence(ctx context.Context, h *http.Client, address string) servers.Presence {
	if h == nil {
		return servers.Uncertain
	}
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, c.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/version", nil)
	if err != nil {
		return servers.Uncertain
	}
	direct := c.direct(req)
	if direct {
		if state := c.connect(ctx, address); state != servers.Hanging {
			return state
		}
	}
	resp, err := h.Do(req)
	switch {
	case err == nil:
		resp.Body.Close()
		return servers.Serving
	case direct && (errors.Is(err, context.DeadlineExceeded) || timedOut(err)):
		return servers.Hanging
	case direct && errors.Is(err, syscall.ECONNREFUSED): // it has just ended
		return servers.Silent
	}
	return servers.Uncertain
}

// direct reports whether a request goes straight to its address, and not through a proxy.
func (c *client) direct(req *http.Request) bool {
	proxy := c.config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	url, err := proxy(req)
	return err == nil && url == nil
}

// connect opens a connection and closes it. It returns hanging if the connection was accepted.
func (c *client) connect(ctx context.Context, address string) servers.Presence {
	dial := c.config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	switch {
	case err == nil:
		conn.Close()
		return servers.Hanging
	case errors.Is(err, syscall.ECONNREFUSED):
		return servers.Silent
	}
	return servers.Uncertain
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// probe asks a departed kube-apiserver.
func (o *observed) probe(ctx context.Context, address string) servers.Presence {
	if o.client.own == nil {
		return servers.Uncertain
	}
	return o.client.presence(ctx, o.client.own, address)
}

// probe returns the function that asks a departed process behind a service, without credentials: any answer will do.
func (a *aggregated) probe(s *snapshot.Service) func(ctx context.Context, address string) servers.Presence {
	return func(ctx context.Context, address string) servers.Presence {
		if len(s.CA) == 0 {
			return servers.Uncertain
		}
		b, err := a.backend(s)
		if err != nil {
			return servers.Uncertain
		}
		return a.client.presence(ctx, b.http, address)
	}
}

// follow records which servers live, and returns those that have departed and can still write.
func (o *Looker) follow(ctx context.Context, l snapshot.Leases, e snapshot.Endpoints) snapshot.Absent {
	return o.departures.follow(ctx, "", servers.SightOf(l, e, time.Now()), o.observed.probe)
}

// followService is follow for the processes behind a service.
func (o *Looker) followService(ctx context.Context, s *snapshot.Service) snapshot.Absent {
	return o.departures.follow(ctx, s.Namespace+"/"+s.Service, servers.SightBehind(s, time.Now()), o.aggregated.probe(s))
}
