// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement determines whether all API servers that can write a resource encode it in the same version, in
// which epoch they are, and how well that is known.
//
// It owns the sources of evidence, one file each (declared.go, observed.go, aggregated.go, sampled.go), the memory of
// servers that have left (departed.go), and their combination. Gathering is separate from deciding: combine, the worth
// of a StorageVersion object (findings.declared), the views of a round (view.go, servers.go) and the times in since.go
// are pure. It never writes to the cluster. It sends credentials to the address in the kubeconfig, and otherwise only
// to addresses whose certificate it has verified; it never sends the client's credentials to an aggregated API server.
//
// There are two ways to look, with the same sources and the same combination. Resource.Look is about one resource and
// cheap enough to be called once a second: a sweep follows its epoch with it. Observer.Round is about all resources, at
// a little more than one request per group-version and server.
//
// Invariants:
//
//   - A look claims only what was true at some moment after the look began, and identities never come back: a process's
//     holderIdentity is random, and the generation of a CRD only grows. So two looks a few seconds apart that saw the
//     same epoch prove that it lasted from the first to the second. Good ranges and the proof before trimming rely on
//     that (I1, I2). In a longer time a process may come and go without leaving a difference: {a, b}, then {a, b, c},
//     then {a, b}. The Lease of a process that crashed stays fresh for a minute; a process that shuts down deletes its
//     Lease.
//   - Doubt makes evidence weaker or Since later, never the reverse: if something cannot be read, the evidence is at
//     most Sampled, and an unknown moment of change counts as the moment of our own first look.
//   - Every hash that any server shows or publishes is in the view, even if it counts for nothing else. A version that
//     is published has a hash if its kind is known.
//   - A StorageVersion object outlives the servers that it names, and does not show servers that do not publish. It is
//     agreement only if it names exactly the servers that live, and each of their processes has published what it
//     writes.
//   - A server that is no longer listed can write until it is silent. It is asked at its last address and stays in the
//     epoch until then. If it cannot be asked, no epoch begins before Options.ShutdownDelay has passed (departed.go,
//     docs/adr/0009-servers-that-leave.md).
//
// Limits: a kube-apiserver answers requests some seconds before its identity Lease appears. It can write unseen until
// then, so a confirmation less than that time after the last write is not proof yet. An aggregated API server that
// does not publish and restarts within its pod leaves no trace.
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
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// ErrNotServed reports that the API servers do not serve the resource at the requested version.
var ErrNotServed = errors.New("resource is not served")

const (
	defaultRequestTimeout = 5 * time.Second
	// maxAttempts bounds how often one look starts over because servers came or went during it.
	maxAttempts = 3
)

// Options configures an Observer. The zero value is a complete set of defaults.
type Options struct {
	// RequestTimeout bounds each request of a look. 0: 5 seconds.
	RequestTimeout time.Duration
	// DiscoveryToken returns the bearer token that is sent to aggregated API servers. It has to belong to an account
	// that may read discovery and nothing else, because these servers may belong to other people. nil, the default: no
	// credentials are sent, and most aggregated API servers then refuse to answer.
	DiscoveryToken func(ctx context.Context) (string, error)
	// ShutdownDelay is how long an API server that was told to shut down counts as serving if it cannot be asked: the
	// greatest --shutdown-delay-duration in the cluster. 0: DefaultShutdownDelay; a nanosecond: no delay.
	ShutdownDelay time.Duration
}

// Observer looks at the API servers of one cluster. Its resources share connections and the knowledge of which
// addresses answer. It is safe for concurrent use.
type Observer struct {
	client *client
	// observed asks kube-apiservers, aggregated the servers behind an APIService, and sampled any server that answers.
	observed   *observed
	aggregated *aggregated
	sampled    source

	crds         *crds
	declarations *declarations
	departures   *departures
	alike        *alike

	mu       sync.Mutex
	sighting sighting
	last     *leases                         // what the latest look read last; the next look starts from it
	memories map[schema.GroupResource]memory // of rounds
}

// NewObserver returns an Observer for the cluster of config. It does not change config, and sends no request yet.
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

