// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// aggregated asks each process behind an APIService for its own discovery document, as kube-apiservers reach it: it
// verifies the certificate for the name of the service, with the authority that the APIService names.
//
// It never sends our own credentials. The operator of an aggregated API server could use them against the whole
// cluster; for the same reason, kube-apiservers do not forward the credentials of their clients. It sends no
// credentials, or a token that grants nothing else (Options.DiscoveryToken). Most aggregated API servers show discovery
// to every authenticated user and refuse requests without a token.
type aggregated struct {
	*contacts
	client *client
	token  func(context.Context) (string, error)

	mu    sync.Mutex
	known map[string]*backend // by namespace/name of the service
}

// backend contains the connections to the processes behind one service.
type backend struct {
	ca   []byte
	http *http.Client
}

func newAggregated(c *client, token func(context.Context) (string, error)) *aggregated {
	return &aggregated{contacts: newContacts(c.timeout), client: c, token: token, known: map[string]*backend{}}
}

func (a *aggregated) ask(ctx context.Context, q query) (snapshot.Survey, error) {
	s := q.service
	switch {
	case s == nil:
		return snapshot.Survey{Why: "the APIService is not known"}, nil
	case s.Unreachable != "":
		return snapshot.Survey{Why: s.Unreachable}, nil
	case q.path == unfit:
		return snapshot.Survey{}, errUnfit
	case len(s.Processes) > maxServers:
		return snapshot.Survey{Why: tooMany(len(s.Processes))}, nil
	}
	connections, err := a.backend(s)
	if err != nil {
		return snapshot.Survey{}, fmt.Errorf("ask API servers of the APIService %s: %w", s.Name, err)
	}
	token := ""
	if a.token != nil {
		if token, err = a.token(ctx); err != nil {
			return snapshot.Survey{}, fmt.Errorf("get token for discovery: %w", err)
		}
	}
	processes := s.All()
	replies := make([]reply, len(processes))
	var wg waitgroup.Group
	for i, p := range processes {
		wg.Go(func() { replies[i] = a.askOne(ctx, connections, token, p, q.path) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return snapshot.Survey{}, ctx.Err()
	}
	var void error
	for i, r := range replies {
		if refused(r.err) {
			r.err = nil // it lives
		}
		if err := a.record(processes[i].Address, r, time.Now()); err != nil && void == nil {
			void = fmt.Errorf("%w: ask %s of the APIService %s: %w", migrate.ErrSilent,
				processes[i].Address, s.Name, err)
		}
	}
	return worth(replies, void), void
}

func (a *aggregated) askOne(ctx context.Context, b *backend, token string, p snapshot.Process, path string) reply {
	timeout, ok := a.timeoutFor(p.Address, time.Now())
	if !ok {
		return reply{skipped: true}
	}
	body, _, err := a.client.sendAs(ctx, b.http, "https://"+p.Address+path, anyJSON, token, timeout)
	doc, err := parseDocument(body, err)
	if err != nil {
		return reply{err: err}
	}
	return reply{reading: snapshot.Answer{Server: p.Address, Address: p.Address, Document: doc}}
}

// refused reports whether a server answered that it cannot authenticate us, or that the request is forbidden.
func refused(err error) bool {
	code := statusOf(err)
	return code == http.StatusUnauthorized || code == http.StatusForbidden
}

// worth decides what the replies of all processes are worth. Nothing shows that a process was restarted in its
// container, so the time since when they write the same version is counted from the first look.
func worth(replies []reply, void error) snapshot.Survey {
	s := snapshot.Survey{How: "each asked at its own address"}
	silent, refusing := 0, 0
	for _, r := range replies {
		switch {
		case refused(r.err):
			refusing++
		case r.skipped, r.err != nil:
			silent++
		default:
			s.Answers = append(s.Answers, r.reading)
		}
	}
	switch {
	case refusing > 0:
		s.Why = "the aggregated API server requires authentication for discovery, and our credentials are for " +
			"kube-apiservers only"
	case silent > 0:
		s.Why = fmt.Sprintf("%d of %d processes behind the APIService do not answer", silent, len(replies))
	case void == nil:
		s.Evidence = migrate.Observed
	}
	return s
}

// backend returns the connections to a service. They are reused as long as its authority stays the same.
func (a *aggregated) backend(s *snapshot.Service) (*backend, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := s.Namespace + "/" + s.Service
	if b := a.known[key]; b != nil && bytes.Equal(b.ca, s.CA) {
		return b, nil
	}
	connections, err := httpClient(rest.TransportFor(bounded.Config(&rest.Config{
		TLSClientConfig: rest.TLSClientConfig{CAData: s.CA, ServerName: s.ServerName()},
		Dial:            a.client.config.Dial, UserAgent: a.client.config.UserAgent,
	})))
	if err != nil {
		return nil, err
	}
	b := &backend{ca: s.CA, http: connections}
	a.known[key] = b
	return b, nil
}
