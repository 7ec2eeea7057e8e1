// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package trigger is the controller that notices when a resource may be stored in more than its current version,
// records that, and asks for a migration.
//
// It owns the StorageStates (ByHand writes what a run proves that no migration asked for), of StorageVersionMigrations
// the specs that it created itself, and spec.groupVersions of all. It looks at all API servers every period, and at
// once when something moves that can end an epoch; what is to be recorded and asked for is decided by package ledger.
// It never carries out a migration, and never asks for anything with what users created.
//
// Invariants:
//   - I1: what a look saw is recorded before anything follows from it, and the records that a look adds to come first.
//   - I2: records shrink by the ledger's decision alone, and every write is under the resourceVersion that was read.
//   - One goroutine of one leader decides and writes; a look, which only reads, runs next to it. It may die between any
//     two writes: every decision is computed from what is recorded, and the next one makes up for what is missing.
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
	"github.com/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// DefaultPeriod is how often the API servers are asked when nothing moves.
const DefaultPeriod = v1alpha1.DefaultHeartbeatPeriod

// Options of the trigger.
type Options struct {
	// Namespace is that of the installation; it owns what is created. Required.
	Namespace string
	// Period is how often the API servers are asked when nothing moves. 0: 10 minutes.
	Period time.Duration
	// RecordOnly keeps the StorageStates true and asks for nothing.
	RecordOnly bool
	// Bootstrap asks also for migrations of resources that no one has asked for yet; Include and Exclude are patterns
	// of full names.
	Bootstrap        bool
	Include, Exclude []string
	// Pace bounds the load of a migration that is asked for and has no bounds of its own. Its zero values bound
	// nothing.
	Pace v1alpha1.Pace
	// MinEvidence is the weakest evidence that proves anything. 0: Observed.
	MinEvidence migrate.Evidence
	// Worker is the ServiceAccount that sweeps. The zero value stands for this process.
	Worker access.Account
	// WorkerRole is the ClusterRole in which the trigger grants Worker what it lacks to migrate a resource. Empty: it
	// grants nothing.
	WorkerRole string
	// Paused returns since when everything is paused, for people; empty: it is not. Nothing is requested then. nil: it
	// never is.
	Paused func(ctx context.Context, client rest.Interface) (since string, err error)
	// ShutdownDelay is that of agreement.Options.
	ShutdownDelay time.Duration
	// Logger is for the operators of kube-migrator; nil discards it.
	Logger *slog.Logger
}

// Add adds the trigger to a manager; config is one that writes only while the manager leads.
func Add(m manager.Manager, config *rest.Config, o Options) error {
	if o.Period == 0 {
		o.Period = DefaultPeriod
	}
	if o.MinEvidence == 0 {
		o.MinEvidence = migrate.Observed
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
		positions: map[string]position{}, refused: map[string]string{},
		events: m.GetEventRecorder("kube-migrator"),
		asker: asker{client: m.GetClient(), live: m.GetAPIReader(), namespace: o.Namespace,
			create: o.Bootstrap, pace: o.Pace},
	}
	t.grants = grants{rest: restClient, role: o.WorkerRole}
	if t.permits, err = newPermits(restClient, o.Worker, ctrlmetrics.Registry); err != nil {
		return err
	}
	if t.metrics, err = newMetrics(ctrlmetrics.Registry); err != nil {
		return err
	}
	t.journal = newJournal(func() { poke(t.moved) })
	t.observer = observer{
		rest: restClient, live: m.GetAPIReader(), servers: servers, journal: t.journal, silent: map[string]bool{},
		etcds: comparer{rest: restClient, namespace: o.Namespace, compared: map[string]string{}},
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

	// moved: something that can end an epoch moved. changed: a StorageState or a migration did.
	moved, changed chan struct{}
	// positions are where the journal was at the recorded look, by name of the StorageState. Those that are missing are
	// from before this process watched.
	positions map[string]position
	// refused is what was logged last about a migration that proves nothing, by name of the StorageState.
	refused map[string]string
	// recordedUpTo is the position of the journal up to which CRD changes are recorded.
	recordedUpTo position
	// uncompared is what was said last about collections that cannot be read.
	uncompared string
	// restored: etcd went backwards, and no look has recorded that yet.
	restored bool
	// paused says since when everything is paused, as it was read last; empty: it is not.
	paused string
	// rested is when the next look may begin: while much moves, looks take at most half of the time (I7), and none
	// waits for more than a second.
	rested time.Time
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (t *trigger) NeedLeaderElection() bool { return true }

const (
	// gather is how long to wait for more of what moves together.
	gather = 50 * time.Millisecond
	// soon is how long to wait where a look did not tell everything, for the first patient looks; then twice as long
	// each time.
	soon    = time.Second
	patient = 15
)

// Start implements manager.Runnable: it looks until the context ends.
func (t *trigger) Start(ctx context.Context) error {
	if err := t.listen(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { t.watcher.run(ctx) })
	defer watching.Wait()
	defer cancel()
	incomplete := 0
	for ctx.Err() == nil {
		begin := time.Now()
		complete, err := t.pass(ctx)
		t.metrics.looked(begin, time.Now(), complete, err)
		t.rested = time.Now().Add(min(time.Since(begin), time.Second))
		if errors.Is(err, ErrRestored) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			t.Logger.Warn("A look was incomplete or could not be recorded; retrying", "error", err)
		}
		wait := t.Period
		if t.permits.missing > 0 { // nothing moves when a role is extended
			wait = min(wait, permitEvery)
		}
		if complete && err == nil {
			incomplete = 0
		} else {
			incomplete++
			wait = min(wait, soon<<min(20, max(0, incomplete-patient)))
		}
		if t.pause(ctx, wait) {
			incomplete = 0
		}
	}
	return nil
}

// pause waits for the next look, and settles meanwhile what migrations have come to. It reports whether something
// moved.
func (t *trigger) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	again := time.NewTicker(pausedEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
			if t.paused != "" && t.resumed(ctx) {
				return true
			}
		case <-timer.C:
			return false
		case <-t.moved:
			t.react(ctx)
			sleep(ctx, max(gather, time.Until(t.rested)))
			return true
		case <-t.changed:
			look, err := t.settle(ctx)
			if err != nil && ctx.Err() == nil {
				t.Logger.Warn("Could not record the result of a migration; retrying", "error", err)
				sleep(ctx, soon)
			}
			if look || err != nil {
				return true
			}
		}
	}
}

