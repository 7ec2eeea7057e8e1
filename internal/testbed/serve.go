// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// listen listens on a loopback port, which in an isolated cluster is open both inside and outside: one address for the
// test, for commands and for API servers.
func (c *Cluster) listen() ([]net.Listener, error) {
	outside, err := new(net.ListenConfig).Listen(c.lifetime, "tcp", "127.0.0.1:0")
	if err != nil || c.ns == nil {
		return []net.Listener{outside}, err
	}
	inside, err := c.ns.listen(c.lifetime, outside.Addr().String())
	if err != nil {
		_ = outside.Close()
		return nil, err
	}
	return []net.Listener{outside, inside}, nil
}

// Listen listens on an address of the cluster's own network namespace, as a pod would: for isolated clusters only. An
// API server's address (Server.Address) is one. Port 0 picks any.
func (c *Cluster) Listen(ctx context.Context, address string) (net.Listener, error) {
	if c.ns == nil {
		return nil, errors.New("listen: the cluster is not isolated")
	}
	return c.ns.listen(ctx, address)
}

// WebServer serves HTTPS with a certificate of the cluster's CA: a webhook or an aggregated API server.
type WebServer struct {
	// URL is https://127.0.0.1:port, reachable for the test and for the API servers.
	URL string

	server *http.Server
	done   sync.WaitGroup
	stop   sync.Once
}

// Serve starts a server that ends with the cluster at the latest.
func (c *Cluster) Serve(handler http.Handler) (*WebServer, error) {
	return c.serve(&http.Server{Handler: handler}, func(l net.Listener) net.Listener { return l })
}

func (c *Cluster) serve(server *http.Server, wrap func(net.Listener) net.Listener) (*WebServer, error) {
	pair, err := c.ca.serving("kube-migrator testbed server", nil)
	if err != nil {
		return nil, err
	}
	certificate, err := pair.tls()
	if err != nil {
		return nil, err
	}
	listeners, err := c.listen()
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.ErrorLog = log.New(io.Discard, "", 0)
	w := &WebServer{URL: "https://" + listeners[0].Addr().String(), server: server}
	for _, listener := range listeners {
		w.done.Go(func() { _ = server.ServeTLS(wrap(listener), "", "") }) // ends with ErrServerClosed
	}
	c.atStop(w.Close)
	return w, nil
}

// Close ends the server at once; connections to it are refused from then on.
func (w *WebServer) Close() {
	w.stop.Do(func() {
		_ = w.server.Close()
		w.done.Wait()
	})
}

// atStop has f called when the cluster stops, before its processes end.
func (c *Cluster) atStop(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stops = append(c.stops, f)
}

// LoadBalancer is one address for all API servers. It hands each new TCP connection to the next server that takes it.
type LoadBalancer struct {
	// Sends reports whether connections go to a server. nil: to every server that accepts them. Set it before the first
	// connection.
	Sends func(*Server) bool
	// Random picks servers at random instead of in turn. Set it before the first connection.
	Random bool

	cluster   *Cluster
	listeners []net.Listener
	context   context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	bytes atomic.Int64

	mu   sync.Mutex
	next int
}

// Balance starts a load balancer that ends with the cluster at the latest.
func (c *Cluster) Balance() (*LoadBalancer, error) {
	listeners, err := c.listen()
	if err != nil {
		return nil, fmt.Errorf("start load balancer: %w", err)
	}
	b := &LoadBalancer{cluster: c, listeners: listeners}
	b.context, b.cancel = context.WithCancel(c.lifetime)
	for _, listener := range listeners {
		b.work.Go(func() { b.accept(listener) })
	}
	c.atStop(b.Close)
	return b, nil
}

// URL returns https://127.0.0.1:port, which in an isolated cluster is valid inside and outside.
func (b *LoadBalancer) URL() string { return "https://" + b.listeners[0].Addr().String() }

// Config returns an administrator's configuration for the load balancer.
func (b *LoadBalancer) Config() *rest.Config {
	config := b.cluster.config(b.URL(), Admin)
	config.Dial = nil
	return config
}

// Kubeconfig returns the path of an administrator's kubeconfig for the load balancer.
func (b *LoadBalancer) Kubeconfig() (string, error) {
	return b.cluster.KubeconfigFor(b.URL(), Admin)
}

// Bytes returns how many bytes have passed, in both directions.
func (b *LoadBalancer) Bytes() int64 { return b.bytes.Load() }

// Close ends the load balancer and every connection through it.
func (b *LoadBalancer) Close() {
	b.cancel()
	for _, listener := range b.listeners {
		_ = listener.Close()
	}
	b.work.Wait()
}

func (b *LoadBalancer) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		b.work.Go(func() { b.forward(conn.(*net.TCPConn)) })
	}
}

func (b *LoadBalancer) forward(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	upstream, err := b.dial()
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	stop := context.AfterFunc(b.context, func() {
		_ = client.Close()
		_ = upstream.Close()
	})
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{client, upstream}, {upstream, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], counted{way[0], &b.bytes})
			_ = way[1].CloseWrite()
		})
	}
	both.Wait()
}

// counted counts what is read.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// dial connects to the next server, and to the ones after it if that refuses.
func (b *LoadBalancer) dial() (*net.TCPConn, error) {
	b.mu.Lock()
	first := b.next
	b.next++
	b.mu.Unlock()
	if b.Random {
		first = rand.IntN(len(b.cluster.Servers))
	}
	err := errors.New("the cluster has no servers")
	for i := range b.cluster.Servers {
		server := b.cluster.Servers[(first+i)%len(b.cluster.Servers)]
		if b.Sends != nil && !b.Sends(server) {
			err = errors.New("connections are sent to no server")
			continue
		}
		var conn net.Conn
		address := net.JoinHostPort(server.address, strconv.Itoa(server.port))
		if conn, err = b.cluster.DialContext(b.context, "tcp", address); err == nil {
			return conn.(*net.TCPConn), nil
		}
	}
	return nil, err
}
