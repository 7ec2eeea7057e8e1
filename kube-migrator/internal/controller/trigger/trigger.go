// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package trigger is the controller that notices when a resource may be stored in more than its current version,
// records that, and requests a migration.
//
// It owns the StorageStates (in addition, ByHand records the proofs of runs that belong to no migration). It owns the
// specs of the StorageVersionMigrations that it has created, and spec.groupVersions of all of them. It looks at all API
// servers once per period, and at once when something changes that can end an epoch. Package ledger decides what to
// record and what to request. The trigger never carries out a migration, and never requests one through an object that
// a user created.
//
// Invariants:
//   - I1: the trigger records what a look saw before it acts on it, and writes the records to which a look adds first.
//   - I2: records shrink only by a decision of the ledger, and every write carries the resourceVersion that was read.
//   - One goroutine of one leader decides and writes; a look, which only reads, runs concurrently. The process may die
//     between any two writes: every decision is computed from the record, and the next one makes up for what is
//     missing.
package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// DefaultPeriod is how often the trigger looks at the API servers while nothing changes.
const DefaultPeriod = v1alpha1.DefaultHeartbeatPeriod

// Options of the trigger.
type Options struct {
	// Namespace is that of the installation. It owns the objects that the trigger creates. Required.
	Namespace string
	// Period is how often the trigger looks at the API servers while nothing changes. 0 means 10 minutes.
	Period time.Duration
	// RecordOnly keeps the StorageStates up to date and requests nothing.
	RecordOnly bool
	// Bootstrap also requests migrations of resources that have never been migrated. Include and Exclude are patterns
	// of full names.
	Bootstrap        bool
	Include, Exclude []string
	// Pace bounds the load of requested migrations that have no bounds of their own. A zero field is not a bound.
	Pace v1alpha1.Pace
	// MinEvidence is the weakest evidence that proves anything. 0 means Verified.
	MinEvidence migrate.Evidence
	// SettleTime is how long an epoch has to last until no request that started before it can still write. 0 means 2
	// minutes.
	SettleTime time.Duration
	// Worker is the ServiceAccount that sweeps. The zero value means the account of this process.
	Worker access.Account
	// WorkerRole is the ClusterRole in which the trigger grants Worker the permissions that it lacks to migrate a
	// resource. If it is empty, the trigger grants nothing.
	WorkerRole string
	// VersionsRole is the ClusterRole in which the trigger says at which versions Worker may rewrite each resource. If it
	// is empty, the trigger does not say so.
	VersionsRole string
	// Paused returns, for users, since when everything is paused, or "" if it is not. While everything is paused,
	// nothing is requested. A nil Paused means that everything is never paused.
	Paused func(ctx context.Context, client rest.Interface) (since string, err error)
	// RollbackAccepted returns until when a user has accepted that rewrites after a rollback of Kubernetes drop fields:
	// each rollback that was recorded by then. A nil RollbackAccepted means that no rollback is accepted.
	RollbackAccepted func(ctx context.Context, client rest.Interface) (until time.Time, err error)
	// Covered receives which StorageVersions the recorded looks cover; nil discards that.
	Covered *Covered
	// ShutdownDelay is that of agreement.Options.
	ShutdownDelay time.Duration
	// Logger receives what operators of kube-migrator should know; nil discards it.
	Logger *slog.Logger
}

