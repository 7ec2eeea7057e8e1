// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

const (
	// conflicts is how often one publication begins again because the object was written in between. The next pass
	// tries again.
	conflicts = 12
	// firstWait is how long the wait after a failure is at first. It doubles.
	firstWait = 100 * time.Millisecond
	// timeUnit is the resolution of times in a status: a touch within it would change nothing.
	timeUnit = time.Second
	// objectsPerList bounds one page of StorageVersions (I6).
	objectsPerList = "100"
)

// publication writes the entries of one server.
type publication struct {
	api       *client
	group     API
	id        string
	component string
	entries   map[schema.GroupResource]*entryFields
	order     []schema.GroupResource
	gate      *gate
	census    *census
	// written is the period of membership in which an entry was last written.
	written map[schema.GroupResource]int
	// swept is the period of membership in which no other object had an entry of this server.
	swept int
}

// pass publishes every resource, or confirms that its entry stands.
func (p *publication) pass(ctx context.Context) error {
	p.census.begin()
	var failed []error
	for _, r := range p.order {
		generation := p.gate.period()
		if generation == 0 {
			return errors.Join(append(failed, errNoMember)...)
		}
		if err := p.publish(ctx, r, generation); err != nil {
			failed = append(failed, fmt.Errorf("publish the storage version of %s: %w", r, err))
			p.gate.doubt(r, err)
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	if err := p.bury(ctx); err != nil {
		return err
	}
	return p.sweep(ctx)
}

// sweep withdraws the entries that an earlier process with the same ID left for resources that this one does not store.
// While the Lease is renewed no one else would.
func (p *publication) sweep(ctx context.Context) error {
	generation := p.gate.period()
	if generation == 0 || p.swept == generation {
		return nil
	}
	query := url.Values{"limit": {objectsPerList}}
	for {
		var list struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []object        `json:"items"`
		}
		if err := p.api.do(ctx, http.MethodGet, p.group.path(), query, nil, &list); err != nil {
			return fmt.Errorf("list StorageVersions: %w", err)
		}
		for i := range list.Items {
			if err := p.sweepOne(ctx, &list.Items[i], generation); err != nil {
				return err
			}
		}
		if list.Metadata.Continue == "" {
			p.swept = generation
			return nil
		}
		query.Set("continue", list.Metadata.Continue)
	}
}

func (p *publication) sweepOne(ctx context.Context, found *object, generation int) error {
	stored := slices.ContainsFunc(
		p.order, func(r schema.GroupResource) bool { return ObjectName(r) == found.Metadata.Name },
	)
	if stored || found.Status.find(p.id) == nil {
		return nil
	}
	path, err := apipath.Join(p.group.path(), found.Metadata.Name)
	if err == nil {
		err = p.withdraw(ctx, path, generation)
	}
	if err != nil {
		return fmt.Errorf("withdraw the entry of an earlier process from %s: %w", found.Metadata.Name, err)
	}
	return nil
}

// publish brings one object up to date, in the order that the KEP gives: it reads the object, then the members, and
// writes under the resourceVersion that it read.
func (p *publication) publish(ctx context.Context, r schema.GroupResource, generation int) error {
	path, err := p.path(r)
	if err != nil {
		return err
	}
	wait := firstWait / 10
	for range conflicts {
		done, err := p.once(ctx, r, path, generation)
		if done || err != nil && !hasStatus(err, http.StatusConflict) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
	return fmt.Errorf("the object was written by others %d times in a row", conflicts)
}

// once is one attempt. The gate opens only for an answer that shows the entry.
func (p *publication) once(ctx context.Context, r schema.GroupResource, path string,
	generation int) (done bool, err error) {
	if err := p.fence(generation); err != nil {
		return false, err
	}
	own, start := p.entries[r], time.Now()
	read, err := p.read(ctx, r, path)
	if err != nil {
		return false, err
	}
	if !read.Status.publishes(own) {
		p.gate.revoke(r, errors.New("the object does not have it"))
	}
	gone, err := p.census.gone(ctx, read.Status.servers(p.id))
	if err != nil {
		return false, fmt.Errorf("find out who is a member: %w", err)
	}
	// A server that looked at the object and the Leases before this process was a member may be about to drop the entry
	// that an earlier process left. It writes under the resourceVersion that it read, so a first write of our own stops
	// it.
	first := p.written[r] != generation
	next, changed := edit{
		own: own, id: p.id, gone: gone, updateTimes: p.group == MigrationAPI, touch: first,
		now: time.Now().Truncate(timeUnit),
	}.apply(read)
	switch {
	case !changed && !first:
		p.gate.confirm(r, start, generation)
		return true, nil
	case !changed: // this API has no field that a touch could change
		_, err := p.write(ctx, path, read, edit{id: p.id, now: time.Now()})
		return false, err
	}
	start = time.Now()
	written, err := p.put(ctx, path, read, next)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return false, nil // removed since it was read
	case err != nil:
		return false, err
	case !written.Status.publishes(own):
		return false, errors.New("the API server took the object without the entry")
	case first && written.Metadata.ResourceVersion == read.Metadata.ResourceVersion:
		return false, pause(ctx, timeUnit) // touched within the same second
	}
	p.written[r] = generation
	p.gate.confirm(r, start, generation)
	return true, nil
}

// fence returns an error unless the Lease is this process's for long enough to read an object. A later process with the
// same ID takes the Lease after that, and then writes every object, so what this process writes under the
// resourceVersion that it read is refused.
func (p *publication) fence(generation int) error {
	if generation == 0 || p.gate.period() != generation {
		return errNoMember
	}
	return nil
}

var errNoMember = errors.New("the identity Lease is not held")

// read returns the object, and creates it where there is none.
func (p *publication) read(ctx context.Context, r schema.GroupResource, path string) (object, error) {
	var read object
	err := p.api.do(ctx, http.MethodGet, path, nil, nil, &read)
	if !hasStatus(err, http.StatusNotFound) {
		return read, err
	}
	created := object{TypeMeta: p.kind(), Metadata: metadata{Name: ObjectName(r)}}
	return read, p.api.do(ctx, http.MethodPost, p.group.path(), nil, created, &read)
}

func (p *publication) write(ctx context.Context, path string, read object, e edit) (object, error) {
	next, changed := e.apply(read)
	if !changed {
		return read, nil
	}
	return p.put(ctx, path, read, next)
}

// put writes a status under the resourceVersion that was read.
func (p *publication) put(ctx context.Context, path string, read object, next status) (written object, err error) {
	read.TypeMeta, read.Status = p.kind(), next
	return written, p.api.do(ctx, http.MethodPut, path+"/status", nil, read, &written)
}

// withdraw removes the entry of this server from one object.
func (p *publication) withdraw(ctx context.Context, path string, generation int) error {
	wait := firstWait / 10
	for range conflicts {
		if err := p.fence(generation); err != nil {
			return err
		}
		var read object
		err := p.api.do(ctx, http.MethodGet, path, nil, nil, &read)
		if hasStatus(err, http.StatusNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if read.Status.find(p.id) == nil {
			return nil
		}
		_, err = p.write(ctx, path, read, edit{id: p.id, updateTimes: p.group == MigrationAPI, now: time.Now()})
		if err == nil || hasStatus(err, http.StatusNotFound) {
			return nil
		}
		if !hasStatus(err, http.StatusConflict) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
	return fmt.Errorf("the object was written by others %d times in a row", conflicts)
}

// withdrawAll removes all entries of this server.
func (p *publication) withdrawAll(ctx context.Context) error {
	var failed []error
	generation := p.gate.period()
	for _, r := range p.order {
		path, err := p.path(r)
		if err == nil {
			err = p.withdraw(ctx, path, generation)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("withdraw the storage version of %s: %w", r, err))
		}
	}
	return errors.Join(failed...)
}

// bury deletes the Leases of crashed servers of this kind. The pass has dropped their entries from the objects of this
// server.
func (p *publication) bury(ctx context.Context) error {
	for path, lease := range p.census.expired {
		if lease.Name == p.id || lease.Labels[identity.Label] != p.component {
			continue
		}
		if err := deleteLease(ctx, p.api, path, lease); err != nil {
			return fmt.Errorf("delete the expired identity Lease %s: %w", lease.Name, err)
		}
	}
	return nil
}

func (p *publication) path(r schema.GroupResource) (string, error) {
	return apipath.Join(p.group.path(), ObjectName(r))
}

func (p *publication) kind() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: string(p.group) + "/v1alpha1", Kind: "StorageVersion"}
}

// ObjectName returns the name of the StorageVersion of a resource: <group>.<resource>, with "core" for the core group.
func ObjectName(r schema.GroupResource) string {
	if r.Group == "" {
		return "core." + r.Resource
	}
	return r.Group + "." + r.Resource
}

// ResourceOf returns the resource that a StorageVersion of a name is about. It is the inverse of ObjectName: no plural
// name has a dot.
func ResourceOf(name string) schema.GroupResource {
	at := strings.LastIndexByte(name, '.')
	r := schema.GroupResource{Group: name[:max(at, 0)], Resource: name[at+1:]}
	if r.Group == "core" {
		r.Group = ""
	}
	return r
}

func byName(a, b schema.GroupResource) int { return strings.Compare(ObjectName(a), ObjectName(b)) }

// pause waits for about as long as it is told, between half and the whole: servers that start at once should not meet
// again.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
