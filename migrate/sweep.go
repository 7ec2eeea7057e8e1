// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
)

// Defaults of Options.
const (
	DefaultSettleTime       = 2 * time.Minute
	DefaultAgreementTimeout = 10 * time.Minute
)

const (
	defaultLookInterval  = time.Second
	defaultOutageTimeout = 5 * time.Minute
	defaultStallTimeout  = 10 * time.Minute
)

// Sweep is one run over one resource. Call Run once. Progress, Stop and Abort are safe for concurrent use with Run.
type Sweep struct {
	wire      *wire
	asked     string // the version of Target
	agreement Agreement
	options   Options
	pacer     *pace.Pacer
	hold      hold
	log       *slog.Logger
	// connect returns the client of the API server at an address of its own. nil: there is none.
	connect func(address string) (rest.Interface, error)
	// reconnect returns a client that shares no connection with others. nil: there is none.
	reconnect func() (rest.Interface, error)

	hash            string               // of the storage version at the start of the run
	began           time.Time            // the epoch of the pass began no later
	hasStatus       bool                 // refused objects are rewritten through their status
	provable        storedversions.Proof // what the pass proves if it is complete
	custom          *pruning.CRD         // as the preflight read it, until a pass needs it
	restores        int                  // how often the run saw that etcd had been restored
	newest          atomic.Uint64        // newest resourceVersion read
	retried         atomic.Int64
	answer, patched atomic.Int64 // when the last request was answered, in Unix nanoseconds; how many patches were
	accounted       atomic.Int64 // objects, without those of Failure.mayPass: it grows while there is progress

	mu         sync.Mutex
	stopped    error                   // why nothing new may start; nil: it may
	cancelWait context.CancelCauseFunc // cancels the last context of untilStopped
	aborted    bool
	cancelAll  context.CancelCauseFunc // cancels the context of Run
	phase      Phase
	waiting    string
	entered    time.Time     // the phase
	rewriting  time.Duration // spent in phases that are over
	state      checkpoint    // after the last finished page
	live       Counts        // of the page that is being written
	silent     silence
	trail      []position // newest resourceVersions that are not confirmed yet
	candidate  witness    // the newest object that was rewritten, or seen to be current
	verified   int64
	moved      int64
	sizer      pageSizer
	servers    []*server // over which patches are spread, in the order of pace.Slot.Server
	spreadOver int
	proof      storedversions.Proof
}

// New prepares a sweep of the cluster of config. It does not change config, and sends no request. It ignores config's
// own rate limits (QPS, Burst, RateLimiter): Options and the server's load determine the rate.
func New(config *rest.Config, target Target, agreement Agreement, options Options) (*Sweep, error) {
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	s := newSweep(client, target, agreement, options)
	s.connect = func(address string) (rest.Interface, error) { return apiserver.NewClientAt(config, address) }
	s.reconnect = func() (rest.Interface, error) { return apiserver.NewClientApart(config) }
	return s, nil
}

func newSweep(client rest.Interface, target Target, agreement Agreement, options Options) *Sweep {
	o := options.withDefaults()
	return &Sweep{
		wire:      newWire(client, target, o.DryRun),
		asked:     target.Resource.Version,
		agreement: agreement,
		options:   o,
		pacer:     pace.Within(o.Bounds.shared),
		log:       o.Logger.With("resource", target.GroupResource().String()),
		phase:     Preparing,
		sizer:     pageSizer{fixed: o.PageSize},
	}
}

// Progress returns the sweep as it is now.
func (s *Sweep) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.state.Counts
	counts.add(s.live)
	if s.phase == Retrying {
		counts.Failed -= s.live.Done() // these count as failed until the page is finished
	}
	counts.Retried += s.retried.Load()
	phase, waiting := s.phase, s.waiting
	if s.hold.isClosed() {
		phase, waiting = Waiting, "until each of them answers, or is gone"
	}
	return Progress{
		Phase: phase, Waiting: waiting, Total: s.state.Total, Counts: counts, Verified: s.verified,
		Epoch: s.state.Epoch, Restarts: s.state.Restarts, Pace: Pace(s.pacer.Stats()), Started: s.state.Started,
	}
}

