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
	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// observation is everything that one look found.
type observation struct {
	// from is the position of the journal before the look began.
	from   position
	traces traces
	// restored means that the etcd of the StorageStates, or that of the identity Leases, went backwards.
	restored bool
	round    *agreement.Round
	// resources are by name of their StorageState. A resource that is stored once and served under several names is one
	// of them.
	resources map[string]*resource
	// migrations were read after the round, and then the moment together with the states: everything that the round saw
	// happened before.
	migrations migrations
	moment     uint64
	states     map[string]*v1alpha1.StorageState
	// collections were read after the migrations. They are by name of the StorageState; a look does not read all of
	// them.
	collections map[string]ledger.Collection
	// reached is that of the ledger's looks, and shared are the resources in the main etcd, by name of the StorageState.
	reached uint64
	shared  map[string]bool
	// uncompared is why some of the collections that were due could not be read, or nil.
	uncompared error
}

// resource is one resource of a look.
type resource struct {
	view agreement.Verdict
	// names begin with that of the StorageState.
	names []string
	// entry is nil if discovery at the configured address does not show the resource. No migration can be requested
	// then.
	entry *inventory.Resource
}

// observer gathers what one pass decides from.
type observer struct {
	rest    rest.Interface
	live    client.Reader
	servers *agreement.Observer
	journal *journal
	// etcds reads the etcds of resources; main is the etcd of the StorageStates.
	etcds comparer
	main  mainEtcd
	// excludes reports whether the installation excludes a resource of these names; nil excludes none.
	excludes func(names []string) bool

	// known is the inventory since the names, the versions or, of custom resources, the storage version of resources last
	// changed. It says which names share storage.
	known *inventory.Inventory
	names []string
	// answered says of each live process whether it has ever answered. silent contains the processes that did not
	// answer in the time that they were given.
	answered, silent map[string]bool
}

// look looks at everything once.
func (o *observer) look(ctx context.Context) (*observation, error) {
	s := &observation{}
	var err error
	// before the request: while the answer is on its way, a Lease may be renewed and the watch may see it
	reached := o.journal.reached()
	if s.traces, err = readTraces(ctx, o.rest); err != nil {
		return nil, err
	}
	s.restored = s.traces.resourceVersion != 0 && s.traces.resourceVersion < reached
	if err := o.ask(ctx, s); err != nil {
		return nil, err
	}
	if err := o.learn(ctx, s.round.Verdicts); err != nil {
		return nil, err
	}
	s.resources = o.merge(s.round.Verdicts)
	found, err := o.read(ctx)
	if err != nil {
		return nil, err
	}
	s.migrations, s.states, s.moment, s.restored = found.migrations, found.states, found.version,
		s.restored || found.restored
	o.etcds.collections = map[string]collection{}
	for name, r := range s.resources {
		at := collectionOf(r, o.etcds.namespace)
		at.excluded = o.excludes != nil && o.excludes(r.names)
		o.etcds.collections[name] = at
	}
	s.collections, s.uncompared = o.etcds.read(ctx, o.etcds.due(s), found.version)
	s.shared = o.etcds.shared
	if shared, known := s.shared[leases]; shared || !known {
		s.reached = o.etcds.reached(s.round.Started, found.version, reached)
	}
	o.etcds.note(found.version, time.Now())
	return s, ctx.Err()
}

const (
	// patience is how long a new server may take to answer before it raises a doubt, which makes every run start over.
	// Everything else that a look records is delayed by the same time, and has to be recorded within 5 seconds.
	patience = 2 * time.Second
	again    = 250 * time.Millisecond
)

