// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement tells whether all API servers that can write a resource encode it in the same version, in
// which epoch they are, and how well that is known.
//
// It owns the sources of evidence, one file each (declared.go, observed.go, aggregated.go, sampled.go), the memory of
// servers that left (departed.go), and their combination. Gathering and deciding are apart: combine, what a
// StorageVersion object is worth (findings.declared), the views of a round (view.go, servers.go) and the times in
// since.go are pure. It never writes to the cluster, and never sends credentials to an address whose certificate has
// not been verified, other than the one in the kubeconfig; to an aggregated API server, never the client's.
//
// There are two ways to look, on the same sources and the same combination. Resource.Look is about one resource, cheap
// enough for once a second: a sweep follows its epoch with it. Observer.Round is about all of them, at a little more
// than one request per group-version and server.
//
// Invariants:
//
//   - A look claims only what was true at some moment after the look began, and identities never come back: a process's
//     holderIdentity is random, the generation of a CRD only grows. So two looks a few seconds apart that saw the same
//     epoch prove that it lasted from the first to the second, which is what good ranges and the proof before trimming
//     rest on (I1, I2). In a longer time a process may have come and gone without leaving a difference: {a, b}, then
//     {a, b, c}, then {a, b}. One that crashed stays for a minute; one that was told to end takes its Lease with it.
//
//   - Doubt makes evidence weaker or Since later, never the reverse: what cannot be read caps the evidence at
//     Sampled, and an unknown moment of change is the moment of our own first look.
//
//   - Every hash that any server shows or publishes is in the view, even if it counts for nothing else.
//
//   - A StorageVersion object outlives the servers that it names, and does not show those that do not publish. It is
//     agreement only where it names exactly the servers that live, and each of their processes has published what it
//     writes.
//
//   - A server that is not listed any more can write until it is silent. It is asked at its last address, and stays in
//     the epoch until then; where it cannot be asked, no epoch begins before Options.ShutdownDelay has passed
//     (departed.go, docs/adr/0009-servers-that-leave.md).
//
// What it cannot see: a kube-apiserver answers requests some seconds before its identity Lease appears. Within that
// window it can write unseen, so a confirmation that follows the last write by less is not yet proof. An aggregated API
// server that is restarted within its pod shows that nowhere.
package agreement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// ErrNotServed: the API servers do not serve the resource at the version asked for.
var ErrNotServed = errors.New("resource is not served")

const (
	defaultRequestTimeout = 5 * time.Second
	// maxAttempts bounds how often one look starts again because servers came or went during it.
	maxAttempts = 3
)

// Options are what may differ from the defaults. The zero value is good.
type Options struct {
	// RequestTimeout bounds each request of a look; 0 means 5 s.
	RequestTimeout time.Duration
	// DiscoveryToken returns a bearer token to show to aggregated API servers, which may belong to other people: one of
	// an account that may read discovery and nothing else. nil, the default: they are asked without credentials, which
	// most refuse.
	DiscoveryToken func(ctx context.Context) (string, error)
	// ShutdownDelay is how long an API server that was told to end may go on accepting requests where it cannot be
	// asked whether it does: the greatest --shutdown-delay-duration in the cluster. 0 means DefaultShutdownDelay; a
	// nanosecond means none.
	ShutdownDelay time.Duration
}

// Observer looks at the API servers of one cluster. What several targets have in common, connections and
// the knowledge of which address answers, it shares. Safe for concurrent use.
type Observer struct {
	client *client
	// observed asks kube-apiservers, aggregated the servers behind an APIService, sampled whoever answers.
	observed   *observed
	aggregated *aggregated
	sampled    source

	crds         *crds
	declarations *declarations
	departures   *departures
	alike        *alike

	mu       sync.Mutex
	sighting sighting
	last     *leases                         // what the latest look read last: the next one's view from before
	memories map[schema.GroupResource]memory // of rounds
}

