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

// errEpochOver ends a pass. The next pass begins when a new epoch has settled.
var errEpochOver = errors.New("the epoch is over")

// errBeganAgain is an errEpochOver: another epoch with the same identity has begun since. An API server may have come,
// written, and gone between two looks.
var errBeganAgain = fmt.Errorf("%w: an API server may have come and gone between two looks", errEpochOver)

// settled waits until an epoch has lasted for the settle time, and returns it. A pass that began in the present epoch
// continues without waiting, because it began after the epoch had settled.
//
// The whole wait has one deadline, no matter how often an epoch ends during it: AgreementTimeout for the API servers to
// agree, plus the settle time. Otherwise API servers that constantly come and go would keep a worker, and the only turn
// in the cluster, indefinitely.
func (s *Sweep) settled(ctx context.Context) (Epoch, error) {
	starting, cancel := s.untilStopped(ctx)
	defer cancel()
	began, patience := time.Now(), s.options.AgreementTimeout
	var said time.Time // until when
	var because string
	for agreed := false; ; {
		if err := s.pacer.WaitWhilePaused(starting); err != nil {
			return Epoch{}, err
		}
		asked := time.Now()
		epoch, err := s.agreement.Epoch(starting)
		if err == nil && !agreed {
			agreed, patience = true, patience+s.options.SettleTime
		}
		late := time.Since(began) > patience
		wait := s.options.lookInterval
		switch {
		case starting.Err() != nil:
			return Epoch{}, context.Cause(starting)
		case err != nil:
			if late || classify(err) == refused {
				return Epoch{}, fmt.Errorf("%w: %w", ErrNoAgreement, err)
			}
			s.wait(err.Error())
		case s.hash != "" && epoch.Hash != s.hash:
			return Epoch{}, fmt.Errorf("%w: hash %s, now %s", ErrStorageVersionMoved, s.hash, epoch.Hash)
		case s.options.DryRun, s.goesOn(epoch, time.Now()):
			s.enters(epoch, asked)
			return epoch, nil
		default:
			s.enters(epoch, asked)
			since := epoch.Since
			if since.Before(s.state.Restored) {
				since = s.state.Restored
			}
			left := time.Until(since.Add(s.options.SettleTime))
			if left <= 0 {
				return epoch, nil
			}
			if late {
				return Epoch{}, fmt.Errorf("%w: the API servers kept changing for %v: no epoch lasted for the settle "+
					"time of %v",
					ErrNoAgreement, patience, s.options.SettleTime)
			}
			if bound := s.options.SettlePatience; bound > 0 && left > bound {
				return Epoch{}, &UnsettledError{Left: left}
			}
			wait = min(wait, left)
			until, why := awaited(epoch, since, s.options.SettleTime)
			if until.Sub(said).Abs() > clockError { // looks at one epoch determine its start slightly differently
				said, because = until, why
			}
			s.wait("until " + said.Format(time.TimeOnly) + ": " + because)
		}
		if err := pace.Sleep(starting, wait); err != nil {
			return Epoch{}, err
		}
	}
}

// enters records the epoch of the next pass, and the latest moment at which it began: no later than before the look that
// shows it, or than the look says.
func (s *Sweep) enters(epoch Epoch, asked time.Time) {
	if s.hash, s.began = epoch.Hash, asked; epoch.began().After(asked) {
		s.began = epoch.began()
	}
}

// clockError is by how much the moments differ that looks at one epoch determine.
const clockError = 2 * time.Second

// awaited returns until when an epoch that began at since has to last, as far as is known now, and why.
func awaited(epoch Epoch, since time.Time, settle time.Duration) (until time.Time, why string) {
	if epoch.Leaving.After(since) {
		return epoch.Leaving.Add(settle), "an API server that left unseen may still write until " +
			epoch.Leaving.Format(time.TimeOnly) + ", and requests that began before for a while longer"
	}
	return since.Add(settle), "requests that began before the API servers agreed may still write"
}

func (s *Sweep) wait(reason string) {
	if s.Progress().Phase != Waiting {
		s.enter(Waiting)
	}
	s.update(func() { s.waiting = reason })
}