// react does what cannot wait for a look when something has moved.
func (t *trigger) react(ctx context.Context) {
	if err := t.recordStorageVersions(ctx); err != nil && ctx.Err() == nil {
		t.Logger.Warn("Could not record a changed CustomResourceDefinition at once; the next look will", "error", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // someone will look already
	}
}

// ErrRestored: etcd holds less than was watched. That is recorded; but watches and caches that began before are silent
// until etcd has caught up, so the process cannot go on: it ends, and starts over.
var ErrRestored = errors.New("etcd went backwards: it was restored from a backup")

// pass looks once, records what it saw, and then asks for what is missing. It is complete if every resource's servers
// agree, none is leaving, and all was written.
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
	for i := range plan {
		if err := t.record(ctx, &plan[i], s); err != nil {
			problems = append(problems, fmt.Errorf("storage state %s: %w", plan[i].name, err))
			plan[i].failed = true
		}
	}
	if s.restored {
		return false, errors.Join(append(problems, ErrRestored)...)
	}
	t.journal.forget(t.oldest(s.from))
	if !t.RecordOnly || t.WorkerRole != "" { // what people request may need a grant, too
		problems = append(problems, t.permit(ctx, plan)...)
	}
	if !t.RecordOnly {
		problems = append(problems, t.request(ctx, plan, s)...)
	}
	problems = append(problems, t.refresh(ctx, s)...)
	complete = !s.round.Moved && !s.round.Leaving &&
		!slices.ContainsFunc(plan, func(e entryPlan) bool { return e.unsettled })
	return complete, errors.Join(problems...)
}

// look looks, and records meanwhile what CRDs tell: servers that do not answer make a look slow, and no one
// waits for it to change a CRD back (I1). What moved meanwhile is a reason for the next look.
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

// request asks for the migrations that are needed, those of the resources at the greatest risk first.
func (t *trigger) request(ctx context.Context, plan []entryPlan, s *observation) (problems []error) {
	if paused, err := t.isPaused(ctx); err != nil || paused {
		return append(problems, err)
	}
	for _, r := range inventory.ByRisk(t.observer.known.Resources) {
		if t.excludes(r.Names()) {
			continue
		}
		i := slices.IndexFunc(plan, func(e entryPlan) bool { return e.name == r.GroupResource.String() })
		if i < 0 || plan[i].failed || plan[i].forbidden || plan[i].decision.Request == 0 || r.Problem != nil {
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

// excludes reports whether Include and Exclude leave out a resource of these names.
func (o Options) excludes(names []string) bool {
	return len(o.Include) > 0 && !inventory.Matches(o.Include, names...) || inventory.Matches(o.Exclude, names...)
}

// oldest is the position that everything recorded has passed.
func (t *trigger) oldest(now position) position {
	for _, p := range t.positions {
		now = min(now, p)
	}
	return now
}
