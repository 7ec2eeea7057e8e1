// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// observation is everything that one look found.
type observation struct {
	// from is where the journal was before the look began.
	from   position
	traces traces
	// restored: the etcd of the StorageStates, or that of the identity Leases, went backwards.
	restored bool
	round    *agreement.Round
	// resources are by the name of their StorageState; what is stored once under several names is one of them.
	resources map[string]*resource
	// migrations were read after the round, and the moment with the states after that: whatever the round saw came
	// before.
	migrations migrations
	moment     uint64
	states     map[string]*v1alpha1.StorageState
	// collections were read after the migrations, by the names of StorageStates; not all of them in every look.
	collections map[string]ledger.Collection
	// uncompared is why some could not be read; nil: all that were due could.
	uncompared error
}

// resource is one resource of a look.
type resource struct {
	view agreement.View
	// names begin with that of the StorageState.
	names []string
	// entry is nil where discovery at the one address does not show the resource: nothing can be asked for then.
	entry *inventory.Resource
}

// observer gathers what one pass decides from.
type observer struct {
	rest    rest.Interface
	live    client.Reader
	servers *agreement.Observer
	journal *journal
	// etcds are those of resources, main that of the StorageStates.
	etcds comparer
	main  mainEtcd

	// known is the inventory as of the last time that the names of resources changed: it tells which are one.
	known *inventory.Inventory
	names []string
	// answered tells of each process that lives whether it has ever answered; silent are those that did not within the
	// time given to them.
	answered, silent map[string]bool
}

// look looks at everything once.
func (o *observer) look(ctx context.Context) (*observation, error) {
	s := &observation{}
	var err error
	// before the request: a Lease may be renewed, and watched, while the answer is on its way
	reached := o.journal.reached()
	if s.traces, err = readTraces(ctx, o.rest); err != nil {
		return nil, err
	}
	s.restored = s.traces.resourceVersion != 0 && s.traces.resourceVersion < reached
	if err := o.ask(ctx, s); err != nil {
		return nil, err
	}
	if err := o.learn(ctx, s.round.Views); err != nil {
		return nil, err
	}
	s.resources = o.merge(s.round.Views)
	found, err := o.read(ctx)
	if err != nil {
		return nil, err
	}
	s.migrations, s.states, s.moment, s.restored = found.migrations, found.states, found.version,
		s.restored || found.restored
	o.etcds.collections = map[string]collection{}
	for name, r := range s.resources {
		o.etcds.collections[name] = collectionOf(r, o.etcds.namespace)
	}
	s.collections, s.uncompared = o.etcds.read(ctx, o.etcds.due(s), found.version)
	return s, ctx.Err()
}

const (
	// patience is how long a server that has just come may take to answer: a doubt about it makes everything start
	// over. What was written meanwhile is recorded that much later, which leaves time enough before 5 seconds are over.
	patience = 2 * time.Second
	again    = 250 * time.Millisecond
)

// ask asks all servers. One that has just come may need a moment until it answers, and until then no one can tell what
// it writes: it is asked again before that is recorded as a doubt.
func (o *observer) ask(ctx context.Context, s *observation) (err error) {
	for begin := time.Now(); ; sleep(ctx, again) {
		s.from = o.journal.here()
		if s.round, err = o.servers.Round(ctx); err != nil {
			return err
		}
		silent := o.newcomers(s.round)
		if len(silent) == 0 || time.Since(begin) > patience || ctx.Err() != nil {
			for _, id := range silent {
				o.silent[id] = true
			}
			return ctx.Err()
		}
	}
}

// newcomers are servers that do not answer, and of which that is new. It forgets those that are gone.
func (o *observer) newcomers(r *agreement.Round) (ids []string) {
	now := map[string]bool{} // whether it has ever answered
	for _, v := range r.Views {
		for _, server := range v.Servers {
			id := server.ID + " " + server.Process
			now[id] = now[id] || server.Answered || o.answered[id]
		}
	}
	for id, answered := range now {
		if !answered && !o.silent[id] {
			ids = append(ids, id)
		}
	}
	o.answered = now
	maps.DeleteFunc(o.silent, func(id string, _ bool) bool { _, lives := now[id]; return !lives })
	return ids
}

// objectsRead are our own, as one reading found them.
type objectsRead struct {
	migrations migrations
	states     map[string]*v1alpha1.StorageState
	// version is the resourceVersion of the StorageStates' collection; 0: not known.
	version uint64
	// restored: it, or one of them, is older than what was read before.
	restored bool
}

// read reads what there is, past the cache.
func (o *observer) read(ctx context.Context) (objectsRead, error) {
	found, err := readMigrations(ctx, o.live)
	if err != nil {
		return objectsRead{}, err
	}
	list, before := new(v1alpha1.StorageStateList), o.main.now()
	if err := o.live.List(ctx, list); err != nil {
		return objectsRead{}, fmt.Errorf("list storage states: %w", err)
	}
	r := objectsRead{migrations: found, states: map[string]*v1alpha1.StorageState{}}
	for i := range list.Items {
		r.states[list.Items[i].Name] = &list.Items[i]
	}
	r.version, _ = strconv.ParseUint(list.ResourceVersion, 10, 64) // 0 is not known
	r.restored = o.main.next(before, r.version, r.states)
	return r, nil
}

