// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// observed asks each kube-apiserver for its own discovery document: at its own address or, if only one server lives, at
// the address in the kubeconfig.
type observed struct {
	*contacts
	client    *client
	processes *processes

	mu sync.Mutex
	// versions is each server's release by address, and publish says whether it publishes StorageVersions. Both are
	// valid for holders only.
	holders  []string
	versions map[string]string
	publish  map[string]bool
	// starts is when the process at each address started; zero for releases whose Leases show that.
	starts map[string]time.Time
}

func newObserved(c *client) *observed {
	return &observed{contacts: newContacts(c.timeout), client: c, processes: newProcesses(),
		versions: map[string]string{}, publish: map[string]bool{}, starts: map[string]time.Time{}}
}

// ask asks all servers at the same time. judge decides what the answers are worth.
func (o *observed) ask(ctx context.Context, q query) (snapshot.Survey, error) {
	servers, why := o.addresses(q.leases, q.endpoints)
	if why != "" {
		return snapshot.Survey{Why: why}, nil
	}
	replies := make([]reply, len(servers))
	var wg waitgroup.Group
	for i, s := range servers {
		wg.Go(func() { replies[i] = o.askOne(ctx, s, q) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return snapshot.Survey{}, ctx.Err() // this proves nothing about the addresses
	}
	var void error
	for i, r := range replies {
		if err := o.record(servers[i], r, time.Now()); err != nil && void == nil {
			void = fmt.Errorf("%w: ask %s: %w", migrate.ErrSilent, q.leases.NameOf(servers[i]), err)
		}
	}
	s := judge(replies)
	if void != nil {
		s.Evidence = 0
	}
	return s, void
}

// addresses returns where to ask each live kube-apiserver, with "" for the address in the kubeconfig; or why they
// cannot all be asked.
func (o *observed) addresses(l snapshot.Leases, e snapshot.Endpoints) (list []string, why string) {
	if o.client.unverified != "" {
		return nil, o.client.unverified
	}
	if why := countable(l, e); why != "" {
		return nil, why
	}
	switch {
	case len(e.Addresses) > maxServers:
		return nil, tooMany(len(e.Addresses))
	case len(l.Live) > 1:
		return e.Addresses, ""
	case len(l.Uncertain) == 0:
		return []string{""}, ""
	case len(e.Addresses) == 1: // the address in the kubeconfig may lead to a server that has departed
		return e.Addresses, ""
	}
	return nil, "an API server that departed may still answer at the only address"
}

// maxServers bounds how many processes are asked one by one (I6). With more, the evidence is at most Sampled. Anyone
// who may write EndpointSlices of a service controls their number.
const maxServers = 256

func tooMany(n int) string {
	return fmt.Sprintf("there are %d processes, and at most %d are asked one by one", n, maxServers)
}

// countable returns why it cannot be known whether all servers were asked, or "". Leases show how many servers live.
// The number of addresses must be the same: otherwise there is a server without a Lease (older than 1.26, or without
// APIServerIdentity), or one that cannot be asked. A single server may have no usable address, because the one in the
// kubeconfig leads to it.
func countable(l snapshot.Leases, e snapshot.Endpoints) string {
	switch live := len(l.Live); {
	case !l.Known:
		return l.Why
	case l.Doubled != "":
		return "two API servers with one host name share the identity Lease " + l.Doubled +
			" and cannot be told apart"
	case l.Alike != "":
		return l.Alike
	case live == 0:
		return "no API server has a fresh identity Lease"
	case !e.Known:
		return e.Why
	case len(e.Addresses) > live || live > 1 && len(e.Addresses) < live:
		return fmt.Sprintf("identity Leases show %s, but EndpointSlice default/kubernetes has %d",
			phrase.Count(live, "API server", "API servers"), len(e.Addresses))
	}
	return ""
}

// reply is what one server answered, or the error.
type reply struct {
	reading snapshot.Answer
	process process
	skipped bool
	err     error
}

// askOne asks the server at an address, or at the one in the kubeconfig if address is "".
func (o *observed) askOne(ctx context.Context, address string, q query) reply {
	channel, ok := o.channel(address)
	if !ok {
		return reply{skipped: true}
	}
	for range reconnects {
		body, over, err := channel.get(ctx, q.path)
		doc, err := parseDocument(body, err)
		if err != nil {
			return reply{err: err}
		}
		process, same, err := o.processes.behind(ctx, channel, over)
		if err != nil {
			return reply{err: err}
		}
		if same {
			o.learn(address, q.leases.Holders(), process)
			return reply{process: process, reading: snapshot.Answer{Server: o.nameOf(address, q.leases),
				Address: address, Document: doc, Started: process.started}}
		}
	}
	return reply{err: errors.New("its connections keep ending")}
}

// learn records what the server at an address has shown.
func (o *observed) learn(address string, holders []string, p process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.follow(holders)
	o.versions[address], o.starts[address] = p.release, p.started
}

// startsAt returns when the processes at the addresses started that have answered a look; zero for releases whose Leases
// show that.
func (o *observed) startsAt(l snapshot.Leases, e snapshot.Endpoints) map[string]time.Time {
	addresses, _ := o.addresses(l, e)
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.starts, func(address string, _ time.Time) bool { return !slices.Contains(addresses, address) })
	return maps.Clone(o.starts)
}

// channel returns the channel to the server at an address. ok is false while the address is not to be asked.
func (o *observed) channel(address string) (c channel, ok bool) {
	if address == "" {
		return channel{client: o.client, http: o.client.shared, base: o.client.address(""), shared: true,
			timeout: o.client.timeout}, true
	}
	timeout, ok := o.timeoutFor(address, time.Now())
	return o.client.channelTo(address, timeout), ok
}

// nameOf returns the name of the server at an address, for people.
func (o *observed) nameOf(address string, l snapshot.Leases) string {
	switch {
	case address != "":
		return l.NameOf(address)
	case l.Live[0].Host != "":
		return fmt.Sprintf("%s (%s)", l.Live[0].Host, o.client.base.Host)
	}
	return o.client.base.Host
}

// follow drops what was known about other processes.
func (o *observed) follow(holders []string) {
	if !slices.Equal(o.holders, holders) {
		o.holders = holders
		clear(o.versions)
		clear(o.publish)
	}
}

// publishedHook is the line in a kube-apiserver's answer to /livez?verbose which shows that the server publishes
// StorageVersions. It reports success once the server has published what it writes itself, and so has replaced the
// entries of its predecessor.
const publishedHook = "[+]poststarthook/built-in-resources-storage-version-updater ok"

// publishing returns why it is unknown whether each live kube-apiserver publishes StorageVersions, or "" if each does.
// It asks each process until the process says yes.
func (o *observed) publishing(ctx context.Context, l snapshot.Leases, e snapshot.Endpoints) (why string) {
	addresses, why := o.addresses(l, e)
	if why != "" {
		return why
	}
	for _, address := range addresses {
		o.mu.Lock()
		o.follow(l.Holders())
		known := o.publish[address]
		o.mu.Unlock()
		if known {
			continue
		}
		channel, ok := o.channel(address)
		if !ok {
			return o.nameOf(address, l) + " does not answer"
		}
		body, _, err := channel.get(ctx, "/livez?verbose")
		if err != nil || !bytes.Contains(body, []byte(publishedHook)) {
			return o.nameOf(address, l) + " does not publish StorageVersions, or has not begun to"
		}
		o.mu.Lock()
		if slices.Equal(o.holders, l.Holders()) {
			o.publish[address] = true
		}
		o.mu.Unlock()
	}
	return ""
}

// judge decides what the replies of all live servers are worth.
func judge(replies []reply) snapshot.Survey {
	r := snapshot.Survey{RestartsSeen: true}
	old, unread := map[string]bool{}, ""
	silent := 0
	for _, one := range replies {
		if one.skipped || one.err != nil {
			silent++
			continue
		}
		r.Answers = append(r.Answers, one.reading)
		if one.process.unread != "" {
			old[one.process.release], unread = true, one.process.unread
		}
	}
	r.How = "each asked at its own address"
	if len(replies) == 1 {
		r.How = "asked at the only address"
	}
	switch {
	case silent > 0:
		r.Why = fmt.Sprintf("%d of %d servers' own addresses do not answer", silent, len(replies))
		r.RestartsSeen = false
	case len(old) > 0:
		r.Why = fmt.Sprintf("API servers older than 1.%d do not show by their Leases that they were restarted (%s), and %s",
			snapshot.RestartsSeenFrom.Minor(), strings.Join(slices.Sorted(maps.Keys(old)), ", "), unread)
		r.RestartsSeen = false
	default:
		r.Evidence = migrate.Observed
	}
	return r
}
