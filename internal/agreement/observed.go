// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// restartsSeenFrom is the first release whose servers replace their identity Lease when they start. Older ones keep
// the Lease, with the holderIdentity, of the process before them: it can have been restarted, twice even, with
// another storage version in between, and nothing would show it.
var restartsSeenFrom = version.MustParseGeneric("1.35.0")

// ShowsRestarts reports whether kube-apiservers of a release, such as "v1.37.0", replace their identity Lease when they
// start, as those from 1.35 on do. Evidence about others is Sampled at best, however they are asked. A release that
// cannot be parsed counts as one of those.
func ShowsRestarts(release string) bool {
	v, err := version.ParseGeneric(release)
	return err == nil && !v.LessThan(restartsSeenFrom)
}

// observed asks each kube-apiserver for its own discovery document: at its own address, or, where only one server
// lives, at the address in the kubeconfig.
type observed struct {
	*contacts
	client *client

	mu sync.Mutex
	// versions is each server's release, by address, and publish whether it publishes StorageVersions; valid for
	// holders only.
	holders  []string
	versions map[string]string
	publish  map[string]bool
}

func newObserved(c *client) *observed {
	return &observed{contacts: newContacts(c.timeout), client: c, versions: map[string]string{},
		publish: map[string]bool{}}
}

