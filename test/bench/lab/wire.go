// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Wire stands between a client and the first API server. It forwards TCP connections as they are, counts the bytes of
// their payload (what TLS sends, without the headers of TCP and IP), and can add latency: each byte arrives later by
// the same time, so that bandwidth and order stay what they are.
type Wire struct {
	lab            *Lab
	sent, received atomic.Int64 // as the client sees it
	delay          time.Duration
	listener       net.Listener
	cancel         context.CancelFunc
	running        sync.WaitGroup
}

// NewWire starts a Wire that adds latency to each round trip; 0 adds none. It ends with Close.
func (l *Lab) NewWire(ctx context.Context, roundTrip time.Duration) (*Wire, error) {
	w, err := newWire(ctx, l.Cluster.Servers[0].Host(), roundTrip)
	if err == nil {
		w.lab = l
	}
	return w, err
}

func newWire(ctx context.Context, target string, roundTrip time.Duration) (*Wire, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for clients: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Wire{listener: listener, cancel: cancel, delay: roundTrip / 2}
	w.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.running.Go(func() { w.forward(ctx, client, target) })
		}
	})
	return w, nil
}

// Kubeconfig returns the path of an administrator's kubeconfig that leads through the wire.
func (w *Wire) Kubeconfig() (string, error) { return w.lab.Cluster.KubeconfigFor(w.url(), "admin") }

func (w *Wire) url() string { return "https://" + w.listener.Addr().String() }

// Close ends every connection.
func (w *Wire) Close() {
	w.cancel()
	w.listener.Close()
	w.running.Wait()
}

func (w *Wire) forward(ctx context.Context, client net.Conn, target string) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		client.Close()
		return
	}
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	var up sync.WaitGroup
	up.Go(func() { w.pipe(ctx, server, client, &w.sent) })
	w.pipe(ctx, client, server, &w.received)
	up.Wait()
}

// pipe copies until one side ends, and then ends both.
func (w *Wire) pipe(ctx context.Context, to, from net.Conn, n *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	if w.delay == 0 {
		_, _ = io.Copy(counting{to, n}, from) // an error ends the connection, and the client sees it
		return
	}
	chunks := make(chan chunk, 4096)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(chunks)
		for {
			bytes := make([]byte, 16<<10)
			k, err := from.Read(bytes)
			if k > 0 {
				select {
				case chunks <- chunk{bytes[:k], time.Now().Add(w.delay)}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if Pause(ctx, time.Until(c.due)) != nil {
			break
		}
		if _, err := (counting{to, n}).Write(c.bytes); err != nil {
			from.Close()
			break
		}
	}
	for range chunks { // what is left after an error has no reader
	}
	reading.Wait()
}

// chunk is what is on its way.
type chunk struct {
	bytes []byte
	due   time.Time
}

type counting struct {
	io.Writer
	n *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}
