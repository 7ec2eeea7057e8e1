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
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// comparisonsPerLook bounds the collections that a look reads because it is their turn. With n resources that are
	// not custom ones, each is read within n/comparisonsPerLook looks, also where nothing moves.
	comparisonsPerLook = 16
	// comparisonsAtOnce bounds the requests in flight.
	comparisonsAtOnce = 8
	comparisonTimeout = 10 * time.Second
)

// collection is where the collection of one resource is read.
type collection struct {
	// path lists it, small a part of it without a single object; empty where it is not known, and nothing is read.
	path, small string
	// main: it is in the etcd that holds the StorageStates, as all custom resources are: kube-apiserver knows no etcd
	// of their own for them.
	main bool
	// aggregated: its API servers are not kube-apiservers.
	aggregated bool
}

// comparer reads how far the etcds of resources have come. What it keeps decides only when a collection is read next.
type comparer struct {
	rest rest.Interface
	// collections are those of the last look, by the names of StorageStates.
	collections map[string]collection
	// compared says which API servers were there when a collection was read last. They are restarted after an etcd was
	// restored, so that a collection is due as soon as they are not the same.
	compared map[string]string
	// namespace is that of the installation. denied are the resources of which this account may not list any object.
	namespace string
	denied    sync.Map
	// turn is the name after which the next look goes on.
	turn string
}

// collectionOf says where a resource is listed.
func collectionOf(r *resource, namespace string) collection {
	c := collection{main: r.view.Origin == migrate.Custom, aggregated: r.view.Origin == migrate.Aggregated}
	if r.entry == nil || r.entry.Endpoint == "" {
		return c
	}
	if !r.entry.Namespaced {
		namespace = "" // otherwise the API server looks one key up, instead of all objects through
	}
	resource := r.entry.WithVersion(r.entry.Endpoint)
	path, err := apipath.Collection(resource, "")
	small, smallErr := apipath.Collection(resource, namespace)
	// a name that leads elsewhere is never read (I3), so that nothing about it is proven
	if err == nil && smallErr == nil {
		c.path, c.small = path, small
	}
	return c
}

// read returns how far each of the named collections has come; those that cannot be read are missing. main is the
// position of the etcd that holds the StorageStates. What is asked for has no resourceVersion, so that the API server
// answers as of now.
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
	return found, errors.Join(problems...)
}

// readOne lists one object, or no object where the account may not list any: then there is no witness. Zero where
// nothing can be listed.
func (c *comparer) readOne(ctx context.Context, name string, at collection) (ledger.Collection, error) {
	if at.path == "" {
		return ledger.Collection{}, nil
	}
	if _, denied := c.denied.Load(name); !denied {
		found, err := c.list(ctx, at.path, "")
		if !apierrors.IsForbidden(err) {
			return found, err
		}
		c.denied.Store(name, true)
	}
	return c.list(ctx, at.small, "metadata.name="+inventory.NoObject)
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

// parseCollection takes a list of metadata. A resourceVersion that is no number cannot be compared. Pure.
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

// due are the resources whose collections a look reads, sorted: custom ones, which cost nothing; those that were not
// read since the API servers were others; those of aggregated API servers, of which no one knows when they are
// restarted; those that a proof waits for; and some more in turn.
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

// servers identify the API servers that a look found, and those that have been there. Unlike before: one was restarted.
func (s *observation) servers() string {
	return strings.Join(slices.Concat(s.round.Processes, s.traces.left), "\n")
}

// mainEtcd is what this process has seen of the etcd that holds the StorageStates. A State goes back with the rest when
// that is restored, and does not show it itself; a process that has seen it before can tell. Safe for concurrent use.
type mainEtcd struct {
	mu    sync.Mutex
	known mainVersions
}

// mainVersions is what had been seen at one moment.
type mainVersions struct {
	newest uint64            // the greatest resourceVersion of the collection
	states map[string]uint64 // that of each StorageState, by name: one that is created again has a greater one, too
}

// now returns what has been seen. An answer is compared with what had been seen before it was asked for: what is
// written while it is on its way may be missing from it, although nothing was restored.
func (m *mainEtcd) now() mainVersions {
	m.mu.Lock()
	defer m.mu.Unlock()
	return mainVersions{newest: m.known.newest, states: maps.Clone(m.known.states)}
}

// next takes the answer to a request for the whole collection that was sent when before had been seen, and reports
// whether it is older than that. version is the resourceVersion of the collection; 0 says nothing.
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

// saw takes a StorageState that was read or written.
func (m *mainEtcd) saw(state *v1alpha1.StorageState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known.states == nil {
		m.known.states = map[string]uint64{}
	}
	m.known.states[state.Name] = max(m.known.states[state.Name], versionOf(state))
}

// versionOf is the resourceVersion of a StorageState; 0 where it is not known.
func versionOf(state *v1alpha1.StorageState) uint64 {
	version, err := strconv.ParseUint(state.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}