// ask asks all servers at once. What the answers are worth is judge's to say.
func (o *observed) ask(ctx context.Context, q question) (survey, error) {
	servers, why := o.addresses(q.leases, q.endpoints)
	if why != "" {
		return survey{why: why}, nil
	}
	replies := make([]reply, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { replies[i] = o.askOne(ctx, s, q) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return survey{}, ctx.Err() // says nothing about the addresses
	}
	var void error
	for i, r := range replies {
		if err := o.record(servers[i], r, time.Now()); err != nil && void == nil {
			void = fmt.Errorf("%w: ask %s: %w", migrate.ErrSilent, q.leases.nameOf(servers[i]), err)
		}
	}
	s := judge(replies)
	if void != nil {
		s.evidence = 0
	}
	return s, void
}

// addresses are where each live kube-apiserver is asked, "" for the address in the kubeconfig; or why they cannot all
// be.
func (o *observed) addresses(l leases, e endpoints) (list []string, why string) {
	if o.client.unverified != "" {
		return nil, o.client.unverified
	}
	if why := countable(l, e); why != "" {
		return nil, why
	}
	switch {
	case len(e.addresses) > maxServers:
		return nil, tooMany(len(e.addresses))
	case len(l.live) > 1:
		return e.addresses, ""
	case len(l.uncertain) == 0:
		return []string{""}, ""
	case len(e.addresses) == 1: // the one in the kubeconfig may lead to a server that departed
		return e.addresses, ""
	}
	return nil, "an API server that departed may still answer at the only address"
}

// maxServers bounds the processes that are asked one by one (I6): of more, evidence is Sampled at best. Who may write
// EndpointSlices of a service says how many there are.
const maxServers = 256

func tooMany(n int) string {
	return fmt.Sprintf("there are %d processes, and at most %d are asked one by one", n, maxServers)
}

// countable returns why it cannot be known whether all servers were asked. Leases tell how many live; the addresses
// must be no other number, or a server lives that has no Lease (older than 1.26, or without APIServerIdentity), or
// one cannot be asked. A single server may have no usable address: the one in the kubeconfig will do.
func countable(l leases, e endpoints) string {
	switch live := len(l.live); {
	case !l.known:
		return l.why
	case l.doubled != "":
		return "two API servers of one host name renew the identity Lease " + l.doubled +
			": one of them cannot be told from the other"
	case l.alike != "":
		return l.alike
	case live == 0:
		return "no API server has a fresh identity Lease"
	case !e.known:
		return e.why
	case len(e.addresses) > live || live > 1 && len(e.addresses) < live:
		return fmt.Sprintf("%s live by their identity Leases, but EndpointSlice default/kubernetes has %d",
			plural(live, "API server", "API servers"), len(e.addresses))
	}
	return ""
}

// reply is what one server said, or that it said nothing.
type reply struct {
	reading reading
	release string
	skipped bool
	err     error
}

// askOne asks the server at an address, "" for the one in the kubeconfig.
func (o *observed) askOne(ctx context.Context, address string, q question) reply {
	get, ok := o.getter(ctx, address)
	if !ok {
		return reply{skipped: true}
	}
	doc, err := parseDocument(get(q.path))
	if err != nil {
		return reply{err: err}
	}
	release, err := o.release(address, q.leases.holders(), get)
	return reply{reading: reading{server: o.nameOf(address, q.leases), address: address, document: doc},
		release: release, err: err}
}

// getter returns the function that reads a path from the server at an address; ok is false while that is left alone.
func (o *observed) getter(ctx context.Context, address string) (get func(path string) ([]byte, error), ok bool) {
	if address == "" {
		return func(path string) ([]byte, error) {
			body, _, err := o.client.get(ctx, path)
			return body, err
		}, true
	}
	timeout, ok := o.timeoutFor(address, time.Now())
	return func(path string) ([]byte, error) { return o.client.getOwn(ctx, address, path, timeout) }, ok
}

// nameOf names the server at an address for people.
func (o *observed) nameOf(address string, l leases) string {
	switch {
	case address != "":
		return l.nameOf(address)
	case l.live[0].host != "":
		return fmt.Sprintf("%s (%s)", l.live[0].host, o.client.base.Host)
	}
	return o.client.base.Host
}

// release returns the server's version. It is asked once per set of processes: from restartsSeenFrom on, another
// release at the same address is another process in another set.
func (o *observed) release(address string, holders []string, get func(string) ([]byte, error)) (string, error) {
	o.mu.Lock()
	o.follow(holders)
	known, ok := o.versions[address]
	o.mu.Unlock()
	if ok {
		return known, nil
	}
	body, err := get("/version")
	if err != nil {
		return "", err
	}
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return "", fmt.Errorf("decode version: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Equal(o.holders, holders) {
		o.versions[address] = info.GitVersion
	}
	return info.GitVersion, nil
}

// follow forgets what was known of other processes.
func (o *observed) follow(holders []string) {
	if !slices.Equal(o.holders, holders) {
		o.holders = holders
		clear(o.versions)
		clear(o.publish)
	}
}

// publishedHook is the check, in the answer of a kube-apiserver to /livez?verbose, that is there if the server
// publishes StorageVersions, and succeeds once it has published what it writes itself: what the process before it left
// behind is gone then.
const publishedHook = "[+]poststarthook/built-in-resources-storage-version-updater ok"

// publishing returns why it is not known that each live kube-apiserver publishes StorageVersions; "" where it is. Each
// process is asked until it says yes.
func (o *observed) publishing(ctx context.Context, l leases, e endpoints) (why string) {
	addresses, why := o.addresses(l, e)
	if why != "" {
		return why
	}
	for _, address := range addresses {
		o.mu.Lock()
		o.follow(l.holders())
		known := o.publish[address]
		o.mu.Unlock()
		if known {
			continue
		}
		get, ok := o.getter(ctx, address)
		if !ok {
			return o.nameOf(address, l) + " does not answer"
		}
		body, err := get("/livez?verbose")
		if err != nil || !bytes.Contains(body, []byte(publishedHook)) {
			return o.nameOf(address, l) + " does not publish StorageVersions, or has not begun to"
		}
		o.mu.Lock()
		if slices.Equal(o.holders, l.holders()) {
			o.publish[address] = true
		}
		o.mu.Unlock()
	}
	return ""
}

// judge says what the replies of all live servers are worth.
func judge(replies []reply) survey {
	r := survey{restartsSeen: true}
	old := map[string]bool{}
	silent := 0
	for _, one := range replies {
		if one.skipped || one.err != nil {
			silent++
			continue
		}
		r.readings = append(r.readings, one.reading)
		if !ShowsRestarts(one.release) {
			old[one.release] = true
		}
	}
	r.how = "each asked at its own address"
	if len(replies) == 1 {
		r.how = "asked at the only address"
	}
	switch {
	case silent > 0:
		r.why = fmt.Sprintf("%d of %d servers' own addresses do not answer", silent, len(replies))
		r.restartsSeen = false
	case len(old) > 0:
		r.why = fmt.Sprintf("API servers older than 1.%d do not show that they were restarted (%s)",
			restartsSeenFrom.Minor(), strings.Join(slices.Sorted(maps.Keys(old)), ", "))
		r.restartsSeen = false
	default:
		r.evidence = migrate.Observed
	}
	return r
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
