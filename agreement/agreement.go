// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement tells whether all API servers that can write a resource encode it in the same version, in
// which epoch they are, and how well that is known.
//
// It owns the sources of evidence, one file each, and their combination. Gathering and deciding are apart: combine
// and the times in since.go are pure. It never writes to the cluster, and never sends credentials to an address
// whose certificate has not been verified, other than the one in the kubeconfig.
//
// Invariants:
//   - A look claims only what was true at some moment after the look began, and identities never come back:
//     a process's holderIdentity is random, a definition's generation only grows. So two looks that saw the same
//     epoch prove that it lasted from the first to the second, which is what good ranges and the proof before
//     trimming rest on (I1, I2).
//   - Doubt makes evidence weaker or Since later, never the reverse: what cannot be read caps the evidence at
//     Sampled, and an unknown moment of change is the moment of our own first look.
//
// What it cannot see: a kube-apiserver answers requests some seconds before its identity Lease appears. Within
// that window it can write unseen, so a confirmation that follows the last write by less is not yet proof.
package agreement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

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
}

// Observer looks at the API servers of one cluster. What several targets have in common, connections and
// the knowledge of which address answers, it shares. Safe for concurrent use.
type Observer struct {
	client  *client
	sources []source // strongest first

	definitions *definitions

	mu       sync.Mutex
	sighting sighting
	last     *leases // what the latest look read last: the next one's view from before
}

// NewObserver returns an Observer for the cluster of config, which is not changed. It sends nothing yet.
func NewObserver(config *rest.Config, options Options) (*Observer, error) {
	if options.RequestTimeout <= 0 {
		options.RequestTimeout = defaultRequestTimeout
	}
	c, err := newClient(config, options.RequestTimeout)
	if err != nil {
		return nil, fmt.Errorf("configure agreement: %w", err)
	}
	full, err := migrate.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("configure agreement: %w", err)
	}
	return &Observer{
		client:      c,
		sources:     []source{newObserved(c), newSampled(c)},
		definitions: &definitions{client: c, full: full, known: map[string]*crd.Definition{}},
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
			return migrate.Epoch{}, Explanation{}, fmt.Errorf("look at who writes %s: %w", r.target.GroupResource(), err)
		}
		if f.moved {
			continue
		}
		v, err := combine(f)
		if err != nil {
			return migrate.Epoch{}, Explanation{}, err
		}
		return r.remember(v, f), v.explanation, nil
	}
	return migrate.Epoch{}, Explanation{}, fmt.Errorf("look at who writes %s: API servers came or went %d times during the look",
		r.target.GroupResource(), maxAttempts)
}

// remember adds Since, which needs what earlier looks saw.
func (r *Resource) remember(v verdict, f findings) migrate.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, stamps := time.Now(), stampsOf(f)
	stamps.seen = r.observer.seen(f, stamps, now)
	r.memory = r.memory.next(v.epoch, stamps, f.leases.lag(), now)
	v.epoch.Since = r.memory.since
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
		if err != nil {
			o.forget()
		}
	}()
	if target.Origin == migrate.Aggregated {
		// The kube-apiservers' Leases and addresses say nothing about the processes behind an APIService.
		return f, o.ask(ctx, &f)
	}
	before, err := o.before(ctx)
	if err != nil {
		return f, err
	}
	var (
		wg           sync.WaitGroup
		crdErr, eErr error
	)
	if target.Origin == migrate.Custom {
		wg.Go(func() { f.definition, crdErr = o.definitions.read(ctx, target) })
	}
	wg.Go(func() { f.endpoints, eErr = readEndpoints(ctx, o.client) })
	wg.Wait()
	if err := errors.Join(crdErr, eErr); err != nil {
		return f, err
	}
	f.leases = before
	if err := o.ask(ctx, &f); err != nil {
		return f, err
	}
	after, err := o.readLeases(ctx)
	if err != nil {
		return f, err
	}
	f.leases, f.moved = after, !before.sameServers(after)
	return f, nil
}

// ask puts the question to the sources, strongest first, until one knows all servers.
func (o *Observer) ask(ctx context.Context, f *findings) error {
	for _, s := range o.sources {
		r, err := s.ask(ctx, question{target: f.target, leases: f.leases, endpoints: f.endpoints})
		if err != nil {
			return err
		}
		f.reports = append(f.reports, r)
		if r.evidence >= migrate.Observed {
			return nil
		}
	}
	return nil
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
