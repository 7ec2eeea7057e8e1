// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement determines whether all API servers that can write a resource encode it in the same version, in
// which epoch they are, and how well that is known.
//
// It judges, and is pure but for the Observer, which joins three packages:
//
//	look      asks the API servers and gives a snapshot
//	servers   remembers which processes may write, and since when
//	snapshot  what one look has read, as plain values
//
// findingsOf takes from a snapshot what concerns one resource, combine decides whether the servers agree about it, and
// verdict says so for users and for the record. Observer.Round looks at all resources, with a little more than one
// request per group-version and server. Resource.Look is the same for one resource and cheap enough to be called once a
// second: a sweep follows its epoch with it. Callers that look at the same time share a look (join.go).
//
// Invariants:
//
//   - A look claims only what was true at some moment after the look began, and identities never come back: a process's
//     holderIdentity is random or is joined by when the process started, and the generation of a CRD only grows. So two
//     looks a few seconds apart that saw the same epoch prove that it lasted from the first to the second. Good ranges
//     and the proof before trimming rely on that (I1, I2). In a longer time a process may come and go without leaving a
//     difference: {a, b}, then {a, b, c}, then {a, b}. The Lease of a process that crashed stays fresh for a minute; a
//     process that shuts down deletes its Lease.
//   - Doubt makes evidence weaker or Since later, never the reverse: if something cannot be read, the evidence is at
//     most Sampled, and an unknown moment of change counts as the moment of our own first look.
//   - Every hash that any server shows or publishes is in the verdict, even if it counts for nothing else. A version that
//     is published has a hash if its kind is known.
//   - A StorageVersion object outlives the servers that it names, and does not show servers that do not publish. It is
//     agreement only if it names exactly the servers that live, and each of their processes has published what it
//     writes.
//   - A server that is no longer listed can write until it is silent. It is asked at its last address and stays in the
//     epoch until then. If it cannot be asked, no epoch begins before Options.ShutdownDelay has passed (package servers).
//
// Limits: a kube-apiserver answers requests some seconds before its identity Lease appears. It can write unseen until
// then, so a confirmation less than that time after the last write is not proof yet. An aggregated API server that
// does not publish and restarts within its pod leaves no trace.
package agreement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// What others need to know of a look.
type (
	Options  = look.Options
	Releases = snapshot.Releases
)

// ShowsRestarts reports whether the Leases of a release show that a server was restarted; see the snapshot.
func ShowsRestarts(release string) bool { return snapshot.ShowsRestarts(release) }

// DefaultShutdownDelay is the default of Options.ShutdownDelay.
const DefaultShutdownDelay = servers.DefaultShutdownDelay

// ErrNotServed reports that the API servers do not serve the resource at the requested version.
var ErrNotServed = snapshot.ErrNotServed

// errHidden reports that a look cannot tell whether the processes are those of the look before.
var errHidden = errors.New("not every API server shows when it started")

// maxAttempts bounds how often one look starts over because servers came or went during it.
const maxAttempts = 3

// Observer looks at the API servers of one cluster. Its resources share connections, looks, and the knowledge of which
// addresses answer. It is safe for concurrent use.
type Observer struct {
	looker *look.Looker

	mu       sync.Mutex
	sighting servers.Sighting
	memories map[schema.GroupResource]servers.Memories // of rounds
	joined   map[string]*joined                        // by whose servers are asked, see join
}

// NewObserver returns an Observer for the cluster of config. It does not change config, and sends no request yet.
func NewObserver(config *rest.Config, options Options) (*Observer, error) {
	l, err := look.NewLooker(config, options)
	if err != nil {
		return nil, fmt.Errorf("configure agreement: %w", err)
	}
	return &Observer{looker: l, memories: map[schema.GroupResource]servers.Memories{}, joined: map[string]*joined{}}, nil
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

	mu          sync.Mutex
	memory      servers.Memories
	explanation Explanation // of the last look that saw an epoch
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
		s, err := r.observer.join(ctx, r.target)
		if err == nil {
			err = s.Unread(r.target)
		}
		if err != nil && !errors.Is(err, migrate.ErrSilent) {
			return migrate.Epoch{}, Explanation{}, r.undetermined(err)
		}
		silent := err
		f := findingsOf(&s, r.target, r.target.Resource.Version)
		if f.moved {
			continue
		}
		v, err := combine(f)
		if errors.Is(err, migrate.ErrDisagreement) {
			r.mu.Lock()
			r.memory = r.memory.Disagreed(f.ended)
			r.mu.Unlock()
		}
		switch {
		case err != nil && (silent == nil || errors.Is(err, migrate.ErrDisagreement)):
			return migrate.Epoch{}, Explanation{}, err
		case f.hidden: // one of the servers may be another process now
			return migrate.Epoch{}, Explanation{}, r.undetermined(cmp.Or(silent, errHidden))
		case silent != nil:
			return v.epoch, Explanation{}, r.undetermined(silent)
		}
		return r.remember(v, f), v.explanation, nil
	}
	return migrate.Epoch{}, Explanation{}, r.undetermined(fmt.Errorf("API servers came or went during each of %d looks",
		maxAttempts))
}

// Explanation is that of the last look that saw an epoch, for users; it is zero before.
func (r *Resource) Explanation() Explanation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.explanation
}

func (r *Resource) undetermined(err error) error {
	return fmt.Errorf("determine the storage version of %s: %w", r.target.GroupResource(), err)
}

// remember adds Since, which depends on earlier looks.
func (r *Resource) remember(v conclusion, f findings) migrate.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	stamps := servers.StampsOf(f.seen())
	if f.target.Origin != migrate.Aggregated { // whose servers are different ones
		stamps.Since = r.observer.sameServersSince(f, stamps)
	}
	r.explanation = v.explanation
	var since time.Time
	r.memory, since = r.memory.Next(restartsSeen(f.reports), v.epoch, stamps, servers.ClocksOf(f.leases), f.ended)
	v.epoch.Since, v.epoch.Leaving = servers.Latest(since, f.absent.Since), f.absent.Until
	v.epoch.Addresses = f.addressesOf(v.epoch.Hash)
	return v.epoch
}

// sameServersSince returns since when the present servers have been the same, by looks at any resource. A look that does
// not see restarts knows nothing about that, and changes nothing.
func (o *Observer) sameServersSince(f findings, s servers.Stamps) time.Time {
	if !restartsSeen(f.reports) {
		return time.Time{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sighting = o.sighting.Next(f.seen(), s, f.ended)
	return o.sighting.Since
}
