// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-migrator/kube-migrator/internal/identity"
)

const (
	// MigrationAPI is the StorageVersion CRD of kube-migrator. It is the default: it is served wherever kube-migrator
	// is installed.
	MigrationAPI API = "migration.k8s.io"
	// InternalAPI is the API of Kubernetes. It is alpha and off by default. Where kube-controller-manager runs with the
	// feature gate StorageVersionAPI, its garbage collection removes every entry whose server is not a kube-apiserver:
	// the publisher then writes its entries again and again, and the barrier is closed in between. Choose it only for
	// clusters whose kube-controller-manager runs without that gate.
	InternalAPI API = "internal.apiserver.k8s.io"
)

const (
	defaultLeaseDuration = time.Minute
	minLeaseDuration     = 3 * time.Second
	defaultDrainTimeout  = time.Minute
	maxRequestTimeout    = 10 * time.Second
	maxInterval          = identity.FreshFor / 6
	maxVersions          = 64
	randomDigits         = 16
	retryAfterSeconds    = 1
)

// Publisher publishes the storage versions of one API server, and keeps them published while Run runs. Its methods may
// be called from several goroutines. It is also the readiness check of the server: it has the methods of
// k8s.io/apiserver's healthz.HealthChecker.
type Publisher struct {
	gate    *gate
	leases  *membership
	entries *publication
	// interval is how often the Lease is renewed, and the entries are looked at.
	interval, drainTimeout time.Duration
	log                    *slog.Logger
	started                atomic.Bool
	rejoined               chan struct{} // has a token when the membership began again
}

// NewPublisher checks the options and returns a Publisher. It sends no request.
func NewPublisher(o Options) (*Publisher, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("configure the publisher of storage versions: %w", err)
	}
	interval := min(o.LeaseDuration/6, maxInterval)
	api, err := newClient(o.Config, min(maxRequestTimeout, o.LeaseDuration/3))
	if err != nil {
		return nil, err
	}
	entries := &publication{
		api: api, group: o.API, id: o.ID, component: o.Component,
		entries: map[schema.GroupResource]*entryFields{}, written: map[schema.GroupResource]int{},
		census: &census{api: api, namespace: o.Namespace, observed: observations{}},
	}
	for i := range o.Resources {
		r := &o.Resources[i]
		entries.order = append(entries.order, r.GroupResource)
		entries.entries[r.GroupResource] = &entryFields{
			APIServerID: o.ID, EncodingVersion: r.EncodingVersion.String(),
			DecodableVersions: namesOf(r.DecodableVersions), ServedVersions: namesOf(r.ServedVersions),
		}
	}
	entries.gate = newGate(entries.order, o.LeaseDuration)
	leases, err := newMembership(api, &o)
	if err != nil {
		return nil, err
	}
	return &Publisher{
		gate: entries.gate, leases: leases, entries: entries, interval: interval, drainTimeout: o.DrainTimeout,
		log: o.Logger, rejoined: make(chan struct{}, 1),
	}, nil
}

func newMembership(api *client, o *Options) (*membership, error) {
	path, err := leasesPath(o.Namespace)
	if err != nil {
		return nil, err
	}
	holder := o.ID + "_" + string(uuid.NewUUID())
	seconds := int32(o.LeaseDuration / time.Second) //nolint:gosec // complete has bounded it
	m := &membership{
		api: api, path: path, objectPath: path + "/" + o.ID, name: o.ID, duration: o.LeaseDuration,
		others: observations{},
		template: coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Name: o.ID, Namespace: o.Namespace,
				Labels: map[string]string{identity.Label: o.Component}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
		},
	}
	if host, err := os.Hostname(); err == nil && len(validation.IsValidLabelValue(host)) == 0 {
		m.template.Labels[identity.HostLabel] = host
	}
	return m, nil
}

