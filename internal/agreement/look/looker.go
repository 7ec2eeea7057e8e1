// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package look reads everything that shows which API servers of a cluster can write, and in which version: identity
// Leases, EndpointSlices, APIServices, CustomResourceDefinitions, StorageVersions and discovery. One look gives one
// Snapshot. A source of evidence is a file (observed.go, lines.go, aggregated.go, sampled.go, declared.go).
//
// It never writes to the cluster. It sends credentials to the address in the kubeconfig, and otherwise only to addresses
// whose certificate it has verified; it never sends the client's credentials to an aggregated API server.
package look

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
)

const defaultRequestTimeout = 5 * time.Second

// Options configures a Looker. The zero value is a complete set of defaults.
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

// Looker looks at the API servers of one cluster. It remembers which servers have departed and which addresses answer.
// It is safe for concurrent use.
type Looker struct {
	client *client
	// observed asks kube-apiservers at their own addresses, lines those behind one address, aggregated the servers behind
	// an APIService, and sampled any server that answers.
	observed   *observed
	lines      *lines
	aggregated *aggregated
	sampled    source

	crds         *crds
	declarations *declarations
	departures   *departures
	alike        *alike

	mu   sync.Mutex
	last *snapshot.Leases // what the latest look read last; the next look starts from it

	identified identified
}

// NewLooker returns a Looker for the cluster of config. It does not change config, and sends no request yet.
func NewLooker(config *rest.Config, options Options) (*Looker, error) {
	if options.RequestTimeout <= 0 {
		options.RequestTimeout = defaultRequestTimeout
	}
	if options.ShutdownDelay <= 0 {
		options.ShutdownDelay = servers.DefaultShutdownDelay
	}
	c, err := newClient(config, options.RequestTimeout)
	if err != nil {
		return nil, err
	}
	full, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &Looker{
		client:       c,
		observed:     newObserved(c),
		lines:        &lines{client: c},
		aggregated:   newAggregated(c, options.DiscoveryToken),
		sampled:      newSampled(c),
		crds:         &crds{client: c, full: full, known: map[string]*crd.CRD{}},
		declarations: newDeclarations(c),
		departures:   newDepartures(options.ShutdownDelay),
		alike:        &alike{client: c},
	}, nil
}
