// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Process is what the runs of one process share: connections, looks at the API servers, and the bounds of each pace. No
// run relies on a look that began before the run asked for it. It is safe for concurrent use.
type Process struct {
	namespace string
	settings  Settings
	config    *rest.Config // considerate
	client    rest.Interface
	servers   *agreement.Observer

	mu     sync.Mutex
	bounds map[v1alpha1.Pace]*migrate.Bounds
}

// NewProcess returns a Process for runs whose ConfigMaps are in a namespace. It does not change config, and sends no
// request yet.
func NewProcess(config *rest.Config, namespace string, settings Settings) (*Process, error) {
	p := &Process{namespace: namespace, settings: settings, config: migrate.WithSharedBackoff(config),
		bounds: map[v1alpha1.Pace]*migrate.Bounds{}}
	var err error
	if p.client, err = apiserver.NewClient(p.config); err != nil {
		return nil, err
	}
	p.servers, err = agreement.NewObserver(p.config, agreement.Options{
		DiscoveryToken: discovery.Tokens(p.client, namespace), ShutdownDelay: settings.ShutdownDelay,
	})
	return p, err
}

// boundsOf returns the bounds of a pace: all sweeps at this pace keep them together.
func (p *Process) boundsOf(pace v1alpha1.Pace, o migrate.Options) *migrate.Bounds {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bounds[pace]
	if b == nil {
		b = migrate.NewBounds(o)
		p.bounds[pace] = b
	}
	return b
}