// Run publishes until the context ends, and then withdraws: it lets no write begin any more, waits until the last write
// in flight has finished, removes this server's entries, and deletes its Lease. Call it once, in a goroutine of its
// own, and wait for it before the process ends. While the API server does not answer Run tries again; the barrier and
// the readiness check tell.
//
// It returns nil once everything is withdrawn, or if it published nothing because an earlier process with its ID may
// still write: the entries and the Lease are those of that process then. It returns an error if a write in flight did
// not finish within twice the DrainTimeout, or if the API server did not take the withdrawal: other servers then drop
// the entries when the Lease has expired.
func (p *Publisher) Run(ctx context.Context) error {
	if !p.started.CompareAndSwap(false, true) {
		return errors.New("the publisher of storage versions was run before")
	}
	p.gate.blamed(errors.New("the identity Lease is not taken yet"))
	// The Lease is renewed until the last write has finished.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work sync.WaitGroup
	for _, keep := range []func(context.Context){p.keepMembership, p.keepPublished} {
		work.Add(1)
		go func() {
			defer work.Done()
			keep(working)
		}()
	}

	<-ctx.Done()
	drained := p.gate.close()
	finished := p.drain(drained)
	stop()
	work.Wait()
	if !finished {
		return errors.New("writes are still in flight: the storage versions stay published until the identity Lease " +
			"has expired")
	}
	return p.withdraw(context.WithoutCancel(ctx))
}

// drain waits for the writes in flight.
func (p *Publisher) drain(drained <-chan struct{}) bool {
	for range 2 {
		timer := time.NewTimer(p.drainTimeout)
		select {
		case <-drained:
			timer.Stop()
			return true
		case <-timer.C:
			p.gate.cancelWrites()
		}
	}
	return false
}

// withdraw removes the entries, and then the Lease. It tries for as long as a Lease lasts.
func (p *Publisher) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.leases.duration)
	defer cancel()
	for {
		err := p.withdrawOnce(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, p.interval) != nil {
			return fmt.Errorf("withdraw the storage versions: %w", err)
		}
	}
}

// withdrawOnce renews the Lease first: if a later process with the same ID has it, the entries are that one's.
func (p *Publisher) withdrawOnce(ctx context.Context) error {
	if p.leases.held == nil || p.leases.inheritance != nil { // the entries are those of an earlier process
		return nil
	}
	at, err := p.leases.put(ctx, p.leases.held, false)
	if hasStatus(err, http.StatusConflict) || hasStatus(err, http.StatusNotFound) {
		err = p.leases.read(ctx)
		if err == nil && p.leases.held != nil {
			// the next attempt renews it as it is now
			return errors.New("the identity Lease was written by another program")
		}
	}
	if err != nil {
		return fmt.Errorf("renew the identity Lease: %w", err)
	}
	if p.leases.held == nil {
		return nil
	}
	p.gate.renewed(at)
	if err := p.entries.withdrawAll(ctx); err != nil {
		return err
	}
	if err := p.leases.release(ctx); err != nil {
		return fmt.Errorf("delete the identity Lease: %w", err)
	}
	return nil
}

// keepMembership renews the Lease.
func (p *Publisher) keepMembership(ctx context.Context) {
	wait := firstWait
	for {
		at, joined, lost, err := p.leases.keep(ctx)
		if lost {
			p.gate.left(errors.New("the identity Lease was lost"))
		}
		switch {
		case err != nil:
			p.gate.blamed(fmt.Errorf("keep the identity Lease: %w", err))
			if inherited := (*errInherited)(nil); errors.As(err, &inherited) {
				p.log.InfoContext(ctx, "Waiting until an earlier process has stopped writing", "reason", err)
			} else {
				p.log.WarnContext(ctx, "The identity Lease could not be renewed", "error", err)
			}
		case joined:
			p.gate.joined(at)
			select {
			case p.rejoined <- struct{}{}:
			default:
			}
		default:
			p.gate.renewed(at)
		}
		next := p.interval
		if err != nil {
			next, wait = wait, min(2*wait, p.interval)
		} else {
			wait = firstWait
		}
		if pause(ctx, next) != nil {
			return
		}
	}
}

// keepPublished publishes, and looks again and again whether the entries stand.
func (p *Publisher) keepPublished(ctx context.Context) {
	wait := firstWait
	for {
		next := p.interval
		if p.gate.period() != 0 {
			if err := p.entries.pass(ctx); err != nil {
				p.log.WarnContext(ctx, "The storage versions could not be published", "error", err)
				next, wait = wait, min(2*wait, p.interval)
			} else {
				wait = firstWait
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.rejoined:
			timer.Stop()
			wait = firstWait
		case <-timer.C:
		}
	}
}

// Name returns the name of the readiness check.
func (p *Publisher) Name() string { return "storage-versions-published" }

// Check returns an error unless the entries of all resources are known to stand: the server is not ready to take
// writes. The request is not used.
func (p *Publisher) Check(*http.Request) error {
	count, why := p.gate.pending()
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d storage versions are not published: %w", count, len(p.entries.order), why)
}

// ID returns the name of the identity Lease, which is also the apiServerID of the entries.
func (p *Publisher) ID() string { return p.entries.id }