// NewObserver returns an Observer for the cluster of config, which is not changed. It sends nothing yet.
func NewObserver(config *rest.Config, options Options) (*Observer, error) {
	if options.RequestTimeout <= 0 {
		options.RequestTimeout = defaultRequestTimeout
	}
	if options.ShutdownDelay <= 0 {
		options.ShutdownDelay = DefaultShutdownDelay
	}
	c, err := newClient(config, options.RequestTimeout)
	if err != nil {
		return nil, fmt.Errorf("configure agreement: %w", err)
	}
	full, err := apiserver.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("configure agreement: %w", err)
	}
	return &Observer{
		client:       c,
		observed:     newObserved(c),
		aggregated:   newAggregated(c, options.DiscoveryToken),
		sampled:      newSampled(c),
		crds:         &crds{client: c, full: full, known: map[string]*crd.CRD{}},
		declarations: newDeclarations(c),
		departures:   newDepartures(options.ShutdownDelay),
		alike:        &alike{client: c},
		memories:     map[schema.GroupResource]memory{},
	}, nil
}

// For returns the view of one target. It remembers the epoch that it saw last: keep it for as long as one
// epoch is to be followed.
func (o *Observer) For(target migrate.Target) *Resource {
	if target.Origin == "" {
		target.Origin = migrate.Custom
	}
	return &Resource{observer: o, target: target}
}

// New returns the agreement about one target, for callers that look at no other.
func New(config *rest.Config, target migrate.Target, options Options) (*Resource, error) {
	o, err := NewObserver(config, options)
	if err != nil {
		return nil, err
	}
	return o.For(target), nil
}

// Resource is the agreement about one resource. It implements migrate.Agreement; safe for concurrent use.
type Resource struct {
	observer *Observer
	target   migrate.Target

	mu     sync.Mutex
	memory memory
}

var _ migrate.Agreement = (*Resource)(nil)

// Epoch looks now; see migrate.Agreement. Where the resource is not served errors.Is(err, ErrNotServed) holds;
// where the servers disagree, errors.As finds a *Disagreement.
func (r *Resource) Epoch(ctx context.Context) (migrate.Epoch, error) {
	epoch, _, err := r.Look(ctx)
	return epoch, err
}

// Look is Epoch together with an explanation for people.
func (r *Resource) Look(ctx context.Context) (migrate.Epoch, Explanation, error) {
	for range maxAttempts {
		f, err := r.observer.gather(ctx, r.target)
		if err != nil {
			return migrate.Epoch{}, Explanation{}, fmt.Errorf("look at who writes %s: %w",
				r.target.GroupResource(), err)
		}
		if f.moved {
			continue
		}
		v, err := combine(f)
		if errors.Is(err, migrate.ErrDisagreement) {
			r.mu.Lock()
			r.memory = r.memory.disagreed(time.Now())
			r.mu.Unlock()
		}
		switch {
		case err != nil && (f.silent == nil || errors.Is(err, migrate.ErrDisagreement)):
			return migrate.Epoch{}, Explanation{}, err
		case f.silent != nil:
			return v.epoch, Explanation{}, fmt.Errorf("look at who writes %s: %w", r.target.GroupResource(), f.silent)
		}
		return r.remember(v, f), v.explanation, nil
	}
	return migrate.Epoch{}, Explanation{}, fmt.Errorf("look at who writes %s: API servers came or went %d times "+
		"during the look",
		r.target.GroupResource(), maxAttempts)
}

// remember adds Since, which needs what earlier looks saw.
func (r *Resource) remember(v verdict, f findings) migrate.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, stamps := time.Now(), stampsOf(f)
	if f.target.Origin != migrate.Aggregated { // whose servers are others
		stamps.seen = r.observer.seen(f, stamps, now)
	}
	r.memory = r.memory.next(v.epoch, stamps, f.leases.clocks(), now)
	v.epoch.Since = latest(r.memory.since, f.absent.since)
	return v.epoch
}

// seen returns since when the present servers have been seen, by looks at any resource.
func (o *Observer) seen(f findings, s stamps, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sighting = o.sighting.next(f, s, now)
	return o.sighting.since
}

