// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// maxLines bounds the API servers behind one address that are asked one by one (I6).
	maxLines = 16
	// meetAgain is how long after it could not meet every API server lines tries again.
	meetAgain = 30 * time.Second
	// proxyLasts is how long an address counts as that of a proxy after it was seen to be one.
	proxyLasts = 10 * time.Minute
	// leaseDelay is how long after its start a process may create its Lease.
	leaseDelay = 2 * time.Minute
)

// lines asks the API servers behind the address in the kubeconfig. A load balancer on layer 4 leads each connection to
// one process, so lines opens connections until it has met as many processes as there are Leases, keeps one to each, and
// asks over all of them (docs/adr/0034-a-connection-is-an-identity.md). When a process started tells who it is. A proxy
// on layer 7 answers from several processes over one connection: two starts show it, and nothing is concluded then.
type lines struct {
	client *client

	mu      sync.Mutex
	open    []*line
	again   time.Time // when to try to meet others again
	proxied time.Time // until when the address counts as that of a proxy
}

// line is a connection to one process.
type line struct {
	channel
	process
	over net.Conn
	end  func()
}

// ask asks each process. A connection that has ended is opened again: the process that answers there may be another one.
func (b *lines) ask(ctx context.Context, q query) (snapshot.Survey, error) {
	for range reconnects {
		open, why, err := b.meet(ctx, q.leases)
		if err != nil || why != "" {
			return snapshot.Survey{Why: why}, err
		}
		s := snapshot.Survey{Evidence: migrate.Observed, RestartsSeen: true, Shared: true,
			How:     "each asked over a connection of its own to " + b.client.base.Host,
			Answers: make([]snapshot.Answer, len(open))}
		errs, ended := make([]error, len(open)), make([]bool, len(open))
		var wg waitgroup.Group
		for i, one := range open {
			wg.Go(func() {
				body, over, err := one.get(ctx, q.path)
				s.Answers[i] = snapshot.Answer{Server: b.nameOf(one)}
				if ended[i] = over != one.over; err != nil || ended[i] {
					errs[i] = err
					return
				}
				if !snapshot.ShowsRestarts(one.release) {
					s.Answers[i].Started = one.started
				}
				s.Answers[i].Document, errs[i] = parseDocument(body, nil)
			})
		}
		wg.Wait()
		switch i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); {
		case ctx.Err() != nil:
			return snapshot.Survey{}, ctx.Err()
		case slices.Contains(ended, true):
			b.lost(open, ended)
		case i >= 0:
			return snapshot.Survey{}, fmt.Errorf("%w: ask %s: %w", migrate.ErrSilent, s.Answers[i].Server, errs[i])
		default:
			return s, nil
		}
	}
	return snapshot.Survey{Why: "one connection to " + b.client.base.Host + " after the other ends"}, nil
}