// Run rewrites all objects. The Result is valid with every error; the error is nil only if everything is proven. See
// ErrObjectsFailed and the variables next to it for the errors.
//
// The end of ctx stops the sweep gently, as Stop does: the error is then ErrStopped and the cause of ctx. To end a sweep
// at once, call Abort.
func (s *Sweep) Run(ctx context.Context) (Result, error) {
	s.options.Bounds.sweeps.Add(1)
	defer s.options.Bounds.sweeps.Add(-1)
	end := func() { s.stop(fmt.Errorf("%w: %w", ErrStopped, context.Cause(ctx))) }
	if ctx.Err() != nil {
		end()
	}
	defer context.AfterFunc(ctx, end)()
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	s.update(func() {
		if s.cancelAll = cancel; s.aborted {
			cancel(ErrStopped)
		}
	})
	err := s.run(running)
	return s.result(err), err
}

// run consists of the ten steps in ARCHITECTURE.md.
func (s *Sweep) run(ctx context.Context) error {
	if err := s.preflight(ctx); err != nil {
		return err
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	for {
		epoch, err := s.settled(ctx)
		if err != nil {
			return err
		}
		err = s.within(ctx, epoch)
		if !errors.Is(err, errEpochOver) {
			return err
		}
		s.log.Info("The epoch is over, beginning a new pass", "reason", err.Error())
		// This holds even if the next look shows the same epoch again, because the epoch was over in between. A process
		// that dies from here on must not resume into it.
		s.update(func() { s.state.Over = true })
		if err := s.save(ctx); err != nil {
			return err
		}
		s.linger(ctx, epoch, err)
		s.update(s.endPass)
		if err := s.save(ctx); err != nil {
			return err
		}
	}
}

// endPass ends the pass, and adds what was done of the unfinished page. The lock is held.
func (s *Sweep) endPass() {
	s.state.Counts.Rewritten += s.live.Rewritten
	s.state.Counts.ChangedByAdmission += s.live.ChangedByAdmission
	s.state.Counts.ManagedFieldsDropped += s.live.ManagedFieldsDropped
	s.live, s.trail = Counts{}, nil
	s.keepWitness()
	s.state.end()
}

// load finds the position at which to resume. A run that starts over says so in the checkpoint at once: a later run
// must not resume what this one did not trust. The resourceVersion of the collection must not have gone backwards: an
// etcd that was restored from a backup contains old objects with numbers that would count as current (I5). If etcd was
// restored and has caught up, recall finds out from the witnesses.
func (s *Sweep) load(ctx context.Context) error {
	fresh := checkpoint{
		Version: checkpointVersion, Resource: s.wire.target.GroupResource().String(), Started: time.Now(),
		Unordered: s.wire.target.Origin == Aggregated,
	}
	s.update(func() { s.state = fresh })
	if !s.options.Resume || s.options.DryRun {
		return s.save(ctx)
	}
	starting, release := s.untilStopped(ctx)
	defer release()
	data, err := s.options.Checkpoints.Load(starting)
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	if len(data) == 0 {
		return nil // there is nothing that a later run could resume
	}
	if data, err = unpacked(data); err != nil {
		return fmt.Errorf("unpack checkpoint: %w", err)
	}
	loaded, err := decodeCheckpoint(data)
	if err != nil {
		return err
	}
	if loaded.Version != checkpointVersion || loaded.Resource != fresh.Resource {
		return s.save(ctx)
	}
	loaded.bound()
	first, err := s.list(starting, s.wire.target.Resource.Version, 1, "")
	if err != nil {
		return err
	}
	if first.resourceVersion < max(loaded.Confirmed, loaded.Baseline) {
		s.log.Warn("The collection's resourceVersion has gone backwards: etcd was restored from a backup, starting over",
			"before", max(loaded.Confirmed, loaded.Baseline), "now", first.resourceVersion)
		s.update(func() { s.state.Restored = time.Now() })
		return s.save(ctx)
	}
	if !loaded.resumable() {
		loaded.end()
	}
	s.update(func() { s.state = *loaded })
	return nil
}

// within does the remaining work in one epoch. errEpochOver means that the epoch ended before the work was finished.
func (s *Sweep) within(ctx context.Context, epoch Epoch) error {
	now := time.Now()
	s.wire.conversionWebhook = epoch.ConversionWebhook
	s.spread(epoch)
	if err := s.follow(ctx, epoch); err != nil {
		return err
	}
	if !s.goesOn(epoch, now) || s.state.Listed && s.state.forgetsFailed() {
		s.update(s.endPass)
	}
	starting, release := s.untilStopped(ctx)
	err := s.recall(starting)
	release()
	if err != nil {
		return err
	}
	if s.state.Complete && s.state.Counts.Failed == 0 && !s.options.Verify && s.concluded(epoch.Evidence) {
		return s.conclude(epoch.Evidence)
	}
	s.update(func() {
		if !s.state.Begun {
			s.trail = nil
			s.state.begin(epoch)
		}
		s.state.LookedAt = now
	})
	s.adopt(epoch)
	if s.state.Complete { // the following steps may fail
		s.update(func() { s.state.Complete = false })
		if err := s.save(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watcher waitgroup.Group
	defer s.hold.open()
	defer watcher.Wait()
	defer cancel(nil)
	watcher.Go(func() { s.watch(ctx, epoch, cancel) })
	watcher.Go(func() { s.watchProgress(ctx, cancel) })

	starting, release = s.untilStopped(ctx)
	defer release()
	for _, step := range []func(ctx context.Context, starting untilStop) error{s.rewriteAll, s.retryFailed, s.verify} {
		if err := step(ctx, starting); err != nil {
			return causeOf(ctx, err)
		}
	}
	if s.options.DryRun {
		return s.failed()
	}
	evidence, err := s.confirmed(ctx, starting, epoch)
	if err == nil {
		err = s.recheck(starting)
	}
	if err != nil {
		return causeOf(ctx, err)
	}
	if err := s.failed(); err != nil {
		return errors.Join(err, s.save(ctx))
	}
	s.update(func() { s.state.Complete = true })
	if err := s.save(ctx); err != nil {
		return err
	}
	return s.conclude(evidence)
}

// goesOn reports whether the pass of the checkpoint continues in an epoch. A pass that began with evidence too weak to
// prove anything never proves more, so it ends once the evidence is strong enough, and a new one begins.
func (s *Sweep) goesOn(epoch Epoch, now time.Time) bool {
	least := s.options.MinEvidence
	return s.state.inEpoch(epoch, now) && (s.state.Epoch.Evidence >= least || epoch.Evidence < least)
}

// conclude decides what a complete pass proves (I2).
func (s *Sweep) conclude(evidence Evidence) error {
	s.enter(Done)
	if s.state.Epoch.Evidence == Verified {
		evidence = max(evidence, Verified) // the second pass makes up for what a look cannot show
	}
	s.update(func() { s.state.Epoch.Evidence = min(evidence, s.state.Epoch.Evidence) })
	if s.state.Epoch.Evidence < s.options.MinEvidence {
		return fmt.Errorf("%w: the evidence is %v, and %v is asked for", ErrNotProven,
			s.state.Epoch.Evidence, s.options.MinEvidence)
	}
	s.update(func() { s.proof = s.provable })
	return nil
}

func (s *Sweep) result(err error) Result {
	p := s.Progress()
	s.enter(p.Phase) // so that its time counts
	s.mu.Lock()
	defer s.mu.Unlock()
	return Result{
		Epoch: p.Epoch, Counts: p.Counts, Total: p.Total, Restarts: p.Restarts, Started: p.Started, Ended: time.Now(),
		Endpoint:  s.wire.target.Resource.Version,
		Throttled: p.Pace.Throttles, Bytes: p.Pace.Bytes, RewritingSeconds: s.rewriting.Seconds(),
		SpreadOver: s.spreadOver,
		Failures:   s.state.Failures, FailuresOmitted: s.state.FailuresOmitted,
		Complete: s.state.Complete, Proven: s.state.Complete && err == nil,
		Verified: s.state.Complete && err == nil && (s.options.Verify || s.state.Epoch.Evidence == Verified),
		Moved:    s.moved,
	}
}

// save writes the checkpoint, even while the run is being cancelled: the position is worth a short delay.
func (s *Sweep) save(ctx context.Context) error {
	if s.options.DryRun {
		return nil
	}
	s.mu.Lock()
	s.state.Updated = time.Now()
	s.state.Counts.Retried += s.retried.Swap(0)
	state := s.state
	s.mu.Unlock()
	c, err := state.encode()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.options.Checkpoints.Save(ctx, c); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return nil
}

func (s *Sweep) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// enter begins a phase and ends the previous one.
func (s *Sweep) enter(phase Phase) {
	s.update(func() {
		now := time.Now()
		if s.phase == Rewriting || s.phase == Retrying {
			s.rewriting += now.Sub(s.entered)
		}
		s.phase, s.entered, s.waiting = phase, now, ""
	})
}
