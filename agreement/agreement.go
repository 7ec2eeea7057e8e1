// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement determines in which storage version the API servers of a cluster write a resource, and since when
// all of them write the same one. A sweep of package migrate needs this to prove that no old version is left:
//
//	servers, err := agreement.Of(config, target, agreement.Options{})
//	if err != nil {
//		return err
//	}
//	sweep, err := migrate.New(config, target, servers, migrate.Options{})
//
// A program that migrates several resources makes one [Observer], which shares connections, and calls [Observer.For]
// for each resource. To show a user why a migration waits, call [Agreement.Look].
//
// # How the servers are asked
//
// Each kube-apiserver is asked directly, at the address in its EndpointSlice, for the storageVersionHash in its
// discovery document; each address must present a certificate that the kubeconfig's CA signed. If the servers publish
// StorageVersion objects, these are read too. If the servers cannot be reached one by one, the address in the
// kubeconfig is asked repeatedly over fresh connections, which is weaker evidence: migrate.Sampled.
//
// A server that has left the EndpointSlice may still write for some time. It stays part of the epoch until it no
// longer answers; if it cannot be asked, no epoch begins before [Options].ShutdownDelay has passed.
//
// # Permissions
//
// The account of config needs get on the CustomResourceDefinition of a custom resource, and list on APIServices for a
// resource of an aggregated API server. To reach better evidence than migrate.Sampled it also needs list on Leases in
// kube-system and on EndpointSlices in default, or in the namespace of an APIService's Service; for migrate.Declared,
// get on StorageVersions. Nothing is ever written.
//
// # Limits
//
// A kube-apiserver answers requests some seconds before its identity Lease appears, and can write unseen until then.
// migrate.Options.SettleTime covers this time. An aggregated API server that restarts within its pod cannot be noticed.
package agreement

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// DefaultShutdownDelay is the default of [Options].ShutdownDelay: the longest --shutdown-delay-duration that a
// distribution is known to set.
const DefaultShutdownDelay = agreement.DefaultShutdownDelay

// ErrNotServed is in the error of a look at a resource that no API server serves at the target's version. Test with
// errors.Is.
var ErrNotServed = agreement.ErrNotServed

// Options configures an [Observer]. The zero value is a complete set of defaults.
type Options struct {
	// RequestTimeout bounds each request of a look. 0: 5 seconds.
	RequestTimeout time.Duration
	// DiscoveryToken returns the bearer token that is sent to aggregated API servers. Use one of an account that may
	// read discovery and nothing else, because these servers may belong to other people; config's own credentials are
	// never sent to them. nil: no credentials are sent, and most aggregated API servers then refuse to answer, so that
	// the evidence is migrate.Sampled. It is called from several goroutines at once.
	DiscoveryToken func(ctx context.Context) (string, error)
	// ShutdownDelay is how long an API server that was told to shut down counts as able to write if it cannot be asked
	// whether it still serves: the greatest --shutdown-delay-duration in the cluster. 0: DefaultShutdownDelay; a
	// nanosecond: no delay.
	ShutdownDelay time.Duration
}

// Observer asks the API servers of one cluster. It keeps what its resources have in common, such as connections and
// the knowledge of which server addresses can be reached. It is safe for concurrent use.
type Observer struct{ observer *agreement.Observer }

// NewObserver returns an Observer for the cluster of config. It does not change config, and sends no request yet.
func NewObserver(config *rest.Config, options Options) (*Observer, error) {
	o, err := agreement.NewObserver(config, agreement.Options(options))
	if err != nil {
		return nil, err
	}
	return &Observer{observer: o}, nil
}

// For returns the agreement about one resource. It remembers the epoch that it saw last: keep it for as long as you
// want to follow an epoch.
func (o *Observer) For(target migrate.Target) *Agreement {
	return &Agreement{resource: o.observer.For(target)}
}

// Agreement is that of the API servers about one resource. It implements migrate.Agreement, and is safe for concurrent
// use.
type Agreement struct{ resource *agreement.Resource }

var _ migrate.Agreement = (*Agreement)(nil)

// Of returns the agreement about one resource, for a program that migrates no other.
func Of(config *rest.Config, target migrate.Target, options Options) (*Agreement, error) {
	o, err := NewObserver(config, options)
	if err != nil {
		return nil, err
	}
	return o.For(target), nil
}

// Epoch asks the API servers now; see migrate.Agreement for what its errors mean. If the servers write different
// versions, errors.Is(err, migrate.ErrDisagreement) holds and the text names each server with its version. If no
// server serves the resource, errors.Is(err, ErrNotServed) holds.
func (a *Agreement) Epoch(ctx context.Context) (migrate.Epoch, error) {
	return a.resource.Epoch(ctx)
}

// Look is Epoch with an explanation for users.
func (a *Agreement) Look(ctx context.Context) (migrate.Epoch, Explanation, error) {
	epoch, explanation, err := a.resource.Look(ctx)
	return epoch, Explanation(explanation), err
}

// Explanation says how an agreement is known.
type Explanation struct {
	// Evidence is that of the epoch.
	Evidence migrate.Evidence `json:"evidence"`
	// Version is the storage version as group/version. "": no version that the servers serve has the epoch's hash.
	Version string `json:"version,omitempty"`
	// Servers is the number of live API servers. 0: it cannot be determined.
	Servers int `json:"servers,omitempty"`
	// How is a clause that says how the servers were asked.
	How string `json:"how"`
	// Reason is a clause that says why the evidence is not stronger. "": the evidence is migrate.Observed or stronger.
	Reason string `json:"reason,omitempty"`
}

// String returns the explanation on one line.
func (e Explanation) String() string { return agreement.Explanation(e).String() }
