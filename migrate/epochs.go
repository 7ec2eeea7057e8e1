// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// errEpochOver ends a pass; the next begins when a new epoch has settled.
var errEpochOver = errors.New("the epoch is over")

// untilStopped returns a context that also ends with Stop: for waiting and for starting something new. Run has one at a
// time. Stop itself cancels it: a goroutine that waited for Stop would let requests begin until it is scheduled.
func (s *Sweep) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.update(func() {
		if s.stopped {
			cancel(ErrStopped)
		}
		s.cease = cancel
	})
	return ctx, func() { cancel(nil) }
}

// settled waits until an epoch has lasted for the settle time, and returns it. A pass that was begun in the present
// epoch goes on without waiting: it began settled.
func (s *Sweep) settled(ctx context.Context) (Epoch, error) {
	ctx, cancel := s.untilStopped(ctx)
	defer cancel()
	deadline := time.Now().Add(s.options.AgreementTimeout)
	for {
		if err := s.pacer.WaitWhilePaused(ctx); err != nil {
			return Epoch{}, err
		}
		epoch, err := s.agreement.Epoch(ctx)
		wait := s.options.LookInterval
		switch {
		case ctx.Err() != nil:
			return Epoch{}, context.Cause(ctx)
		case err != nil:
			if time.Now().After(deadline) || classify(err) == refused {
				return Epoch{}, fmt.Errorf("%w: %w", ErrNoAgreement, err)
			}
			s.wait(err.Error())
		case s.hash != "" && epoch.Hash != s.hash:
			return Epoch{}, fmt.Errorf("%w: hash %s, now %s", ErrStorageVersionMoved, s.hash, epoch.Hash)
		case s.options.DryRun, s.state.inEpoch(epoch):
			s.hash = epoch.Hash
			return epoch, nil
		default:
			s.hash = epoch.Hash
			left := time.Until(epoch.Since.Add(s.options.SettleTime))
			if left <= 0 {
				return epoch, nil
			}
			deadline = time.Now().Add(s.options.AgreementTimeout + left)
			wait = min(wait, left)
			s.wait("until " + time.Now().Add(left).Format(time.TimeOnly) + ": older requests may still write")
		}
		if err := pace.Sleep(ctx, wait); err != nil {
			return Epoch{}, err
		}
	}
}

func (s *Sweep) wait(reason string) {
	if s.Progress().Phase != Waiting {
		s.enter(Waiting)
	}
	s.update(func() { s.waiting = reason })
}

// watch looks at the epoch until the context ends, and ends the pass as soon as the epoch is over. A look from which
// nothing could be learnt changes nothing: the writes that go on meanwhile are harmless, and nothing is concluded
// without a look that succeeds.
func (s *Sweep) watch(ctx context.Context, epoch Epoch, end context.CancelCauseFunc) {
	ticker := time.NewTicker(s.options.LookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if s.pacer.WaitWhilePaused(ctx) != nil {
			return
		}
		if _, err := s.look(ctx, epoch); errors.Is(err, errEpochOver) {
			end(err)
			return
		}
	}
}

// leaseGrace is how long a server may write before a look can see it: it serves requests a moment before its Lease is
// there. A shorter settle time shortens it too.
const leaseGrace = 5 * time.Second

func (s *Sweep) grace() time.Duration { return min(leaseGrace, s.options.SettleTime) }

// sighting is the newest resourceVersion that had been read at one moment.
type sighting struct {
	at     time.Time
	newest uint64
}

// look confirms the epoch: what had been read the grace before the look was written while the epoch lasted.
func (s *Sweep) look(ctx context.Context, epoch Epoch) (Evidence, error) {
	seen := sighting{newest: s.newest.Load(), at: time.Now()}
	now, err := s.agreement.Epoch(ctx)
	if err == nil {
		s.answer.Store(time.Now().UnixNano())
	}
	switch {
	case errors.Is(err, ErrDisagreement):
		return 0, fmt.Errorf("%w: %w", errEpochOver, err)
	case err != nil:
		return 0, err
	case !epoch.lasts(now):
		return 0, fmt.Errorf("%w: %s", errEpochOver, difference(epoch, now))
	}
	s.update(func() {
		s.trail = append(s.trail, seen)
		for len(s.trail) > 0 && seen.at.Sub(s.trail[0].at) >= s.grace() {
			if now.Evidence >= min(epoch.Evidence, Observed) {
				s.state.Confirmed = max(s.state.Confirmed, s.trail[0].newest)
			}
			s.trail = s.trail[1:]
		}
	})
	return now.Evidence, nil
}

// confirm looks until a look succeeds: the comparison at the end, without which nothing is proven (I2). Evidence
// that is weaker than at the beginning is given a few looks to recover.
func (s *Sweep) confirm(ctx context.Context, epoch Epoch) (Evidence, error) {
	s.enter(Confirming)
	if s.state.Counts.Done() > 0 {
		if err := pace.Sleep(ctx, s.grace()); err != nil {
			return 0, err
		}
	}
	deadline := time.Now().Add(s.options.AgreementTimeout)
	patience := 5
	for {
		if err := s.pacer.WaitWhilePaused(ctx); err != nil {
			return 0, err
		}
		evidence, err := s.look(ctx, epoch)
		switch {
		case errors.Is(err, errEpochOver):
			return 0, err
		case err == nil && evidence < epoch.Evidence && patience > 0:
			patience--
		case err == nil:
			return evidence, nil
		case time.Now().After(deadline):
			return 0, fmt.Errorf("%w: %w", ErrNoAgreement, err)
		}
		if err := pace.Sleep(ctx, s.options.LookInterval); err != nil {
			return 0, err
		}
	}
}

// difference says in which way one epoch is not the other.
func difference(was, is Epoch) string {
	switch {
	case was.CRDUID != is.CRDUID:
		return "the CustomResourceDefinition was deleted and created anew"
	case was.Hash != is.Hash:
		return fmt.Sprintf("the storage version changed (hash %s, now %s)", was.Hash, is.Hash)
	case was.CRDGeneration != is.CRDGeneration:
		return fmt.Sprintf("the CustomResourceDefinition was changed (generation %d, now %d)", was.CRDGeneration, is.CRDGeneration)
	case was.Declared != is.Declared:
		return "what the API servers publish as their StorageVersion changed"
	}
	return fmt.Sprintf("API servers were started or stopped (%d before, %d now)", len(was.Servers), len(is.Servers))
}
