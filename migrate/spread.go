// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// maxSpread bounds over how many API servers patches are spread (I6).
const maxSpread = 32

// proveTimeout bounds the read at a server's own address that tells whether it shares the etcd.
const proveTimeout = 10 * time.Second

// server is an API server that gets a share of the patches at its own address. What it answers counts only if it wrote
// or saw what the address in the config shows, too (docs/adr/0021-spread-over-the-api-servers.md).
type server struct {
	address string
	client  rest.Interface
	// used means that an answer of the server counted.
	used atomic.Bool
	// proven means that a read at the address in the config showed what this server had written: both have one etcd.
	proven atomic.Bool
}

// spread decides over which API servers the patches of a pass are spread: those that the epoch is known to cover. While
// they are the same, what is known about their load is kept.
func (s *Sweep) spread(epoch Epoch) {
	addresses := epoch.Addresses[:min(len(epoch.Addresses), maxSpread)]
	if s.options.SingleAddress || s.connect == nil || len(addresses) < 2 || s.wire.target.Origin == Aggregated {
		addresses = nil
	}
	if slices.EqualFunc(s.servers, addresses, func(a *server, b string) bool { return a.address == b }) {
		for _, one := range s.servers {
			one.proven.Store(false) // another process may have the address
		}
		return
	}
	servers := make([]*server, len(addresses))
	for i, address := range addresses {
		client, err := s.connect(address)
		if err != nil {
			s.log.Info("Patches are not spread over the API servers", "error", err)
			servers = nil
			break
		}
		servers[i] = &server{address: address, client: client}
	}
	s.update(func() { s.servers = servers })
	s.pacer.Spread(len(servers))
}

// serverOf returns the server that the requests of a slot go to; nil is the address in the config.
func (s *Sweep) serverOf(slot pace.Slot) *server {
	if slot.Server() == 0 {
		return nil
	}
	return s.servers[slot.Server()-1]
}

// at returns a wire to another server.
func (w *wire) at(by *server) *wire {
	other := *w
	other.client = by.client
	return &other
}

// counts reports whether the outcome of a patch through one of several API servers counts. If not, the patch has to be
// repeated at the address in the config, whose answer counts: one server's refusal may come from what it alone has not
// learned yet, such as a CRD, a namespace or a permission.
//
// An unchanged resourceVersion counts at once: it names the bytes that the list showed, and the server found that they
// are current. A new one counts if the server shares an etcd with the address in the config. Otherwise the object that
// was listed would still be what it was (I4).
func (s *Sweep) counts(starting untilStop, by *server, listed, after object, err error) (bool, error) {
	switch classify(err) {
	case fine:
	case missing, rejected, refused, unready, faulty, conflict, expired:
		return false, err
	case throttled, lost, untrusted, cancelled:
		return true, err
	}
	if after.resourceVersion != listed.resourceVersion && !by.proven.Load() {
		if shown, err := s.prove(starting, by, after); err != nil || !shown {
			return err != nil, err
		}
	}
	if !by.used.Swap(true) {
		s.update(func() {
			used := 0
			for _, one := range s.servers {
				if one.used.Load() {
					used++
				}
			}
			s.spreadOver = max(s.spreadOver, used)
		})
	}
	return true, nil
}

// prove reports whether the address in the config shows what a server has written. Reads of one object come from etcd,
// so they never go backwards where servers share one. Where they do, this run must not go on: the objects that it lists
// are not all that are stored. Where another client has written or deleted the object since, nothing is known.
func (s *Sweep) prove(starting untilStop, by *server, wrote object) (bool, error) {
	shown, err := s.read(starting, wrote)
	if classify(err) == missing {
		return false, nil
	}
	if err != nil || shown.uid != wrote.uid {
		return false, err
	}
	if shown.resourceVersion == wrote.resourceVersion {
		by.proven.Store(true)
		return true, nil
	}
	there := wrote
	if number(shown.resourceVersion) >= number(wrote.resourceVersion) {
		// One request without a repetition: if it fails, nothing is known.
		once, cancel := context.WithTimeout(starting, proveTimeout)
		defer cancel()
		there, err = s.wire.at(by).get(once, wrote)
		if err != nil || there.uid != wrote.uid || number(there.resourceVersion) >= number(shown.resourceVersion) {
			return false, nil
		}
	}
	return false, s.wire.untrusted(fmt.Errorf("it shows resourceVersion %s of %s, which has %s at %s: these API servers "+
		"do not share one etcd", printable.Quote(shown.resourceVersion), printable.Quote(wrote.key()),
		printable.Quote(there.resourceVersion), by.address))
}