// ask asks all servers. A new server may need a moment until it answers, and until then no one knows what it writes. It
// is asked again before its silence becomes a doubt.
func (o *observer) ask(ctx context.Context, s *observation) (err error) {
	for begin := time.Now(); ; _ = pace.Sleep(ctx, again) {
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

// newcomers returns the servers that do not answer and were not reported as silent before. It forgets the servers that
// are gone.
func (o *observer) newcomers(r *agreement.Round) (ids []string) {
	now := map[string]bool{} // whether it has ever answered
	for _, v := range r.Verdicts {
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

// objectsRead are our own objects, as one reading found them.
type objectsRead struct {
	migrations migrations
	states     map[string]*v1alpha1.StorageState
	// version is the resourceVersion of the StorageStates' collection, or 0 if it is unknown.
	version uint64
	// restored means that version, or one of the states, is older than what was read before.
	restored bool
}

// read reads all migrations and StorageStates past the cache.
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

// learn takes an inventory if known is not current.
func (o *observer) learn(ctx context.Context, views []agreement.Verdict) error {
	var names []string
	for _, v := range views {
		storage := ""
		if v.CRD != nil {
			storage = v.CRD.Storage
		}
		names = append(names, fmt.Sprint(v.Resource, v.Versions, storage))
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
		o.names = nil // it is incomplete, so the next look takes another one
	}
	return nil
}

// merge joins the views of names that share storage.
func (o *observer) merge(views []agreement.Verdict) map[string]*resource {
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

// joined returns the view of a resource that is served under two names. A server that does not show it under one name
// may show it under the other.
func joined(a, b agreement.Verdict, name string) agreement.Verdict {
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

// lookAt returns what the ledger has to know about one resource. state is its StorageState, or nil. since is the
// position of the recorded look. With evidence that is weaker than o.MinEvidence asks of a look, API servers that no one
// has asked may be writing.
func (s *observation) lookAt(r *resource, state *v1alpha1.StorageState, j *journal, since position,
	o *Options) ledger.Look {
	v, known := r.view, new(v1alpha1.StorageStateStatus)
	if state != nil {
		known = &state.Status
	}
	l := ledger.Look{
		Started: s.round.Started, Traces: s.traces.left, Restored: s.restored, Names: readables(known, &v),
		Moment: s.moment, Collection: s.collections[r.names[0]], Revisions: v.Origin != migrate.Aggregated,
	}
	if shared, known := s.shared[r.names[0]]; known {
		l.Shared, l.Elsewhere = shared, !shared
	}
	if v.Evidence >= migrate.Observed {
		l.Reached = s.reached
	}
	l.Own, l.Others = migrationsOf(s.migrations.of(r.names), r.names)
	for _, server := range v.Servers {
		l.Servers = append(l.Servers, ledger.Server{
			ID: server.ID, Process: server.Process, Hash: server.Hash, Answered: server.Answered,
			CameBack: cameBack(known.Traces, identity.Holder(server.Process)),
		})
	}
	crdName := ""
	if d := v.CRD; d != nil {
		crdName = v.Resource.String()
		l.CRD = &ledger.CRD{UID: d.UID, Generation: d.Generation, Hash: d.Hashes[d.Storage]}
		for _, version := range d.StoredVersions {
			l.CRD.Stored = append(l.CRD.Stored, d.Hashes[version])
		}
	}
	if v.Epoch != nil {
		l.OnlyDecodable = v.OnlyDecodable
		l.Settled = s.round.Ended.Sub(v.Epoch.Since) >= o.SettleTime
	}
	if v.Epoch != nil && v.Evidence >= o.MinEvidence.AtOnce() {
		l.Epoch = &ledger.EpochID{Hash: v.Epoch.Hash, Processes: v.Epoch.Servers, UID: v.Epoch.CRDUID,
			Generation: v.Epoch.CRDGeneration}
	}
	p := j.since(since, crdName)
	l.Continuous = p.serversWatched && !s.restartsHidden(&v, known.ServerStorageVersions)
	if v.Origin == migrate.Aggregated {
		// No one watches the processes behind an APIService. Their own traces show whether one came and went.
		l.Continuous, l.Traces = false, v.Traces
		return l
	}
	for _, holder := range p.processes {
		if !slices.ContainsFunc(v.Servers, func(server agreement.Server) bool {
			return identity.Holder(server.Process) == holder
		}) {
			l.Passed = append(l.Passed, lastProcess(known.ServerStorageVersions, holder))
		}
	}
	for _, d := range p.crds {
		one := ledger.CRD{UID: d.uid, Generation: d.generation}
		if l.CRD != nil && one.UID == l.CRD.UID && one.Generation == l.CRD.Generation {
			one.Hash = l.CRD.Hash
		}
		l.CRDs = append(l.CRDs, one)
	}
	return l
}

// restartsHidden reports whether processes may have come and gone that the watch of Leases does not show: those of
// releases whose Leases do not show a restart. Equal starts prove that there was none. Where starts cannot be read, the
// traces that servers leave have to show it, and where they leave none, nothing does.
func (s *observation) restartsHidden(v *agreement.Verdict, recorded []v1alpha1.ServerEncodingVersion) bool {
	now, before := map[string]bool{}, map[string]bool{}
	for _, server := range v.Servers {
		if identity.HidesRestarts(server.Process) {
			now[server.Process] = true
		}
	}
	for _, server := range recorded {
		if identity.HidesRestarts(server.HolderIdentity) {
			before[server.HolderIdentity] = true
		}
	}
	if len(now)+len(before) > 0 {
		return !maps.Equal(now, before)
	}
	old := s.round.Releases.Unread != "" || slices.ContainsFunc(s.round.Releases.All,
		func(release string) bool { return !agreement.ShowsRestarts(release) })
	return old && !slices.Contains(s.traces.left, ledger.Untraced)
}

// lastProcess returns the recorded process of the holder of a Lease, or the holder.
func lastProcess(recorded []v1alpha1.ServerEncodingVersion, holder string) string {
	for _, s := range recorded {
		if identity.Holder(s.HolderIdentity) == holder {
			return s.HolderIdentity
		}
	}
	return holder
}

// missing reports whether a resource certainly no longer exists: every part of its group was read.
func (s *observation) missing(state *v1alpha1.StorageState) bool {
	for _, u := range s.round.Unread {
		if u.GroupVersion.Group == state.Spec.Resource.Group {
			return false
		}
	}
	return !s.round.Moved && s.resources[state.Name] == nil
}
