// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
)

// channel sends requests to one API server, and tells over which connection each answer came.
type channel struct {
	client *client
	http   *http.Client
	// base is the address with its scheme and its path. shared means that it is the one in the kubeconfig.
	base    string
	shared  bool
	timeout time.Duration
}

// channelTo returns the channel to the server at host:port. It verifies the certificate, for serverName and with the
// cluster's authority, before it sends any part of a request or of the client's certificate.
func (c *client) channelTo(hostPort string, timeout time.Duration) channel {
	return channel{client: c, http: c.own, base: "https://" + hostPort, timeout: timeout}
}

// get reads path. The connection is nil if it is unknown, as behind a transport that was made by hand.
func (c channel) get(ctx context.Context, path string) (body []byte, over net.Conn, err error) {
	switch {
	case path == unfit:
		return nil, nil, errUnfit
	case c.http == nil:
		return nil, nil, errors.New(c.client.unverified)
	}
	ctx, connection := traced(ctx)
	body, _, err = c.client.send(ctx, c.http, c.base+path, anyJSON, c.timeout)
	return body, connection(), err
}

// traced returns a context whose request records its connection, and a function that returns it.
func traced(ctx context.Context) (context.Context, func() net.Conn) {
	var (
		mu   sync.Mutex
		conn net.Conn
	)
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { // again if the request is repeated
		mu.Lock()
		defer mu.Unlock()
		conn = info.Conn
	}}
	return httptrace.WithClientTrace(ctx, trace), func() net.Conn {
		mu.Lock()
		defer mu.Unlock()
		return conn
	}
}

// readRelease reads the release of the API server.
func (c channel) readRelease(ctx context.Context) (string, net.Conn, error) {
	body, over, err := c.get(ctx, versionPath)
	release, err := parseRelease(body, err)
	return release, over, err
}

var errNoStart = errors.New("its /metrics do not say when the process started")

// startMetric is the metric of a kube-apiserver that says when its process started, in seconds. It is the same in every
// release.
const startMetric = "process_start_time_seconds "

// readStart reads when the process of the API server started. Its metrics have some 2 MB, of which one line is kept (I6).
func (c channel) readStart(ctx context.Context) (at time.Time, over net.Conn, err error) {
	ctx, conn := traced(ctx)
	err = c.client.stream(ctx, c.http, c.base+"/metrics", "text/plain", c.timeout, func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			value, is := strings.CutPrefix(lines.Text(), startMetric)
			if !is {
				continue
			}
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || seconds <= 0 || seconds > math.MaxInt32 {
				return errNoStart
			}
			at = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
			return nil
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("read metrics: %w", err)
		}
		return errNoStart
	})
	return at, conn(), err
}

// process is what is known of the API server at the other end of a connection.
type process struct {
	release string
	// started is when it started, by its own clock. It is zero if its identity Lease shows that, and if it cannot be read:
	// then unread says why.
	started time.Time
	unread  string
	read    time.Time // by our clock
}

// processes remembers which API server is at the other end of each connection: a connection stays with one process until
// it ends (docs/adr/0034-a-connection-is-an-identity.md). It is safe for concurrent use.
type processes struct {
	mu     sync.Mutex
	known  map[net.Conn]process
	order  []net.Conn         // of known, the oldest first
	asking map[string]*asking // by base
}

// asking lets documents that are requested at the same time share one reading of a process.
type asking struct {
	sync.Mutex
	// why is why the start could not be read, and until when that is not tried again.
	why   string
	until time.Time
}

const (
	// maxConnections bounds how many connections are remembered (I6).
	maxConnections = 2 * maxServers
	// proxiedFor is how long the start of a process counts that was read through a proxy: the proxy may keep our
	// connection when the process behind it is replaced.
	proxiedFor = 5 * time.Second
	// unreadFor is how long after a failure the start of a process is not read again: an answer of some MB that does not
	// arrive would hold up every look.
	unreadFor = 30 * time.Second
	// reconnects is how often a document is requested again because the connection of its answer has ended.
	reconnects = 3
)

func newProcesses() *processes {
	return &processes{known: map[net.Conn]process{}, asking: map[string]*asking{}}
}

// behind returns the process at the other end of the connection over which an answer came, and asks it if that is not
// known. It is not the one that gave the answer if same is false: the connection has ended in between.
func (p *processes) behind(ctx context.Context, c channel, over net.Conn) (one process, same bool, err error) {
	asked := p.at(c.base)
	asked.Lock()
	defer asked.Unlock()
	if known, ok := p.recall(c, over); ok {
		return known, true, nil
	}
	release, at, err := c.readRelease(ctx)
	if err != nil {
		return process{}, false, err
	}
	one = process{release: release, read: time.Now()}
	if snapshot.ShowsRestarts(release) { // the Leases around the look show whether it was replaced
		p.keep(at, one)
		p.keep(over, one)
		return one, true, nil
	}
	if time.Now().Before(asked.until) {
		one.unread = asked.why
		return one, true, nil
	}
	started, again, err := c.readStart(ctx)
	switch {
	case ctx.Err() != nil:
		return process{}, false, ctx.Err()
	case err != nil:
		asked.why, asked.until = unreadable(err), time.Now().Add(unreadFor)
		one.unread = asked.why
		return one, true, nil
	case at == nil:
		one.unread = "their connections cannot be told apart"
		return one, true, nil
	case again != at:
		return process{}, false, nil
	}
	one.started = started
	p.keep(at, one)
	return one, at == over, nil
}

// unreadable says why the start of a process could not be read.
func unreadable(err error) string {
	switch code := statusOf(err); {
	case errors.Is(err, errNoStart):
		return err.Error()
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return "reading /metrics, which shows when each process started, is not allowed"
	}
	return "reading /metrics, which shows when each process started, failed: " + err.Error()
}

func (p *processes) at(base string) *asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking[base] == nil {
		p.asking[base] = new(asking)
	}
	return p.asking[base]
}

func (p *processes) recall(c channel, over net.Conn) (process, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.known[over]
	if ok && c.shared && !isDirect(over) && !one.started.IsZero() && time.Since(one.read) > proxiedFor {
		return process{}, false
	}
	return one, ok
}

// isDirect reports whether an API server is at the other end of a connection, and not a proxy that speaks TLS itself: its
// certificate is valid for the name that all API servers have.
func isDirect(over net.Conn) bool {
	conn, ok := over.(*tls.Conn)
	if !ok {
		return false
	}
	shown := conn.ConnectionState().PeerCertificates
	return len(shown) > 0 && shown[0].VerifyHostname(serverName) == nil
}

func (p *processes) keep(over net.Conn, one process) {
	if over == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.known[over]; !known {
		p.order = append(p.order, over)
	}
	p.known[over] = one
	if len(p.order) > maxConnections {
		delete(p.known, p.order[0])
		p.order = p.order[1:]
	}
}
