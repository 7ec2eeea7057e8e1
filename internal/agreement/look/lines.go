// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"errors"
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
	// meetFor bounds how long a look tries to meet API servers. meetAgain is how long after a failure it tries again, and
	// twice as long after each further one, up to meetRarely.
	meetFor    = 3 * time.Second
	meetAgain  = 5 * time.Second
	meetRarely = 5 * time.Minute
	// searchAgain is how often more connections are opened to see whether one leads to a process that has no Lease.
	searchAgain = 2 * time.Minute
	// refreshed is how often a process is asked again who it is.
	refreshed = 30 * time.Second
	// proxyLasts is how long an address counts as that of a proxy after it was seen to be one.
	proxyLasts = 10 * time.Minute
	// leaseDelay is how long after its start a process may create its Lease.
	leaseDelay = 2 * time.Minute
)

// lines asks the API servers behind the address in the kubeconfig. A load balancer on layer 4 leads each connection to
// one process, so lines opens connections until it has met as many processes as there are Leases, keeps one to each, and
// asks over all of them (docs/adr/0034-a-connection-is-an-identity.md). When a process started tells who it is.
//
// A proxy on layer 7 answers from several processes over one connection. It shows a certificate of its own, or two starts
// on one connection, and nothing is concluded then.
type lines struct {
	client *client

	mu   sync.Mutex
	open []*line
	// searched is when more connections were opened after all processes had been met, and led to no other; or zero.
	searched time.Time
	failures int       // to meet all, one after the other
	why      string    // no line was opened before
	again    time.Time // when to try to meet others again
	proxied  time.Time // until when the address counts as that of a proxy

	startsMu sync.Mutex
	last     map[string]time.Time // the starts of the last complete set of processes
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
		open, why := b.meet(ctx, q.leases, q.endpoints)
		if ctx.Err() != nil || len(open) == 0 {
			return snapshot.Survey{Why: why}, ctx.Err()
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
	return snapshot.Survey{Why: "connections to " + b.client.base.Host + " keep ending"}, nil
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
	b.searched = time.Time{}
	b.open = slices.DeleteFunc(b.open, func(other *line) bool { return other == one })
}

// starts returns when the processes started that were all met last; zero for releases whose Leases show that.
func (b *lines) starts() map[string]time.Time {
	b.startsMu.Lock()
	defer b.startsMu.Unlock()
	return b.last
}

// met records a complete set of processes.
func (b *lines) met(open []*line) {
	found := map[string]time.Time{}
	for i, one := range open {
		name := fmt.Sprintf("connection %d", i+1)
		if found[name] = one.started; snapshot.ShowsRestarts(one.release) {
			found[name] = time.Time{}
		}
	}
	b.startsMu.Lock()
	defer b.startsMu.Unlock()
	b.last = found
}

// meet returns a line to each process that has a Lease; or none, and why.
func (b *lines) meet(ctx context.Context, l snapshot.Leases, e snapshot.Endpoints) (open []*line, why string) {
	n, host := len(l.Live), b.client.base.Host
	switch {
	case !l.Known, l.Doubled != "", n < 2:
		return nil, "" // observed says more
	case n > maxLines:
		return nil, tooMany(n)
	case len(e.Addresses) > n:
		return nil, "there are more addresses than identity Leases"
	case len(l.Uncertain) > 0:
		return nil, "an API server that departed may still answer"
	case b.client.unverified != "":
		return nil, b.client.unverified
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	meeting, cancel := context.WithTimeout(ctx, meetFor)
	defer cancel()
	b.refresh(meeting)
	for tries := 0; len(b.open) < n && b.canDial() && meeting.Err() == nil && tries < 8*n; {
		more := n - len(b.open) + 1
		b.dial(meeting, more)
		tries += more
	}
	if len(b.open) == n && time.Since(b.searched) > searchAgain && b.canDial() {
		if b.dial(meeting, 4*n); len(b.open) == n && b.canDial() && meeting.Err() == nil {
			b.searched = time.Now()
		}
	}
	switch failed := b.failed(n); {
	case !failed:
		b.failures = 0
		b.met(b.open)
	case b.canDial():
		b.postpone("")
	}
	switch {
	case b.isProxy():
		return nil, "one connection to " + host + " leads to several API servers, as those of a proxy do"
	case len(b.open) < n && b.why != "":
		return nil, b.why
	case b.failed(n):
		return nil, fmt.Sprintf("connections to %s lead to %s, and identity Leases show %d", host,
			phrase.Count(len(b.open), "API server", "API servers"), n)
	case !matched(b.open, l.Live):
		return nil, "an API server behind " + host + " has no identity Lease yet"
	}
	return slices.Clone(b.open), ""
}

// failed reports whether not all of n processes are known to have been met, and no other.
func (b *lines) failed(n int) bool {
	return len(b.open) != n || b.searched.IsZero() || time.Since(b.searched) > 2*searchAgain
}

func (b *lines) isProxy() bool { return time.Now().Before(b.proxied) }

func (b *lines) canDial() bool { return !b.isProxy() && !time.Now().Before(b.again) }

// refresh asks the lines again who they are, if that was long ago. The lock is held.
func (b *lines) refresh(ctx context.Context) {
	open := slices.DeleteFunc(slices.Clone(b.open), func(one *line) bool { return time.Since(one.read) < refreshed })
	errs := make([]error, len(open))
	var wg waitgroup.Group
	for i, one := range open {
		wg.Go(func() { errs[i] = one.isSame(ctx) })
	}
	wg.Wait()
	for i, one := range open {
		if errs[i] == nil {
			one.read = time.Now()
			continue
		}
		b.drop(one)
		b.noteProxy(errs[i])
	}
}

// noteProxy records that the address is that of a proxy, if an error says so. The lock is held.
func (b *lines) noteProxy(err error) {
	if errors.Is(err, errProxied) {
		b.proxied = time.Now().Add(proxyLasts)
	}
}

// postpone puts off the next attempt to meet all. The lock is held.
func (b *lines) postpone(why string) {
	b.again, b.why = time.Now().Add(min(meetAgain<<b.failures, meetRarely)), why
	b.failures = min(b.failures+1, 10)
}

// dial opens some connections at the same time, and keeps those that lead to processes which have not been met. The lock
// is held.
func (b *lines) dial(ctx context.Context, n int) {
	found, errs := make([]*line, n), make([]error, n)
	var wg waitgroup.Group
	for i := range n {
		wg.Go(func() { found[i], errs[i] = b.connect(ctx) })
	}
	wg.Wait()
	var failed error
	for i, one := range found {
		switch {
		case errs[i] != nil:
			b.noteProxy(errs[i])
			failed = errs[i]
		case one == nil:
		case b.knows(one):
			one.end()
		default:
			b.open, b.searched = append(b.open, one), time.Time{}
		}
	}
	if failed != nil && !b.isProxy() && ctx.Err() == nil {
		b.postpone(unreadable(failed))
	}
}

// knows reports whether there is a line to a process, or to one that started at the same moment: these are never told
// apart.
func (b *lines) knows(one *line) bool {
	return slices.ContainsFunc(b.open, func(other *line) bool { return other.started.Equal(one.started) })
}

var (
	// errProxied reports that a connection leads to several processes, or to a proxy.
	errProxied = errors.New("a proxy answers")
	errEnded   = errors.New("a connection has ended")
)

// connect opens a connection and finds out who is at its other end: by when the process started, read twice before the
// first answer and once after it. It returns no line to a process that there is a line to.
func (b *lines) connect(ctx context.Context) (*line, error) {
	one, err := b.newLine()
	if err != nil {
		return nil, err
	}
	one.started, one.over, err = one.readStart(ctx)
	switch {
	case err != nil:
	case one.over == nil:
		err = errEnded
	case !isDirect(one.over):
		err = errProxied
	case b.knows(one):
		one.end()
		return nil, nil //nolint:nilnil // it is known
	default:
		err = one.meet(ctx)
	}
	if err != nil {
		one.end()
		return nil, err
	}
	return one, nil
}

// meet reads the release of the process, between two readings of its start.
func (one *line) meet(ctx context.Context) error {
	if err := one.isSame(ctx); err != nil {
		return err
	}
	release, over, err := one.readRelease(ctx)
	switch {
	case err != nil:
		return err
	case over != one.over:
		return errEnded
	}
	one.release, one.read = release, time.Now()
	return one.isSame(ctx)
}

// isSame returns an error unless the same process is still at the other end.
func (one *line) isSame(ctx context.Context) error {
	started, over, err := one.readStart(ctx)
	switch {
	case err != nil:
		return err
	case over != one.over:
		return errEnded
	case !started.Equal(one.started):
		return errProxied
	}
	return nil
}

// newLine returns a line that makes one connection of its own.
func (b *lines) newLine() (*line, error) {
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
	one := &line{channel: c}
	one.end = func() {
		if t.CloseIdleConnections(); one.over != nil {
			one.over.Close()
		}
	}
	return one, nil
}

// matched reports whether each line to a recent release can belong to another Lease: these create it when they start. An
// older Lease may have an older process.
func matched(open []*line, live []snapshot.Server) bool {
	free := slices.SortedFunc(slices.Values(live), func(a, b snapshot.Server) int { return a.Created.Compare(b.Created) })
	lines := slices.SortedFunc(slices.Values(open), func(a, b *line) int { return a.started.Compare(b.started) })
	for _, one := range lines {
		if !snapshot.ShowsRestarts(one.release) {
			continue
		}
		i := slices.IndexFunc(free, func(l snapshot.Server) bool {
			delay := l.Created.Sub(one.started)
			return delay >= -time.Second && delay <= leaseDelay
		})
		if i < 0 {
			return false
		}
		free = slices.Delete(free, i, i+1)
	}
	return true
}