// watch looks at the epoch until the context ends, and ends the pass as soon as the epoch is over. While looks fail,
// writes wait. Writing would do no harm, but the epoch is likely to be over soon, and the last writes would have to be
// repeated.
func (s *Sweep) watch(ctx context.Context, epoch Epoch, end context.CancelCauseFunc) {
	ticker := time.NewTicker(s.options.lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if s.lookIsDue(ctx) != nil {
			return
		}
		evidence, err := s.look(ctx, epoch)
		switch {
		case errors.Is(err, errEpochOver):
			end(err)
			return
		case ctx.Err() != nil: // a look that was cancelled shows nothing
			return
		case err == nil && evidence >= min(s.Progress().Epoch.Evidence.AtOnce(), Observed):
			s.hold.open()
		case s.hold.close():
			s.log.Info("Not every API server answers, writing waits until each does or is gone", "error",
				err, "evidence", evidence)
		}
	}
}

const (
	// pausedLook is how long after the last look another one is due while the API server asks for a pause: late, but
	// early enough for a failed look to be repeated within maxBlind.
	pausedLook = 7 * time.Second
	// lookPatience is how long the requests of a look wait for the end of a pause that begins during the look. It is
	// less than the time that agreement gives each request.
	lookPatience = 4 * time.Second
)

// lookIsDue waits, while the API server asks for a pause (Retry-After), until the next look at the epoch cannot wait
// any longer. Looks continue during a pause, because a pass without a look for maxBlind is over, and API Priority and
// Fairness asks for pauses of up to 32 s. But they are as rare as maxBlind allows (I5, I7).
func (s *Sweep) lookIsDue(ctx context.Context) error {
	for s.pacer.Paused() && time.Since(s.lastLook()) < pausedLook {
		if err := pace.Sleep(ctx, s.options.lookInterval); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// lastLook returns when the last look that saw the epoch began.
func (s *Sweep) lastLook() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.LookedAt
}

// pressing returns the context for the requests of a look that is due: they wait for the end of a pause only as long as
// the look can wait.
func (s *Sweep) pressing(ctx context.Context) context.Context {
	latest := time.Now()
	if !s.pacer.Paused() {
		latest = latest.Add(lookPatience)
	}
	return pace.HeldUntil(ctx, latest)
}

// leaseGrace is how long a server may write before a look can see it, because it serves requests shortly before its
// Lease exists. A shorter settle time shortens it, too.
const leaseGrace = 5 * time.Second

func (s *Sweep) grace() time.Duration { return min(leaseGrace, s.options.SettleTime) }

// position says how far the pass is at one moment: the newest resourceVersion that had been read, and
// checkpoint.Done and DoneAt before that.
type position struct {
	at     time.Time
	newest uint64
	done   string
	doneAt uint64
}

// position returns the position of the pass.
func (s *Sweep) position() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, doneAt := s.state.Done, s.state.DoneAt
	return position{done: done, doneAt: doneAt, newest: s.newest.Load(), at: time.Now()}
}

// look confirms the epoch: everything that was read more than the grace period before the look was written while the
// epoch lasted.
//
// The processes of the epoch need not all answer again: a process that still has its Lease writes the same version as
// before, or nothing, and another process would have a Lease of its own.
func (s *Sweep) look(ctx context.Context, epoch Epoch) (Evidence, error) {
	before := s.position()
	now, err := s.agreement.Epoch(s.pressing(ctx))
	if err == nil {
		s.answer.Store(time.Now().UnixNano())
	}
	switch {
	case errors.Is(err, ErrDisagreement):
		return 0, fmt.Errorf("%w: %w", errEpochOver, err)
	case err != nil && !(errors.Is(err, ErrSilent) && s.identified(now)):
		return 0, err
	case !epoch.lasts(now):
		return 0, fmt.Errorf("%w: %s", errEpochOver, difference(epoch, now))
	case s.beganAgain(epoch, now):
		return 0, errBeganAgain
	}
	if !s.confirmTrail(before, s.identified(now) || now.Evidence >= min(epoch.Evidence, Observed)) {
		return 0, fmt.Errorf("%w: the API servers were not asked for more than %v", errEpochOver, maxBlind)
	}
	return now.Evidence, err
}

// beganAgain reports whether a look sees another epoch with the identity of the pass's epoch: one that can have begun
// after the pass did (I2). For a custom resource that changes nothing: whichever server came and went, the CRD told it
// what to write, and its generation is part of the identity. A look with weaker evidence than the pass has cannot tell
// when its epoch began, and says that it was at the latest now. A dry run proves nothing, and need not start over.
func (s *Sweep) beganAgain(epoch, now Epoch) bool {
	return !told(epoch) && now.Evidence >= min(epoch.Evidence, Observed) && now.began().After(s.began) &&
		!s.options.DryRun
}

