// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
)

// departures follows the servers of all fleets of a cluster. It is safe for concurrent use.
type departures struct {
	delay time.Duration

	mu sync.Mutex
	at map[string]*servers.Fleet // "" for the kube-apiservers, namespace/name for those behind a service
}

func newDepartures(delay time.Duration) *departures {
	return &departures{delay: delay, at: map[string]*servers.Fleet{}}
}

// follow records which servers of a fleet are listed, asks those that no longer are, and returns those that may still
// write.
func (d *departures) follow(ctx context.Context, at string, s servers.Sight, ask func(ctx context.Context,
	address string) servers.Presence) snapshot.Absent {
	d.mu.Lock()
	p := d.at[at]
	if p == nil {
		p = new(servers.Fleet)
		d.at[at] = p
	}
	p.Note(s, d.delay)
	list := p.ToAsk(s.Now)
	d.mu.Unlock()

	found := make([]servers.Presence, len(list))
	var wg waitgroup.Group
	for i, one := range list {
		wg.Go(func() { found[i] = ask(ctx, one.Address) })
	}
	wg.Wait()
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() == nil { // an interrupted request proves nothing
		for i, one := range list {
			p.Learn(one, found[i], now)
		}
	}
	p.Release(now, d.delay)
	return p.Absent(now, d.delay)
}
