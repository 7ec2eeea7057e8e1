// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// seedEnv repeats a run of NewProxy.
const seedEnv = "KUBE_MIGRATOR_TESTBED_SEED"

// Proxy stands between a client and one API server, speaks HTTP/1.1 and HTTP/2 with TLS on both sides, injects the
// faults of its rules and records every request. It is safe for concurrent use.
type Proxy struct {
	cluster *Cluster
	web     *WebServer
	target  atomic.Pointer[Server]
	forward *httputil.ReverseProxy
	// Bytes on the wire between client and proxy, TLS and all.
	received, sent atomic.Int64

	mu      sync.Mutex
	random  *rand.Rand
	rules   []*activeRule
	records []*Record
}

// Rule decides which requests get a fault. All conditions have to hold; the zero value of each always holds.
type Rule struct {
	Fault Fault
	// Match selects requests.
	Match func(*http.Request) bool
	// Skip lets the first matching requests pass.
	Skip int
	// Every selects every n-th of the matching requests after those, beginning with the first.
	Every int
	// Probability selects at random, between 0 and 1.
	Probability float64
	// Times is how often the rule applies at most.
	Times int
}

type activeRule struct {
	Rule
	matched, applied int
}

// Record is one request that reached the proxy.
type Record struct {
	// Begin is when the request's header had been read, End when its answer was given; End is zero as long as it is
	// not.
	Begin, End time.Time
	Method     string
	Path       string
	Query      url.Values
	// Status is the status given, 0 where the connection was cut before one.
	Status int
	// RetryAfter is the time in the answer's Retry-After header.
	RetryAfter time.Duration
	// Faults are the names of the faults applied.
	Faults []string
	// RequestBytes and ResponseBytes count the bodies as they were transferred.
	RequestBytes, ResponseBytes int64
}

// NewProxy starts a proxy in front of the first server for a test. Where the test fails, it logs the seed and how to
// use it again.
func NewProxy(t testing.TB, c *Cluster) *Proxy {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(seedEnv); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("read %s: %v", seedEnv, err)
		}
	}
	p, err := c.StartProxy(seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to inject the same faults: %s=%d go test -run '^%s$'", seedEnv, seed, t.Name())
		}
	})
	return p
}

// StartProxy starts a proxy in front of the first server; it ends with the cluster.
func (c *Cluster) StartProxy(seed uint64) (*Proxy, error) {
	p := &Proxy{cluster: c, random: newRandom(seed)}
	p.Target(c.Servers[0])
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.certificate)
	transport := &http.Transport{
		DialContext: c.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DisableCompression: true, MaxIdleConnsPerHost: 100,
	}
	p.forward = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", p.target.Load().Host(), ""
		},
		// A server that cannot be reached is a connection that breaks, not an answer; a client that gave up has other
		// requests on it.
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler)
			}
			reset(r)
		},
	}
	server := &http.Server{
		Handler: http.HandlerFunc(p.handle),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	var err error
	p.web, err = c.serve(server, func(l net.Listener) net.Listener { return countingListener{l, p} })
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	c.atStop(transport.CloseIdleConnections)
	return p, nil
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// URL returns the address of the proxy.
func (p *Proxy) URL() string { return p.web.URL }

// Config returns an administrator's configuration for the proxy.
func (p *Proxy) Config() *rest.Config {
	config := p.cluster.config(p.URL(), Admin)
	config.Dial = nil
	return config
}

// Kubeconfig returns the path of an administrator's kubeconfig for the proxy.
func (p *Proxy) Kubeconfig() (string, error) { return p.cluster.KubeconfigFor(p.URL(), Admin) }

// Target sets the server that requests go to from now on.
func (p *Proxy) Target(s *Server) { p.target.Store(s) }

// SetRules replaces the rules, with their counts. Faults apply in the order of the rules, each around those after it.
func (p *Proxy) SetRules(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	for _, rule := range rules {
		p.rules = append(p.rules, &activeRule{Rule: rule})
	}
}

// Records returns every request since the start or the last Forget, in the order of their coming.
func (p *Proxy) Records() []Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	records := make([]Record, 0, len(p.records))
	for _, r := range p.records {
		record := *r
		record.Faults = slices.Clone(r.Faults)
		records = append(records, record)
	}
	return records
}

// Forget forgets the records and sets the byte counters to zero.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = nil
	p.received.Store(0)
	p.sent.Store(0)
}

// WireBytes returns how many bytes the proxy has received from clients and sent to them, with headers and TLS.
func (p *Proxy) WireBytes() (received, sent int64) { return p.received.Load(), p.sent.Load() }

// DuringRetryAfter returns the requests that came while an earlier answer's Retry-After forbade it. slack is for
// requests that crossed that answer on the wire, and for clocks: it is left out at both ends.
func (p *Proxy) DuringRetryAfter(slack time.Duration) []Record {
	return duringRetryAfter(p.Records(), slack)
}

func duringRetryAfter(records []Record, slack time.Duration) []Record {
	var early []Record
	for _, r := range records {
		if slices.ContainsFunc(records, func(other Record) bool {
			return other.RetryAfter > 0 && r.Begin.After(other.End.Add(slack)) &&
				r.Begin.Before(other.End.Add(other.RetryAfter-slack))
		}) {
			early = append(early, r)
		}
	}
	return early
}

func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	faults := p.choose(r)
	record := &Record{Begin: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query()}
	for _, fault := range faults {
		record.Faults = append(record.Faults, fault.Name)
	}
	p.mu.Lock()
	p.records = append(p.records, record)
	p.mu.Unlock()

	answer := &recorder{ResponseWriter: w}
	body := &countingBody{ReadCloser: r.Body}
	r.Body = body
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		record.End, record.Status = time.Now(), answer.status
		record.RequestBytes, record.ResponseBytes = body.count.Load(), answer.bytes
		if seconds, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil && answer.status != 0 {
			record.RetryAfter = time.Duration(seconds) * time.Second
		}
	}()
	var handler http.Handler = p.forward
	for _, fault := range slices.Backward(faults) {
		next := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fault.apply(w, r, next) })
	}
	handler.ServeHTTP(answer, r)
	if answer.status == 0 {
		answer.status = http.StatusOK
	}
}

// choose returns the faults of the rules that apply to a request.
func (p *Proxy) choose(r *http.Request) []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var faults []Fault
	for _, rule := range p.rules {
		if (rule.Match != nil && !rule.Match(r)) || (rule.Fault.only != nil && !rule.Fault.only(r)) {
			continue
		}
		number := rule.matched - rule.Skip
		rule.matched++
		switch {
		case number < 0,
			rule.Every > 0 && number%rule.Every != 0,
			rule.Times > 0 && rule.applied >= rule.Times,
			rule.Probability > 0 && p.random.Float64() >= rule.Probability:
			continue
		}
		rule.applied++
		faults = append(faults, rule.Fault)
	}
	return faults
}

// recorder records the answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if status >= http.StatusOK && w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find Flush.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// countingBody counts the bytes of a body. The transport may read it after the answer.
type countingBody struct {
	io.ReadCloser
	count atomic.Int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	return n, err
}

type countingListener struct {
	net.Listener
	proxy *Proxy
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{conn, l.proxy}, nil
}

type countingConn struct {
	net.Conn
	proxy *Proxy
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.proxy.received.Add(int64(n))
	return n, err
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.proxy.sent.Add(int64(n))
	return n, err
}
