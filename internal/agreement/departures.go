// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
)

// departures follows the servers of all fleets of a cluster. It is safe for concurrent use.
type departures struct {
	delay time.Duration

	mu sync.Mutex
	at map[string]*fleet // "" for the kube-apiservers, namespace/name for those behind a service
}

func newDepartures(delay time.Duration) *departures {
	return &departures{delay: delay, at: map[string]*fleet{}}
}

// follow records which servers of a fleet are listed, asks those that no longer are, and returns those that may still
// write.
func (d *departures) follow(ctx context.Context, at string, s sight, ask func(ctx context.Context,
	address string) presence) absent {
	d.mu.Lock()
	p := d.at[at]
	if p == nil {
		p = new(fleet)
		d.at[at] = p
	}
	p.note(s, d.delay)
	list := p.toAsk(s.now)
	d.mu.Unlock()

	found := make([]presence, len(list))
	var wg waitgroup.Group
	for i, one := range list {
		wg.Go(func() { found[i] = ask(ctx, one.address) })
	}
	wg.Wait()
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() == nil { // an interrupted request proves nothing
		for i, one := range list {
			p.learn(one, found[i], now)
		}
	}
	p.release(now, d.delay)
	return p.absent(now, d.delay)
}

// sightOf returns what Leases and the EndpointSlice show about the kube-apiservers.
func sightOf(l leases, e endpoints, now time.Time) sight {
	s := sight{now: now, live: slices.Clone(l.live), stale: l.gone, clocks: clocksOf(l), blind: !l.known}
	if e.known {
		s.listed, s.changed = slices.Clip(append([]string{}, e.addresses...)), e.changed
	}
	if len(s.live) == 1 && s.live[0].address == "" && len(s.listed) == 1 {
		s.live[0].address = s.listed[0]
	}
	return s
}

// with adds the departed servers that can still write to the live ones.
func (l leases) with(a absent) leases {
	if l.doubled = a.doubled; !l.known || !a.any() {
		return l
	}
	l.uncertain, l.live = a.uncertain, slices.Clone(l.live)
	for _, one := range a.serving {
		if one.holder == "" {
			continue // an address without a Lease; see endpoints.with
		}
		if slices.ContainsFunc(l.live, func(s server) bool { return s.name == one.name }) {
			one.name = one.holder // the Lease belongs to its successor
		}
		l.live = append(l.live, one)
	}
	slices.SortFunc(l.live, func(a, b server) int { return strings.Compare(a.holder, b.holder) })
	return l
}

// with adds the addresses of departed servers that can still write.
func (e endpoints) with(a absent) endpoints {
	if !e.known || len(a.serving) == 0 {
		return e
	}
	e.addresses = slices.Clone(e.addresses)
	for _, one := range a.serving {
		e.addresses = append(e.addresses, one.address)
	}
	slices.Sort(e.addresses)
	e.addresses = slices.Compact(e.addresses)
	return e
}

// sightBehind returns what a service's endpoints show about the processes behind it.
func sightBehind(s *service, now time.Time) sight {
	one := sight{now: now}
	for _, p := range s.processes {
		one.live = append(one.live, server{name: p.address, holder: p.String(), address: p.address})
	}
	return one
}

// with adds the processes that are no longer listed and can still write.
func (s *service) with(a absent) *service {
	if len(a.serving) == 0 {
		return s
	}
	extended := *s
	for _, one := range a.serving {
		pod := strings.TrimPrefix(strings.TrimPrefix(one.holder, one.address), "/")
		extended.departed = append(extended.departed, process{address: one.address, pod: pod})
	}
	return &extended
}
