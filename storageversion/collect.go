// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
)

const (
	// collectEvery bounds how late a renewal is seen, and so by how much an entry outlasts its server's Lease.
	collectEvery = 5 * time.Second
	// collectSoon is when to look again after an object could not be written, and the shortest wait.
	collectSoon = 500 * time.Millisecond
	// emptyFor is how long an object stays that no server has an entry in: a server that starts creates it, and then
	// writes its entry.
	emptyFor = time.Minute
)

// Collector removes what crashed API servers leave in the StorageVersions of MigrationAPI: entries of servers whose
// identity Lease is gone or has expired, and objects without entries. The controller of kube-migrator runs one; servers
// need none.
//
// It never removes an entry of a live server:
//
//   - A server takes its Lease before it writes an entry. The Collector reads in the opposite order, the object first
//     and then the Lease, so a server whose entry it has read, and whose Lease it then does not find, has lost the
//     Lease.
//   - A server that takes the Lease after the Collector has read it writes the object before it takes writes, even if
//     its entry is there already. The Collector writes under the resourceVersion that it has read, so one of the two
//     fails: either the removal, or the write of the server, which then reads the object again.
//   - A Lease has expired once the Collector has seen it unchanged for its whole duration by its own clock. It does not
//     compare the times in a Lease with a clock. Its holder stops writing earlier (see Barrier).
//   - A server whose Lease may be in a namespace that cannot be read counts as live.
//
// An entry may be the only trace of what a crashed server wrote. So the Collector changes only objects that are
// recorded in the state in which it has read them.
//
// Its methods may not be called concurrently.
type Collector struct {
	api    *client
	census *census
	// recorded reports whether what an object says in a state is recorded; nil: it need not be.
	recorded func(resource schema.GroupResource, state string) bool
	// empty is since when objects have been without entries.
	empty observations
	// found means that the last pass found an object.
	found bool
	log   *slog.Logger
}

// Idle reports whether the last call of Collect found no object. There is nothing to collect then until one is created,
// so a caller that watches the objects may wait for that instead of the time that Collect has returned.
func (c *Collector) Idle() bool { return !c.found }

// NewCollector returns a Collector that sends its requests with config, which it does not change. It asks recorded
// whether a migrator has recorded the versions in the StorageVersion of a resource, as they were in a state: the
// object's UID, "/" and its resourceVersion. Until then it leaves the object alone, and looks at it again soon. nil
// records nothing, and removes at once. logger receives what is removed; nil discards it. NewCollector sends no
// request.
//
// It needs the permissions to get, list and delete storageversions (migration.k8s.io), to update
// storageversions/status, to get and list leases in kube-system, and to list leases in all namespaces.
func NewCollector(config *rest.Config, recorded func(resource schema.GroupResource, state string) bool,
	logger *slog.Logger) (*Collector, error) {
	api, err := newClient(config, maxRequestTimeout)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Collector{
		api: api, recorded: recorded, empty: observations{}, log: logger,
		census: &census{api: api, namespace: metav1.NamespaceSystem, everywhere: true, observed: observations{}},
	}, nil
}

// Collect looks at all objects once, and returns after which time to look again: an entry then goes within its Lease's
// duration, plus 5 seconds and the time of the requests. An error leaves some objects for the next call.
func (c *Collector) Collect(ctx context.Context) (next time.Duration, err error) {
	c.census.begin()
	c.empty.forget()
	c.found = true // until it is known
	seen := false
	query := url.Values{"limit": {objectsPerList}}
	var failed []error
	for {
		var list struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []object        `json:"items"`
		}
		if err := c.api.do(ctx, http.MethodGet, MigrationAPI.path(), query, nil, &list); err != nil {
			return collectEvery, errors.Join(append(failed, fmt.Errorf("list StorageVersions: %w", err))...)
		}
		seen = seen || len(list.Items) > 0
		for i := range list.Items {
			if err := c.collect(ctx, &list.Items[i]); err != nil {
				failed = append(failed, fmt.Errorf("collect garbage of StorageVersion %s: %w",
					list.Items[i].Metadata.Name, err))
			}
		}
		if list.Metadata.Continue == "" {
			break
		}
		query.Set("continue", list.Metadata.Continue)
	}
	c.found = seen
	if len(failed) > 0 {
		return collectSoon, errors.Join(failed...)
	}
	return max(collectSoon, min(collectEvery, c.census.next)), nil
}

// collect looks at one object, which was read before.
func (c *Collector) collect(ctx context.Context, read *object) error {
	path, err := apipath.Join(MigrationAPI.path(), read.Metadata.Name)
	if err != nil {
		return err
	}
	servers := read.Status.servers("")
	if len(servers) == 0 {
		return c.remove(ctx, path, read)
	}
	gone, err := c.census.gone(ctx, servers)
	if err != nil || len(gone) == 0 {
		return err
	}
	if !c.isRecorded(read) {
		c.census.next = 0
		return nil
	}
	next, _ := edit{gone: gone, updateTimes: true, now: time.Now().Truncate(timeUnit)}.apply(*read)
	read.TypeMeta = metav1.TypeMeta{APIVersion: string(MigrationAPI) + "/v1alpha1", Kind: "StorageVersion"}
	read.Status = next
	if err := c.api.do(ctx, http.MethodPut, path+"/status", nil, read, nil); err != nil {
		return ignoreMissing(err)
	}
	c.log.InfoContext(ctx, "Removed the entries of API servers that are gone", "storageVersion", read.Metadata.Name,
		"servers", gone)
	return nil
}

// isRecorded reports whether what the object says is recorded.
func (c *Collector) isRecorded(read *object) bool {
	return c.recorded == nil || c.recorded(ResourceOf(read.Metadata.Name),
		read.Metadata.UID+"/"+read.Metadata.ResourceVersion)
}

// remove deletes an object that no server has had an entry in for a while.
func (c *Collector) remove(ctx context.Context, path string, read *object) error {
	version := read.Metadata.UID + "/" + read.Metadata.ResourceVersion
	if c.empty.unchanged(read.Metadata.Name, version) < emptyFor || !c.isRecorded(read) {
		return nil
	}
	options := map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions",
		"preconditions": map[string]string{
			"uid": read.Metadata.UID, "resourceVersion": read.Metadata.ResourceVersion,
		},
	}
	if err := c.api.do(ctx, http.MethodDelete, path, nil, options, nil); err != nil {
		return ignoreMissing(err)
	}
	c.log.InfoContext(ctx, "Removed a StorageVersion without entries", "storageVersion", read.Metadata.Name)
	return nil
}

// ignoreMissing returns nil for an object that is gone.
func ignoreMissing(err error) error {
	if hasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}