// For returns the agreement about one resource. It remembers the epoch that it saw last: keep it for as long as you
// want to follow an epoch.
func (o *Observer) For(target migrate.Target) *Resource {
	if target.Origin == "" {
		target.Origin = migrate.Custom
	}
	return &Resource{observer: o, target: target}
}

// New returns the agreement about one resource, for callers that look at no other.
func New(config *rest.Config, target migrate.Target, options Options) (*Resource, error) {
	o, err := NewObserver(config, options)
	if err != nil {
		return nil, err
	}
	return o.For(target), nil
}

// Resource is the agreement about one resource. It implements migrate.Agreement and is safe for concurrent use.
type Resource struct {
	observer *Observer
	target   migrate.Target

	mu     sync.Mutex
	memory memory
}

var _ migrate.Agreement = (*Resource)(nil)

// Epoch asks the API servers now; see migrate.Agreement. If no server serves the resource, errors.Is(err, ErrNotServed)
// holds; if the servers disagree, errors.As finds a *Disagreement.
func (r *Resource) Epoch(ctx context.Context) (migrate.Epoch, error) {
	epoch, _, err := r.Look(ctx)
	return epoch, err
}

// Look is Epoch with an explanation for users.
func (r *Resource) Look(ctx context.Context) (migrate.Epoch, Explanation, error) {
	for range maxAttempts {
		f, err := r.observer.gather(ctx, r.target)
		if err != nil {
			return migrate.Epoch{}, Explanation{}, fmt.Errorf("determine the storage version of %s: %w",
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
			return v.epoch, Explanation{}, fmt.Errorf("determine the storage version of %s: %w",
				r.target.GroupResource(), f.silent)
		}
		return r.remember(v, f), v.explanation, nil
	}
	return migrate.Epoch{}, Explanation{}, fmt.Errorf("determine the storage version of %s: API servers came or went "+
		"during each of %d looks", r.target.GroupResource(), maxAttempts)
}

// remember adds Since, which depends on earlier looks.
func (r *Resource) remember(v conclusion, f findings) migrate.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, stamps := time.Now(), stampsOf(f)
	if f.target.Origin != migrate.Aggregated { // whose servers are different ones
		stamps.since = r.observer.sameServersSince(f, stamps, now)
	}
	r.memory = r.memory.next(v.epoch, stamps, f.leases.clocks(), now)
	v.epoch.Since, v.epoch.Leaving = latest(r.memory.since, f.absent.since), f.absent.until
	v.epoch.Addresses = f.addressesOf(v.epoch.Hash)
	return v.epoch
}

// sameServersSince returns since when the present servers have been the same, by looks at any resource.
func (o *Observer) sameServersSince(f findings, s stamps, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sighting = o.sighting.next(f, s, now)
	return o.sighting.since
}

// gather reads everything that one look needs.
//
// Readings of the Leases enclose the look: they are read last and compared with the reading before the first request,
// which is the one that ended the previous look. If a server started or left in between, the two differ, and the look
// is void (moved). If they are equal, each process in them lived all the time, because no holderIdentity comes back. A
// server that starts after the last reading started after a moment that this look may speak for (I1).
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
		wg                 waitgroup.Group
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

// gatherAggregated is gather for a resource of an aggregated API server. The Leases and addresses of kube-apiservers do
// not show the processes behind an APIService. Their addresses and pods do, and enclose the look in the same way.
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
	if f.service != nil {
		f.traces = f.tracesAnd(f.service.traces())
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

// askAbout requests the target's document, and keeps what it says about the target.
func (o *Observer) askAbout(ctx context.Context, f *findings) error {
	q := query{path: discoveryPath(f.target.Resource.GroupVersion()), leases: f.leases,
		endpoints: f.endpoints, service: f.service}
	surveys, err := o.ask(ctx, q, f.target.Origin == migrate.Aggregated)
	if errors.Is(err, migrate.ErrSilent) { // the other answers may still show whether the epoch lasts
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

// ask asks the sources, strongest first, until one of them knows all servers.
func (o *Observer) ask(ctx context.Context, q query, isAggregated bool) ([]survey, error) {
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

// forget makes the next look read the Leases first: the look may have failed because the remembered ones were out of
// date.
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