// Add adds the trigger to a manager. config has to be one that writes only while the manager leads.
func Add(m manager.Manager, config *rest.Config, o Options) error {
	if o.Period == 0 {
		o.Period = DefaultPeriod
	}
	if o.MinEvidence == 0 {
		o.MinEvidence = migrate.Verified
	}
	if o.SettleTime == 0 {
		o.SettleTime = migrate.DefaultSettleTime
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	restClient, err := apiserver.NewClient(config)
	if err != nil {
		return err
	}
	servers, err := agreement.NewObserver(config, agreement.Options{
		DiscoveryToken: discovery.Tokens(restClient, o.Namespace), ShutdownDelay: o.ShutdownDelay,
	})
	if err != nil {
		return err
	}
	t := &trigger{
		Options: o, client: m.GetClient(), cache: m.GetCache(), moved: make(chan struct{}, 1),
		changed:   make(chan struct{}, 1),
		positions: map[string]position{}, refused: map[string]string{}, proved: map[string]uint64{},
		events: m.GetEventRecorder("kube-migrator"),
		asker: asker{client: m.GetClient(), live: m.GetAPIReader(), namespace: o.Namespace,
			create: o.Bootstrap, pace: o.Pace},
	}
	t.grants = grants{rest: restClient, role: o.WorkerRole, versions: o.VersionsRole}
	if t.permits, err = newPermits(restClient, o.Worker, ctrlmetrics.Registry); err != nil {
		return err
	}
	if t.metrics, err = newMetrics(ctrlmetrics.Registry); err != nil {
		return err
	}
	t.journal = newJournal(func() { poke(t.moved) })
	t.observer = observer{
		rest: restClient, live: m.GetAPIReader(), servers: servers, journal: t.journal, silent: map[string]bool{},
		etcds: comparer{rest: restClient, namespace: o.Namespace, compared: map[string]string{}}, excludes: o.excludes,
	}
	if t.watcher, err = newWatcher(config, t.journal, o.Logger); err != nil {
		return err
	}
	return m.Add(t)
}

// trigger is the controller.
type trigger struct {
	Options
	client   client.Client
	cache    cache.Cache
	observer observer
	asker    asker
	permits  *permits
	grants   grants
	events   events.EventRecorder
	metrics  *metrics
	journal  *journal
	watcher  *watcher

	// moved receives a value when something changed that can end an epoch, changed when a StorageState or a migration
	// changed.
	moved, changed chan struct{}
	// positions are the positions of the journal at the recorded looks, by name of the StorageState. A missing position
	// means that the recorded look is older than this process's watches.
	positions map[string]position
	// refused is the last logged reason why a migration proves nothing, by name of the StorageState.
	refused map[string]string
	// proved are the positions of the main etcd at which proofs counted, by name of the StorageState, until a look has
	// recorded that everything up to there is proven. That look begins at lookAgain, which is zero if none is needed.
	proved    map[string]uint64
	lookAgain time.Time
	// recordedUpTo is the position of the journal up to which CRD changes are recorded.
	recordedUpTo position
	// uncompared is the last logged error about collections that cannot be read.
	uncompared string
	// restored means that etcd went backwards and no look has recorded it yet.
	restored bool
	// paused is since when everything is paused, as last read, or "".
	paused string
	// rolledBack means that the last look found that Kubernetes was rolled back. accepted is what RollbackAccepted
	// returned last.
	rolledBack bool
	accepted   time.Time
	// rested is when the next look may begin. While many things change, looks take at most half of the time (I7), and
	// no look is delayed by more than a second.
	rested time.Time
	// budget bounds the looks that only CRDs ask for.
	budget budget
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (t *trigger) NeedLeaderElection() bool { return true }

const (
	// gather is how long to wait for further changes that belong together.
	gather = 50 * time.Millisecond
	// gatherResults is the same for migrations that end, whose results are recorded together: all records and all
	// migrations are read for that.
	gatherResults = 500 * time.Millisecond
	// soon is how long to wait after a look that left something open. After the first patient looks the wait doubles
	// each time.
	soon    = time.Second
	patient = 15
)

// Start implements manager.Runnable. It looks until the context ends.
func (t *trigger) Start(ctx context.Context) error {
	if err := t.listen(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { t.watcher.run(ctx) })
	defer watching.Wait()
	defer cancel()
	return t.repeat(ctx, t.pass)
}

// react does what cannot wait for a look after something has changed.
func (t *trigger) react(ctx context.Context) {
	if err := t.recordStorageVersions(ctx); err != nil && ctx.Err() == nil {
		t.Logger.Warn("Could not record a changed CustomResourceDefinition at once; the next look will", "error", err)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a look is due already
	}
}

// ErrRestored reports that etcd holds less than was watched. The trigger has recorded it. The process has to restart,
// because watches and caches from before the restore stay silent until etcd has caught up.
var ErrRestored = errors.New("etcd went backwards: it was restored from a backup")

// pass looks once, records what it saw, and then requests the missing migrations. It is complete if the servers of
// every resource agree, none of them is shutting down, and everything was written.
func (t *trigger) pass(ctx context.Context) (complete bool, err error) {
	s, err := t.look(ctx)
	if err != nil {
		return false, err
	}
	s.restored = s.restored || t.restored
	var problems []error
	if text := fmt.Sprint(s.uncompared); text != t.uncompared && s.uncompared != nil {
		t.uncompared = text
		t.Logger.Warn("Cannot compare some collections: whether their etcd was restored is unknown, and nothing "+
			"about them is proven", "error", s.uncompared)
	}
	plan := t.decide(s)
	problems = append(problems, t.carryOut(ctx, plan, s)...)
	if s.restored {
		return false, errors.Join(append(problems, ErrRestored)...)
	}
	complete = !s.round.Moved && !s.round.Leaving && !s.round.Hidden &&
		!slices.ContainsFunc(plan, func(e entryPlan) bool { return e.unsettled })
	return complete, errors.Join(problems...)
}

// carryOut records a plan, and requests what it needs.
func (t *trigger) carryOut(ctx context.Context, plan []entryPlan, s *observation) (problems []error) {
	if err := t.compareReleases(ctx, plan, s); err != nil {
		problems = append(problems, err)
	}
	for i := range plan {
		if err := t.record(ctx, &plan[i], s); err != nil {
			problems = append(problems, fmt.Errorf("storage state %s: %w", plan[i].name, err))
			plan[i].failed = true
		}
	}
	if t.Covered != nil {
		t.Covered.add(s, plan)
	}
	if s.restored {
		return problems
	}
	t.journal.forget(t.oldest(s.from))
	if err := t.grants.follow(ctx, t.observer.known, t.excludes); err != nil {
		problems = append(problems, err)
	}
	if !t.RecordOnly || t.WorkerRole != "" { // migrations that users request may need a grant, too
		problems = append(problems, t.permit(ctx, plan)...)
	}
	if !t.RecordOnly {
		problems = append(problems, t.request(ctx, plan, s)...)
	}
	problems = append(problems, t.release(ctx, plan, s)...)
	return append(problems, t.refresh(ctx, s)...)
}

// look runs a look, and records in the meantime what CRDs tell servers to write: servers that do not answer make a look
// slow, and a CRD may be changed back before the look ends (I1). Changes during the look cause the next look.
func (t *trigger) look(ctx context.Context) (*observation, error) {
	var (
		s    *observation
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		s, err = t.observer.look(ctx)
	}()
	moved := false
	for {
		select {
		case <-done:
			if moved {
				poke(t.moved)
			}
			return s, err
		case <-t.moved:
			moved = true
			t.react(ctx)
		}
	}
}

// request requests the migrations that are needed, starting with the resources at the greatest risk.
func (t *trigger) request(ctx context.Context, plan []entryPlan, s *observation) (problems []error) {
	if paused, err := t.isPaused(ctx); err != nil || paused {
		return append(problems, err)
	}
	for _, r := range inventory.ByRisk(t.observer.known.Resources) {
		if t.excludes(r.Names()) {
			continue
		}
		i := slices.IndexFunc(plan, func(e entryPlan) bool { return e.name == r.GroupResource.String() })
		if i < 0 || plan[i].failed || plan[i].forbidden || plan[i].decision.Request == 0 || r.Problem != nil ||
			heldBack(plan[i].state.Status.Conditions) { // I3
			continue
		}
		d := plan[i].decision
		asked, err := t.asker.ask(ctx, r, s.migrations, d, plan[i].requested)
		if err != nil {
			problems = append(problems, err)
		} else if asked != nil {
			t.Logger.Info("Requested a migration", "resource", r.GroupResource.String(), "generation",
				d.Request, "reason", d.Reason)
		}
		if asked == nil {
			continue
		}
		if paused, err := t.keepPaused(ctx, asked); err != nil || paused {
			return append(problems, err)
		}
	}
	return problems
}

// excludes reports whether Include and Exclude exclude a resource of these names.
func (o Options) excludes(names []string) bool {
	return len(o.Include) > 0 && !inventory.Matches(o.Include, names...) || inventory.Matches(o.Exclude, names...)
}

// oldest returns the position up to which every record contains the journal.
func (t *trigger) oldest(now position) position {
	for _, p := range t.positions {
		now = min(now, p)
	}
	return now
}
