// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// alikeAgain is how often to check that two addresses lead to two servers.
const alikeAgain = 10 * time.Second

// alike detects addresses in the EndpointSlice that belong to load balancers: asking each of them is not asking each
// server.
//
// A server gives every client a ticket for resuming its TLS session, sealed with a key that each process generates for
// itself. If a second address accepts the ticket of the first one, both lead to the same process. Load balancers that
// rotate between servers are only detected by chance, so the check is repeated. Its result holds as long as the servers
// are the same. The connections carry no credentials.
type alike struct {
	client *client

	mu      sync.Mutex
	servers []string // the holders and addresses that the other fields are about
	checked time.Time
	why     string
}

// of returns why the addresses do not belong to one server each, or "" if that is unknown.
func (a *alike) of(ctx context.Context, l snapshot.Leases, e snapshot.Endpoints) string {
	if a.client.own == nil || len(e.Addresses) < 2 {
		return ""
	}
	servers, now := slices.Concat(l.Holders(), e.Addresses), time.Now()
	a.mu.Lock()
	if !slices.Equal(a.servers, servers) {
		a.servers, a.checked, a.why = servers, time.Time{}, ""
	}
	why, due := a.why, now.Sub(a.checked) >= alikeAgain
	if due {
		a.checked = now
	}
	a.mu.Unlock()
	if why != "" || !due {
		return why
	}
	why = a.check(ctx, e.Addresses)
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(a.servers, servers) && why != "" {
		a.why = why
	}
	return why
}

// check visits the addresses one after the other, each with the ticket of the one before. The order varies from check
// to check.
func (a *alike) check(ctx context.Context, addresses []string) string {
	ctx, cancel := context.WithTimeout(ctx, a.client.timeout)
	defer cancel()
	own := a.client.config
	config, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: own.CAData,
		CAFile: own.CAFile, ServerName: serverName}})
	if err != nil || config == nil {
		return ""
	}
	config.NextProtos, config.ClientSessionCache = []string{"http/1.1"}, tls.NewLRUClientSessionCache(1)
	order := slices.Clone(addresses)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	before := ""
	for _, address := range order {
		resumed, err := a.visit(ctx, config, address)
		switch {
		case err != nil:
			return "" // the look that asks this address will report it
		case resumed && before != "":
			return fmt.Sprintf("%s and %s lead to one process: they are addresses of load balancers",
				min(before, address), max(before, address))
		}
		before = address
	}
	return ""
}

// visit opens a connection, sends a request so that the server issues a ticket, and reports whether the session was
// resumed.
func (a *alike) visit(ctx context.Context, config *tls.Config, address string) (resumed bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/version", nil)
	if err != nil {
		return false, err
	}
	if !a.client.direct(req) {
		return false, fmt.Errorf("%s is behind a proxy", address)
	}
	dial := a.client.config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	raw, err := dial(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer raw.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(deadline); err != nil {
			return false, err
		}
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return false, err
	}
	req.Close = true
	if err := req.Write(conn); err != nil {
		return false, err
	}
	_, err = io.CopyN(io.Discard, conn, bounded.Document)
	if err == io.EOF { //nolint:errorlint // io.CopyN returns it unwrapped
		err = nil
	}
	return conn.ConnectionState().DidResume, err
}