// learn takes an inventory where the names of resources are others than the last time.
func (o *observer) learn(ctx context.Context, views []agreement.View) error {
	var names []string
	for _, v := range views {
		names = append(names, fmt.Sprint(v.Resource, v.Versions))
	}
	if o.known != nil && slices.Equal(names, o.names) {
		return nil
	}
	known, err := inventory.Take(ctx, o.rest)
	if err != nil {
		return err
	}
	o.known, o.names = known, names
	if len(known.Failures) > 0 {
		o.names = nil // incomplete: again the next time
	}
	return nil
}

// merge joins the views of what is stored once.
func (o *observer) merge(views []agreement.View) map[string]*resource {
	home := map[string]*inventory.Resource{} // by any name
	for i := range o.known.Resources {
		r := &o.known.Resources[i]
		for _, name := range r.Names() {
			home[name] = r
		}
	}
	all := map[string]*resource{}
	for _, v := range views {
		name := stateName(v.Resource.Group, v.Resource.Resource)
		entry, names := home[name], []string{name}
		if entry != nil {
			name, names = entry.GroupResource.String(), entry.Names()
		}
		if first := all[name]; first == nil {
			all[name] = &resource{view: v, names: names, entry: entry}
		} else {
			first.view = joined(first.view, v, name)
		}
	}
	return all
}

// joined is the view of a resource that is served under two names: what a server does not show under one it may under
// the other.
func joined(a, b agreement.View, name string) agreement.View {
	if stateName(b.Resource.Group, b.Resource.Resource) == name {
		a, b = b, a
	}
	a.Servers = slices.Clone(a.Servers)
	for i, server := range a.Servers {
		for _, other := range b.Servers {
			if other.ID == server.ID && server.Hash == "" {
				a.Servers[i].Hash, a.Servers[i].Version = other.Hash, other.Version
			}
		}
	}
	return a
}

// lookAt is what the ledger is told of one resource; state is its StorageState, nil if there is none. since is the
// position of the recorded look; minEvidence the weakest that proves anything: where it is weaker, API servers may
// write that no one has asked.
func (s *observation) lookAt(r *resource, state *v1alpha1.StorageState, j *journal, since position,
	minEvidence migrate.Evidence) ledger.Look {
	v, known := r.view, new(v1alpha1.StorageStateStatus)
	if state != nil {
		known = &state.Status
	}
	l := ledger.Look{
		Begun: s.round.Begun, Traces: s.traces.left, Restored: s.restored, Names: readables(known, &v),
		Moment: s.moment, Collection: s.collections[r.names[0]], Revisions: v.Origin != migrate.Aggregated,
	}
	l.Own, l.Others = migrationsOf(s.migrations.of(r.names), r.names)
	for _, server := range v.Servers {
		l.Servers = append(l.Servers, ledger.Server{
			ID: server.ID, Process: server.Process, Hash: server.Hash, Answered: server.Answered,
			CameBack: cameBack(known.Traces, server.Process),
		})
	}
	definitionName := ""
	if d := v.Definition; d != nil {
		definitionName = v.Resource.String()
		l.Definition = &ledger.Definition{UID: d.UID, Generation: d.Generation, Hash: d.Hashes[d.Storage]}
		for _, version := range d.StoredVersions {
			l.Definition.Stored = append(l.Definition.Stored, d.Hashes[version])
		}
	}
	if v.Epoch != nil {
		l.OnlyDecodable = v.OnlyDecodable
		l.Settled = s.round.Ended.Sub(v.Epoch.Since) >= migrate.DefaultSettleTime
	}
	if v.Epoch != nil && v.Evidence >= minEvidence {
		l.Epoch = &ledger.EpochID{Hash: v.Epoch.Hash, Processes: v.Epoch.Servers, UID: v.Epoch.CRDUID,
			Generation: v.Epoch.CRDGeneration}
	}
	p := j.since(since, definitionName)
	l.Continuous = p.serversWatched
	if v.Origin == migrate.Aggregated {
		// No one watches the processes behind an APIService; their own traces tell whether one came and went.
		l.Continuous, l.Traces = false, v.Traces
		return l
	}
	for _, process := range p.processes {
		if !slices.ContainsFunc(v.Servers, func(server agreement.Server) bool { return server.Process == process }) {
			l.Passed = append(l.Passed, process)
		}
	}
	for _, d := range p.definitions {
		one := ledger.Definition{UID: d.uid, Generation: d.generation}
		if l.Definition != nil && one.UID == l.Definition.UID && one.Generation == l.Definition.Generation {
			one.Hash = l.Definition.Hash
		}
		l.Definitions = append(l.Definitions, one)
	}
	return l
}

// missing reports whether a resource is surely not there: no part of its group was left out.
func (s *observation) missing(state *v1alpha1.StorageState) bool {
	for _, u := range s.round.Unread {
		if u.GroupVersion.Group == state.Spec.Resource.Group {
			return false
		}
	}
	return !s.round.Moved && s.resources[state.Name] == nil
}