// gather reads everything that one look needs.
//
// Leases frame the look: they are read last, and compared with those of before the first question, which are those
// that the look before ended with. A server that started or went in between makes the two differ, and the look is
// void (moved). Where they are equal, each process in them lived all the time, because no holderIdentity
// comes back. A server that starts after the last reading started after a moment that this look may speak for (I1).
func (o *Observer) gather(ctx context.Context, target migrate.Target) (f findings, err error) {
	f.target = target
	defer func() {
		if err != nil || f.silent != nil {
			o.forget()
		}
	}()
	if target.Origin == migrate.Aggregated {
		return f, o.gatherAggregated(ctx, &f)
	}
	before, err := o.before(ctx)
	if err != nil {
		return f, err
	}
	var (
		wg                 sync.WaitGroup
		crdErr, eErr, dErr error
	)
	if target.Origin == migrate.Custom {
		wg.Go(func() { f.crd, crdErr = o.crds.read(ctx, target) })
	}
	wg.Go(func() { f.endpoints, eErr = readEndpoints(ctx, o.client) })
	wg.Go(func() { f.declarations, dErr = o.declarations.of(ctx, target) })
	wg.Wait()
	if err := errors.Join(crdErr, eErr, dErr); err != nil {
		return f, err
	}
	f.absent = o.follow(ctx, before, f.endpoints)
	f.leases, f.endpoints = before.with(f.absent), f.endpoints.with(f.absent)
	f.leases.alike = o.alike.of(ctx, f.leases, f.endpoints)
	if err := o.askAbout(ctx, &f); err != nil {
		return f, err
	}
	if len(f.declarations) > 0 {
		f.notPublishing = o.observed.publishing(ctx, f.leases, f.endpoints)
		f.publishing = f.notPublishing == ""
	}
	after, err := o.readLeases(ctx)
	if err != nil {
		return f, err
	}
	f.leases, f.moved = after.with(f.absent), !before.sameServers(after)
	return f, nil
}

// gatherAggregated is gather for a resource of an aggregated API server. The kube-apiservers' Leases and addresses say
// nothing about the processes behind an APIService; these are known by their addresses and pods, and frame the look in
// the same way.
func (o *Observer) gatherAggregated(ctx context.Context, f *findings) (err error) {
	gv := f.target.Resource.GroupVersion()
	if f.service, err = readService(ctx, o.client, gv); err != nil {
		return err
	}
	if f.service != nil {
		f.absent = o.followService(ctx, f.service)
		f.service = f.service.with(f.absent)
	}
	if f.declarations, err = o.declarations.of(ctx, f.target); err != nil {
		return err
	}
	if len(f.declarations) > 0 {
		if f.leases, err = readLeases(ctx, o.client); err != nil {
			return err
		}
	}
	if err := o.askAbout(ctx, f); err != nil || f.service == nil {
		return err
	}
	after, err := readService(ctx, o.client, gv)
	if err != nil {
		return err
	}
	f.moved = !slices.Equal(f.service.listed(), after.listed())
	return nil
}

// askAbout asks for the target's document, and keeps what it says of the target.
func (o *Observer) askAbout(ctx context.Context, f *findings) error {
	q := question{path: discoveryPath(f.target.Resource.GroupVersion()), leases: f.leases,
		endpoints: f.endpoints, service: f.service}
	surveys, err := o.ask(ctx, q, f.target.Origin == migrate.Aggregated)
	if errors.Is(err, migrate.ErrSilent) { // what the others say may tell all the same whether the epoch lasts
		f.silent = err
		var others survey
		others, err = o.sampled.ask(ctx, q)
		surveys = append(surveys, others)
	}
	for _, s := range surveys {
		f.reports = append(f.reports, s.about(f.target.Resource.Resource))
	}
	return err
}

// ask puts a question to the sources, strongest first, until one knows all servers.
func (o *Observer) ask(ctx context.Context, q question, isAggregated bool) ([]survey, error) {
	sources := []source{o.observed, o.sampled}
	if isAggregated {
		sources[0] = o.aggregated
	}
	var surveys []survey
	for _, s := range sources {
		one, err := s.ask(ctx, q)
		surveys = append(surveys, one)
		if err != nil || one.evidence >= migrate.Observed {
			return surveys, err
		}
	}
	return surveys, nil
}

func (o *Observer) before(ctx context.Context) (leases, error) {
	o.mu.Lock()
	last := o.last
	o.mu.Unlock()
	if last != nil {
		return *last, nil
	}
	return o.readLeases(ctx)
}

// forget makes the next look read Leases first: a look that failed may have done so because they are not up to date.
func (o *Observer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = nil
}

func (o *Observer) readLeases(ctx context.Context) (leases, error) {
	l, err := readLeases(ctx, o.client)
	if err != nil {
		return l, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = &l
	return l, nil
}
