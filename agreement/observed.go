// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// probeTimeout bounds a request to an address that has not answered yet: from outside a cluster, servers' own
	// addresses often lead nowhere, and a look should not wait long to find that out.
	probeTimeout = 2 * time.Second
	// probeAgainAfter is how long an address that did not answer is left alone.
	probeAgainAfter = time.Minute
	// missedFor is how long an address that used to answer may fail before evidence becomes weaker. Until then a
	// failure voids the look: one lost packet must not turn Observed into Sampled.
	missedFor = 30 * time.Second
)

// restartsSeenFrom is the first release whose servers replace their identity Lease when they start. Older ones keep
// the Lease, with the holderIdentity, of the process before them: it can have been restarted, twice even, with
// another storage version in between, and nothing would show it.
var restartsSeenFrom = version.MustParseGeneric("1.35.0")

// observed asks each kube-apiserver for its own discovery document: at its own address, or, where only one server lives,
// at the address in the kubeconfig.
type observed struct {
	client *client

	mu sync.Mutex
	// contacts is what is known about each address; versions, each server's release, valid for holders only.
	contacts map[string]contact
	holders  []string
	versions map[string]string
}

// contact is when an address answered last, and until when it is left alone because it did not.
type contact struct {
	answered, leaveUntil time.Time
}

func newObserved(c *client) *observed {
	return &observed{client: c, contacts: map[string]contact{}, versions: map[string]string{}}
}

// ask asks all servers at once. What the answers are worth is judge's to say.
func (o *observed) ask(ctx context.Context, q question) (report, error) {
	if q.target.Origin == migrate.Aggregated {
		return report{why: "an aggregated API server is asked through the kube-apiserver's proxy only"}, nil
	}
	if o.client.unverified != "" {
		return report{why: o.client.unverified}, nil
	}
	if why := countable(q.leases, q.endpoints); why != "" {
		return report{why: why}, nil
	}
	servers := q.endpoints.addresses
	if len(q.leases.live) == 1 {
		servers = []string{""} // the address in the kubeconfig
	}
	replies := make([]reply, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { replies[i] = o.askOne(ctx, s, q) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return report{}, ctx.Err() // says nothing about the addresses
	}
	for i, r := range replies {
		if err := o.record(servers[i], r, time.Now()); err != nil {
			return report{}, fmt.Errorf("ask API server %s: %w", q.leases.nameOf(servers[i]), err)
		}
	}
	return judge(replies), nil
}

// countable returns why it cannot be known whether all servers were asked. Leases tell how many live; the addresses
// must be no other number, or a server lives that has no Lease (older than 1.26, or without APIServerIdentity), or
// one cannot be asked. A single server may have no usable address: the one in the kubeconfig will do.
func countable(l leases, e endpoints) string {
	switch live := len(l.live); {
	case !l.known:
		return l.why
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
	answer  answer
	release string
	skipped bool
	err     error
}

// askOne asks the server at an address, "" for the one in the kubeconfig.
func (o *observed) askOne(ctx context.Context, address string, q question) reply {
	get := func(path string) ([]byte, error) {
		body, _, err := o.client.get(ctx, path)
		return body, err
	}
	name := o.client.base.Host
	if address == "" && q.leases.live[0].host != "" {
		name = fmt.Sprintf("%s (%s)", q.leases.live[0].host, name)
	}
	if address != "" {
		timeout, ok := o.timeoutFor(address, time.Now())
		if !ok {
			return reply{skipped: true}
		}
		name = q.leases.nameOf(address)
		get = func(path string) ([]byte, error) { return o.client.getOwn(ctx, address, path, timeout) }
	}
	body, err := get(discoveryPath(q.target.Resource.GroupVersion()))
	a, err := parseAnswer(name, q.target.Resource.Resource, body, err)
	if err != nil {
		return reply{err: err}
	}
	release, err := o.release(address, q.leases.holders(), get)
	return reply{answer: a, release: release, err: err}
}

// release returns the server's version. It is asked once per set of processes: from restartsSeenFrom on, another
// release at the same address is another process in another set.
func (o *observed) release(address string, holders []string, get func(string) ([]byte, error)) (string, error) {
	o.mu.Lock()
	if !slices.Equal(o.holders, holders) {
		o.holders = holders
		clear(o.versions)
	}
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

// timeoutFor returns how long to wait for an address; ok is false while it is left alone.
func (o *observed) timeoutFor(address string, now time.Time) (timeout time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.contacts[address]
	if now.Before(c.leaveUntil) {
		return 0, false
	}
	if c.answered.IsZero() {
		return min(probeTimeout, o.client.timeout), true
	}
	return o.client.timeout, true
}

// record remembers how an address did. The error it returns voids the look.
func (o *observed) record(address string, r reply, now time.Time) error {
	if address == "" {
		return r.err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.contacts[address]
	switch {
	case r.skipped:
	case r.err == nil:
		o.contacts[address] = contact{answered: now}
	case busy(r.err), now.Sub(c.answered) < missedFor:
		return r.err
	default:
		o.contacts[address] = contact{leaveUntil: now.Add(probeAgainAfter)}
	}
	return nil
}

// busy reports whether a server answered that it cannot answer now. One that refuses our credentials, which may be meant
// for a proxy at the address in the kubeconfig, counts as one that does not answer.
func busy(err error) bool {
	code := statusOf(err)
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// judge says what the replies of all live servers are worth.
func judge(replies []reply) report {
	r := report{restartsSeen: true}
	old := map[string]bool{}
	silent := 0
	for _, one := range replies {
		if one.skipped || one.err != nil {
			silent++
			continue
		}
		r.answers = append(r.answers, one.answer)
		if v, err := version.ParseGeneric(one.release); err != nil || v.LessThan(restartsSeenFrom) {
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
