// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// comparisonsPerLook bounds how many collections a look reads in turn. Each of n resources that are not custom ones
	// is read within n/comparisonsPerLook looks, even if nothing changes.
	comparisonsPerLook = 16
	// comparisonsAtOnce bounds the requests in flight.
	comparisonsAtOnce = 8
	comparisonTimeout = 10 * time.Second
	// deniedFor is how long a collection that the installation excludes is not asked for again after the account was
	// forbidden to list it: install grants that only for what it includes.
	deniedFor = time.Hour
)

// collection says where the collection of one resource is read.
type collection struct {
	// path lists the collection; small lists a part of it and selects no object. Both are empty if the path is unknown,
	// and then nothing is read.
	path, small string
	// main means that the collection is in the etcd which holds the StorageStates. All custom resources are:
	// kube-apiserver cannot be given a separate etcd for them.
	main bool
	// aggregated means that its API servers are not kube-apiservers.
	aggregated bool
	// excluded means that the installation excludes the resource.
	excluded bool
}

// comparer reads the positions of the etcds of resources. Its fields only decide when a collection is read next.
type comparer struct {
	rest rest.Interface
	// collections are those of the last look, by name of the StorageState.
	collections map[string]collection
	// compared says which API servers existed when a collection was read last. They are restarted after an etcd is
	// restored, so a collection is due again as soon as they differ.
	compared map[string]string
	// namespace is that of the installation. denied contains the resources that this account is forbidden to list.
	namespace string
	denied    sync.Map
	// closed says since when excluded resources are known that this account cannot list in any way.
	closed sync.Map
	// turn is the name after which the next look continues.
	turn string
	// shared says which resources have been seen to be in the main etcd, by name of the StorageState; see share.
	shared map[string]bool
	// positions are those of the main etcd that were read lately.
	positions []reading
}

// reading is a position, and when it had been read.
type reading struct {
	version uint64
	at      time.Time
}

// leases is the name of the resource whose watch shows which API servers live.
const leases = "leases.coordination.k8s.io"

// unseen is longer than a process may write without a Lease that a look sees: 10 seconds, after a suspension.
const unseen = 30 * time.Second

// note remembers a position of the main etcd that was read by now, and forgets those that no later look needs.
func (c *comparer) note(version uint64, now time.Time) {
	c.positions = append(c.positions, reading{version, now})
	for len(c.positions) > 1 && now.Sub(c.positions[1].at) >= unseen {
		c.positions = c.positions[1:]
	}
}

// newest returns the position of the main etcd that was read last, or 0.
func (c *comparer) newest() uint64 {
	if len(c.positions) == 0 {
		return 0
	}
	return c.positions[len(c.positions)-1].version
}

// reached returns the position of the main etcd for ledger.Look.Reached, or 0: one that had been read long enough before
// a look began. now is the present position, and watched the one up to which identity Leases are watched.
func (c *comparer) reached(began time.Time, now, watched uint64) (version uint64) {
	for _, r := range c.positions {
		if began.Sub(r.at) >= unseen && r.version <= min(now, watched) {
			version = r.version
		}
	}
	return version
}

// share finds out which resources are in the main etcd, from the positions of their collections and those of the main
// etcd that were read before and after: an etcd of its own counts its own writes. One that was ever elsewhere is not
// shared, whatever later positions are.
func (c *comparer) share(found map[string]ledger.Collection, before, after uint64) {
	if c.shared == nil {
		c.shared = map[string]bool{}
	}
	for name, one := range found {
		at := c.collections[name]
		was, known := c.shared[name]
		switch {
		case at.main || at.aggregated:
			one.Shared = at.main
		case before == 0 || after == 0: // nothing was learnt
			one.Shared = was
		default:
			one.Shared = (was || !known) && one.ResourceVersion >= before && one.ResourceVersion <= after
		}
		c.shared[name], found[name] = one.Shared, one
	}
}

