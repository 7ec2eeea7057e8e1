// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// counter forwards TCP connections and counts the bytes of their payload: what TLS sends, without the headers of TCP
// and IP.
type counter struct {
	sent, received atomic.Int64 // as the client sees it
	listener       net.Listener
	cancel         context.CancelFunc
	running        sync.WaitGroup
}

// countingProxy listens on a loopback port and forwards to target until it is closed.
func countingProxy(ctx context.Context, target string) (*counter, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for counting proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &counter{listener: listener, cancel: cancel}
	c.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			c.running.Go(func() { c.forward(ctx, client, target) })
		}
	})
	return c, nil
}

func (c *counter) url() string { return "https://" + c.listener.Addr().String() }

// close ends the proxy and every connection through it.
func (c *counter) close() {
	c.cancel()
	c.listener.Close()
	c.running.Wait()
}

func (c *counter) forward(ctx context.Context, client net.Conn, target string) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		client.Close()
		return
	}
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	var up sync.WaitGroup
	up.Go(func() { pipe(server, client, &c.sent) })
	pipe(client, server, &c.received)
	up.Wait()
}

// pipe copies until one side ends, and then ends both.
func pipe(to, from net.Conn, n *atomic.Int64) {
	_, _ = io.Copy(counting{to, n}, from) // an error ends the connection, and the client sees it
	to.Close()
	from.Close()
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