// identified reports whether an epoch identifies the processes that write by Leases, which show every process.
func (s *Sweep) identified(e Epoch) bool {
	return len(e.Servers) > 0 && s.wire.target.Origin != Aggregated
}

// confirmTrail adds a look that began when before was recorded. If the look can tell (tells), everything that was read
// more than the grace period before it is confirmed. If too much time has passed since the previous look, it does
// nothing and returns false.
func (s *Sweep) confirmTrail(before position, tells bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.followed(before.at) {
		return false
	}
	s.state.LookedAt = before.at
	s.trail = append(s.trail, before)
	for len(s.trail) > 0 && before.at.Sub(s.trail[0].at) >= s.grace() {
		if tells {
			s.state.confirm(s.trail[0])
		}
		s.trail = s.trail[1:]
	}
	return true
}

// linger continues to look for the grace period after the epoch is over and the pass has ended. As long as servers only
// left, the writes until then are confirmed as they would have been within the epoch, so the next pass need not repeat
// them. Since tells whether another server has come and gone in the meantime, apart from the time between the last look
// that saw the epoch and the first one that did not: there it tells of the server that left.
func (s *Sweep) linger(ctx context.Context, epoch Epoch, over error) {
	starting, release := s.untilStopped(ctx)
	defer release()
	end := s.position().at
	if !told(epoch) && (errors.Is(over, errBeganAgain) || end.Sub(s.lastLook()) > clockError) {
		return
	}
	s.wait("for what was written last to be confirmed")
	for began := (time.Time{}); ; {
		if s.lookIsDue(starting) != nil {
			return
		}
		before := s.position()
		now, err := s.agreement.Epoch(s.pressing(starting))
		switch {
		case err != nil && before.at.Sub(end) > 2*s.grace(), errors.Is(err, ErrDisagreement), starting.Err() != nil:
			return
		case err != nil && !(errors.Is(err, ErrSilent) && s.identified(now)):
		case !told(epoch) && !began.IsZero() && now.began().After(began.Add(clockError)):
			return
		case !epoch.lostServers(now) || !s.identified(now) || !s.confirmTrail(before, true) ||
			before.at.Sub(end) >= s.grace():
			return
		case began.IsZero():
			began = now.began()
		}
		if pace.Sleep(starting, s.options.lookInterval) != nil {
			return
		}
	}
}

// confirm looks until a look succeeds. This is the comparison at the end, without which nothing is proven (I2). If the
// evidence is weaker than at the beginning, it gets a few more looks. If no CRD tells servers what to write, confirm
// also waits for servers whose Lease appears late.
func (s *Sweep) confirm(starting untilStop, epoch Epoch) (Evidence, error) {
	s.enter(Confirming)
	if s.state.Counts.Done() > 0 && !told(epoch) {
		if err := pace.Sleep(starting, s.grace()); err != nil {
			return 0, err
		}
	}
	deadline := time.Now().Add(s.options.AgreementTimeout)
	patience := 5
	for {
		if err := s.lookIsDue(starting); err != nil {
			return 0, err
		}
		evidence, err := s.look(starting, epoch)
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
		if err := pace.Sleep(starting, s.options.lookInterval); err != nil {
			return 0, err
		}
	}
}

// told reports whether a CustomResourceDefinition tells every API server what to write, including one that has just
// started and has no Lease yet: a server that serves a custom resource has read the CRD since it started. The last look
// shows the CRD's generation after the last write, so no server that this look cannot see can have written another
// version.
func told(epoch Epoch) bool { return epoch.CRDUID != "" && epoch.CRDGeneration > 0 }

// difference says how two epochs differ.
func difference(was, is Epoch) string {
	switch {
	case was.CRDUID != is.CRDUID:
		return "the CustomResourceDefinition was deleted and created again"
	case was.Hash != is.Hash:
		return fmt.Sprintf("the storage version changed (hash %s, now %s)", was.Hash, is.Hash)
	case was.CRDGeneration != is.CRDGeneration:
		return fmt.Sprintf("the CustomResourceDefinition was changed (generation %d, now %d)",
			was.CRDGeneration, is.CRDGeneration)
	case was.Declared != is.Declared:
		return "what the API servers publish as their StorageVersion changed"
	}
	return fmt.Sprintf("API servers were started or stopped (%d before, %d now)", len(was.Servers), len(is.Servers))
}