// collectionOf returns where a resource is listed.
func collectionOf(r *resource, namespace string) collection {
	c := collection{main: r.view.Origin == migrate.Custom, aggregated: r.view.Origin == migrate.Aggregated}
	if r.entry == nil || r.entry.Endpoint == "" {
		return c
	}
	if !r.entry.Namespaced {
		namespace = "" // in a namespace the API server looks up one key instead of reading all objects
	}
	resource := r.entry.WithVersion(r.entry.Endpoint)
	path, err := apipath.Collection(resource, "")
	small, smallErr := apipath.Collection(resource, namespace)
	// a path that leads elsewhere is never read (I3), and nothing about its resource is proven
	if err == nil && smallErr == nil {
		c.path, c.small = path, small
	}
	return c
}

// read returns the position of each of the named collections, without those that it cannot read. main is the position
// of the etcd that holds the StorageStates. The requests carry no resourceVersion, so the API server answers from etcd.
func (c *comparer) read(ctx context.Context, names []string, main uint64) (map[string]ledger.Collection, error) {
	var (
		mu       sync.Mutex
		wg       sync.WaitGroup
		problems []error
		next     = make(chan string)
		found    = map[string]ledger.Collection{}
	)
	for range min(comparisonsAtOnce, len(names)) {
		wg.Go(func() {
			for name := range next {
				at := c.collections[name]
				one, err := ledger.Collection{ResourceVersion: main}, error(nil)
				if !at.main {
					one, err = c.readOne(ctx, name, at)
				}
				mu.Lock()
				if err != nil {
					problems = append(problems, fmt.Errorf("list one of %s: %w", name, err))
				} else if one.ResourceVersion != 0 {
					found[name] = one
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
	after := main
	for name := range found {
		if main != 0 && !c.collections[name].main {
			after, _ = c.mainPosition(ctx) // 0 if it cannot be read
			break
		}
	}
	c.share(found, main, after)
	return found, errors.Join(problems...)
}

// mainPosition returns the position of the main etcd.
func (c *comparer) mainPosition(ctx context.Context) (uint64, error) {
	path, err := apipath.Collection(v1alpha1.SchemeGroupVersion.WithResource("storagestates"), "")
	if err != nil {
		return 0, err
	}
	main, err := c.list(ctx, path, "")
	if err != nil {
		return 0, fmt.Errorf("list StorageStates: %w", err)
	}
	return main.ResourceVersion, nil
}

// readOne lists one object; or no object, and then without a witness, if the account is forbidden to list, or if the
// name of the first object makes the answer too large, because the continue token repeats it. It returns zero if nothing
// can be listed, or if the resource is excluded and listing it is forbidden: nothing about it is proven then.
func (c *comparer) readOne(ctx context.Context, name string, at collection) (ledger.Collection, error) {
	if at.path == "" {
		return ledger.Collection{}, nil
	}
	if since, closed := c.closed.Load(name); closed && at.excluded && time.Since(since.(time.Time)) < deniedFor {
		return ledger.Collection{}, nil
	}
	if _, denied := c.denied.Load(name); !denied {
		found, err := c.list(ctx, at.path, "")
		switch {
		case apierrors.IsForbidden(err):
			c.denied.Store(name, true)
		case !errors.Is(err, bounded.ErrTooLarge):
			return found, err
		}
	}
	found, err := c.list(ctx, at.small, "metadata.name="+inventory.NoObject)
	if apierrors.IsForbidden(err) && at.excluded {
		c.closed.Store(name, time.Now())
		return ledger.Collection{}, nil
	}
	return found, err
}

func (c *comparer) list(ctx context.Context, path, fieldSelector string) (ledger.Collection, error) {
	ctx, cancel := context.WithTimeout(ctx, comparisonTimeout)
	defer cancel()
	// Metadata only (I9): an API server that does not know that form answers 406.
	request := c.rest.Get().AbsPath(path).Param("limit", "1").MaxRetries(1).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	if fieldSelector != "" {
		request = request.Param("fieldSelector", fieldSelector)
	}
	raw, err := bounded.Read(bounded.WithLimit(ctx, bounded.ObjectMetadata), request)
	if err != nil {
		return ledger.Collection{}, err
	}
	return parseCollection(raw)
}

// parseCollection parses a list of metadata. It returns an error if the resourceVersion is not a number, because that
// cannot be compared. It is pure.
func parseCollection(raw []byte) (ledger.Collection, error) {
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return ledger.Collection{}, fmt.Errorf("decode list: %w", err)
	}
	version, err := strconv.ParseUint(list.Metadata.ResourceVersion, 10, 64)
	if err != nil || version == 0 {
		return ledger.Collection{}, fmt.Errorf("the collection's resourceVersion %q cannot be compared",
			list.Metadata.ResourceVersion)
	}
	c := ledger.Collection{ResourceVersion: version}
	if len(list.Items) > 0 {
		first := &list.Items[0].Metadata
		if own, err := strconv.ParseUint(first.ResourceVersion, 10, 64); err == nil && first.UID != "" {
			c.Witness = ledger.Witness{UID: first.UID, ResourceVersion: own}
		}
	}
	return c, nil
}

// due returns the resources whose collections a look reads, sorted:
//   - custom resources, which cost nothing;
//   - resources that were not read since the API servers changed;
//   - resources of aggregated API servers, whose restarts no one watches;
//   - resources for which a proof is waiting;
//   - a few of the others in turn.
func (c *comparer) due(s *observation) []string {
	servers := s.servers()
	var names, others []string
	for name, r := range s.resources {
		state := s.states[name]
		switch {
		case r.view.Origin != migrate.BuiltIn, state == nil, state.Status.ResourceVersion == "", s.waits(r, state),
			s.round.Processes == nil, c.compared[name] != servers:
			names = append(names, name)
		default:
			others = append(others, name)
		}
	}
	slices.Sort(others)
	next, _ := slices.BinarySearch(others, c.turn+"\x00")
	others = append(slices.Clone(others[next:]), others[:next]...)
	if others = others[:min(len(others), comparisonsPerLook)]; len(others) > 0 {
		c.turn = others[len(others)-1]
	}
	names = append(names, others...)
	slices.Sort(names)
	return names
}

// waits reports whether a migration has succeeded whose proof the state does not have yet.
func (s *observation) waits(r *resource, state *v1alpha1.StorageState) bool {
	return len(proofsOf(s.migrations.of(r.names), r.names)) > 0 && !recorded(&state.Status).Migrated()
}

// servers identifies the API servers that a look found, and those that have existed. If it differs from an earlier
// value, a server was restarted.
func (s *observation) servers() string {
	return strings.Join(slices.Concat(s.round.Processes, s.traces.left), "\n")
}

// mainEtcd is what this process has seen of the etcd that holds the StorageStates. If that etcd is restored, the States
// go back with it and cannot show it; a process that read them earlier can. It is safe for concurrent use.
type mainEtcd struct {
	mu    sync.Mutex
	known mainVersions
}

// mainVersions is what a process had seen at one moment.
type mainVersions struct {
	newest uint64            // the greatest resourceVersion of the collection
	states map[string]uint64 // that of each StorageState, by name; one that is created again has a greater one
}

// now returns what has been seen. An answer has to be compared with what had been seen before its request was sent: it
// may lack what was written in the meantime, although nothing was restored.
func (m *mainEtcd) now() mainVersions {
	m.mu.Lock()
	defer m.mu.Unlock()
	return mainVersions{newest: m.known.newest, states: maps.Clone(m.known.states)}
}

// next adds the answer to a request for the whole collection that was sent after before was returned. It reports
// whether the answer is older than before. version is the resourceVersion of the collection; 0 is ignored.
func (m *mainEtcd) next(before mainVersions, version uint64, states map[string]*v1alpha1.StorageState) (restored bool) {
	restored = version != 0 && version < before.newest
	for _, state := range states {
		m.saw(state)
		restored = restored || versionOf(state) != 0 && versionOf(state) < before.states[state.Name]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known.newest = max(m.known.newest, version)
	return restored
}

// saw adds a StorageState that was read or written.
func (m *mainEtcd) saw(state *v1alpha1.StorageState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known.states == nil {
		m.known.states = map[string]uint64{}
	}
	m.known.states[state.Name] = max(m.known.states[state.Name], versionOf(state))
}

// versionOf returns the resourceVersion of a StorageState, or 0 if it is unknown.
func versionOf(state *v1alpha1.StorageState) uint64 {
	version, err := strconv.ParseUint(state.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