func (b *lines) nameOf(one *line) string {
	return fmt.Sprintf("the API server behind %s that started at %s", b.client.base.Host,
		one.started.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// lost forgets lines whose connection has ended.
func (b *lines) lost(open []*line, ended []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range open {
		if ended[i] {
			b.drop(one)
		}
	}
}

// drop ends a line. The lock is held.
func (b *lines) drop(one *line) {
	one.end()
	b.open = slices.DeleteFunc(b.open, func(other *line) bool { return other == one })
}

// starts returns when the processes of the lines started, for releases whose Leases do not show that.
func (b *lines) starts() map[string]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[string]time.Time{}
	for i, one := range b.open {
		if !snapshot.ShowsRestarts(one.release) {
			found[fmt.Sprintf("connection %d", i+1)] = one.started
		}
	}
	return found
}

// meet returns a line to each process that has a Lease, or why there is none.
func (b *lines) meet(ctx context.Context, l snapshot.Leases) (open []*line, why string, err error) {
	n := len(l.Live)
	switch {
	case !l.Known, l.Doubled != "", n < 2:
		return nil, "the API servers behind the address are not known", nil
	case n > maxLines:
		return nil, tooMany(n), nil
	case b.client.unverified != "":
		return nil, b.client.unverified, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refresh(ctx); err != nil {
		return nil, "", err
	}
	tries := 0
	for ; len(b.open) < n && tries < 4*n && !b.isProxy() && !time.Now().Before(b.again); tries++ {
		if why, err := b.dial(ctx); err != nil || why != "" {
			return nil, why, err
		}
	}
	host := b.client.base.Host
	switch {
	case b.isProxy():
		return nil, "one connection to " + host + " leads to several API servers, as those of a proxy do", nil
	case len(b.open) != n:
		if tries > 0 {
			b.again = time.Now().Add(meetAgain)
		}
		return nil, fmt.Sprintf("connections to %s lead to %s, and identity Leases show %d", host,
			phrase.Count(len(b.open), "API server", "API servers"), n), nil
	case !matched(b.open, l.Live):
		return nil, "an API server behind " + host + " has no identity Lease yet", nil
	}
	return slices.Clone(b.open), "", nil
}

func (b *lines) isProxy() bool { return time.Now().Before(b.proxied) }

// refresh asks the lines again who they are, if that was long ago. The lock is held.
func (b *lines) refresh(ctx context.Context) error {
	for _, one := range slices.Clone(b.open) {
		if time.Since(one.read) < proxiedFor {
			continue
		}
		started, over, err := one.readStart(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil, over != one.over:
			b.drop(one)
		case !started.Equal(one.started):
			b.proxied = time.Now().Add(proxyLasts)
			b.drop(one)
		default:
			one.read = time.Now()
		}
	}
	return nil
}

// dial opens a connection, and keeps it if it leads to a process that has not been met. The lock is held.
func (b *lines) dial(ctx context.Context) (why string, err error) {
	one, err := b.connect()
	if err != nil {
		return "", err
	}
	keep := false
	defer func() {
		if !keep {
			one.end()
		}
	}()
	one.started, one.over, err = one.readStart(ctx)
	if err == nil && slices.ContainsFunc(b.open, one.same) {
		return "", nil
	}
	var over, last net.Conn
	var again time.Time
	if err == nil {
		one.release, over, err = one.readRelease(ctx)
	}
	if err == nil {
		again, last, err = one.readStart(ctx)
	}
	switch code := statusOf(err); {
	case code == http.StatusForbidden, code == http.StatusUnauthorized, code == http.StatusNotFound:
		b.again = time.Now().Add(meetAgain)
		return "reading /metrics, which tells API servers behind one address apart, is not allowed", nil
	case err != nil:
		return "", fmt.Errorf("ask a server behind %s: %w", b.client.base.Host, err)
	case one.over == nil:
		return "connections cannot be told apart", nil
	case over != one.over, last != one.over: // it has ended
	case !again.Equal(one.started):
		b.proxied = time.Now().Add(proxyLasts)
	default:
		one.read, keep = time.Now(), true
		b.open = append(b.open, one)
	}
	return "", nil
}

// same reports whether another line leads to the same process, or to one that cannot be told from it: both started at the
// same moment and show the same certificate.
func (one *line) same(other *line) bool {
	return other.started.Equal(one.started) && bytes.Equal(certificateAt(other.over), certificateAt(one.over))
}

// certificateAt returns the certificate at the other end of a connection, or nil.
func certificateAt(over net.Conn) []byte {
	conn, ok := over.(*tls.Conn)
	if !ok || len(conn.ConnectionState().PeerCertificates) == 0 {
		return nil
	}
	return conn.ConnectionState().PeerCertificates[0].Raw
}

// connect returns a line that makes one connection of its own.
func (b *lines) connect() (*line, error) {
	config := b.client.config
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("configure transport: %w", err)
	}
	t := &http.Transport{TLSClientConfig: tlsConfig, Proxy: config.Proxy, DialContext: config.Dial, MaxConnsPerHost: 1,
		ForceAttemptHTTP2: true, DisableCompression: config.DisableCompression}
	if t.Proxy == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	connection, err := httpClient(rest.HTTPWrappersForConfig(config, t))
	if err != nil {
		return nil, err
	}
	c := channel{client: b.client, http: connection, base: strings.TrimSuffix(b.client.address(""), "/"), shared: true,
		timeout: b.client.timeout}
	return &line{channel: c, end: t.CloseIdleConnections}, nil
}

// matched reports whether each line can belong to another Lease: recent releases create it when they start. Where both
// are sorted by time, the pairs are the closest ones.
func matched(open []*line, live []snapshot.Server) bool {
	created, started := []time.Time{}, []time.Time{}
	for _, l := range live {
		created = append(created, l.Created)
	}
	for _, one := range open {
		if !snapshot.ShowsRestarts(one.release) {
			return true // a Lease may be older than its process
		}
		started = append(started, one.started)
	}
	slices.SortFunc(created, time.Time.Compare)
	slices.SortFunc(started, time.Time.Compare)
	for i, at := range started {
		if delay := created[i].Sub(at); delay < -time.Second || delay > leaseDelay {
			return false
		}
	}
	return true
}
