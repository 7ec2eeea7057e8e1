// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves the page of package page on the loopback interface, and keeps it up to date in browsers.
//
// Invariants:
//   - It changes nothing: it answers GET and HEAD, and every other method is refused.
//   - It answers only requests that name it by its own address and that contain the token of its URL. Requests that the
//     page of another site has caused are refused, and so are names that resolve to the loopback interface (DNS
//     rebinding).
//   - The token is in no log: the package writes none.
//   - All clients share one look at the cluster. Without clients there is none.
//   - Clients are bounded, and one that does not read is dropped.
package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
)

// Options say what to serve.
type Options struct {
	// Look reads the cluster. If it fails, the error of the Trouble is not empty, and the last page stays, with the
	// Trouble. It is called by one goroutine at a time.
	Look func(ctx context.Context) (page.View, page.Trouble)
	// Blank is the page before the first look. It has the same groups as all others.
	Blank page.View
	// Every is how often Look is called while anyone follows.
	Every time.Duration
}

// Dashboard is a server that has an address and does not answer yet.
type Dashboard struct {
	options  Options
	listener net.Listener
	token    string
}

// Listen opens a port of the loopback interface; 0 is any that is free.
func Listen(ctx context.Context, port int, o Options) (*Dashboard, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Dashboard{options: o, listener: listener, token: rand.Text()}, nil
}

// URL returns the address of the page. Everyone who knows it can read the page.
func (d *Dashboard) URL() string { return "http://" + d.listener.Addr().String() + "/" + d.token + "/" }

// Serve answers requests until the context ends, also while a look is under way and pages are open; then it returns nil.
// No goroutine of it is left.
func (d *Dashboard) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	board := newBoard(ctx, d.options)
	server := &http.Server{
		Handler:           &site{board: board, hosts: hostsOf(d.listener.Addr().String()), token: d.token},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: writeDeadline, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { board.run(ctx) })
	all.Go(func() {
		<-ctx.Done()
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		if server.Shutdown(ending) != nil { // a client that does not read
			_ = server.Close()
		}
	})
	err := server.Serve(d.listener)
	cancel()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// hostsOf returns the names by which browsers may ask for a host and a port of the loopback interface. They leave out
// the port of the scheme.
func hostsOf(address string) map[string]bool {
	host, port, _ := net.SplitHostPort(address) // a listener's address has a port
	if port == "80" {
		return map[string]bool{address: true, "localhost:80": true, host: true, "localhost": true}
	}
	return map[string]bool{address: true, net.JoinHostPort("localhost", port): true}
}
