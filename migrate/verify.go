// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// maxVerifications is how often the second pass is repeated because it found objects that were not current.
const maxVerifications = 3

// verify is the second pass over all objects, if the options ask for one, or if the evidence of the epoch is too weak
// without it: it may have missed an API server. Then the pass begins a settle time after the last write, over another
// connection, which a load balancer may lead to another server, and it counts only if no object had been stored in
// another version in the meantime (docs/adr/0033-a-second-pass-where-servers-are-hidden.md).
func (s *Sweep) verify(ctx context.Context, starting untilStop) error {
	hidden := s.hidden()
	if !s.options.Verify && !hidden || s.options.DryRun || s.state.Counts.Failed > 0 {
		return nil
	}
	for again := 1; ; again++ {
		if hidden && (s.state.Counts.Done() > 0 || again > 1) {
			if err := s.waitForWrites(starting); err != nil {
				return err
			}
		}
		if err := s.secondPass(ctx, starting); err != nil {
			return err
		}
		switch {
		case !hidden || s.state.Counts.Failed > 0:
			return nil
		case s.moved == 0:
			s.update(func() { s.state.Epoch.Evidence = Verified })
			return nil
		case again == maxVerifications:
			return fmt.Errorf("%w: each of %d passes found objects that had been stored in another version since the one "+
				"before, the last pass %d: an API server that was not asked may write that version", ErrNotProven, again, s.moved)
		}
		s.log.Info("Objects had been stored in another version since the first pass, verifying again")
	}
}

// hidden reports whether the epoch may have API servers that were not asked, and a second pass is to make up for that.
func (s *Sweep) hidden() bool {
	return s.state.Epoch.Evidence < Observed && s.options.MinEvidence == Verified
}

// concluded reports whether a pass that was complete before needs no second one: nothing can have happened since that a
// look would not show, or a second pass could not add what is asked for.
func (s *Sweep) concluded(now Evidence) bool {
	evidence := min(now, s.state.Epoch.Evidence)
	return s.options.MinEvidence != Verified || evidence >= Observed
}

// confirmed is confirm and, if an API server can no longer be asked, the second pass that makes up for it.
func (s *Sweep) confirmed(ctx context.Context, starting untilStop, epoch Epoch) (Evidence, error) {
	evidence, err := s.confirm(starting, epoch)
	if err != nil || evidence >= s.state.Epoch.Evidence.AtOnce() {
		return evidence, err
	}
	s.update(func() { s.state.Epoch.Evidence = evidence })
	if !s.hidden() {
		return evidence, nil
	}
	if err := s.verify(ctx, starting); err != nil {
		return 0, err
	}
	return s.confirm(starting, epoch)
}

// waitForWrites waits until an API server that was not asked has had a settle time in which to write, and makes the next
// requests use another connection.
func (s *Sweep) waitForWrites(starting untilStop) error {
	until := time.Now().Add(s.options.SettleTime)
	s.wait("until " + until.Format(time.TimeOnly) + ": not every API server can be asked, so all objects are read again then")
	if err := pace.Sleep(starting, s.options.SettleTime); err != nil {
		return err
	}
	if s.reconnect == nil {
		return nil
	}
	client, err := s.reconnect()
	if err != nil {
		return err
	}
	s.wire.client = client // no request is in flight
	return nil
}

// secondPass patches every object once more.
func (s *Sweep) secondPass(ctx context.Context, starting untilStop) error {
	s.enter(Verifying)
	s.update(func() { s.moved = 0 })
	return s.pages(starting, "", func(p page, first bool) error {
		if first {
			s.update(func() { s.verified = 0 })
		}
		_, failures, err := s.each(ctx, starting, p.objects, s.rest)
		if err != nil {
			return err
		}
		s.update(func() {
			s.live = Counts{}
			s.verified += int64(len(p.objects))
			s.state.Counts.unsettle(int64(len(failures)))
			s.state.fail(failures)
		})
		return nil
	})
}

// rest patches an object until its resourceVersion no longer changes. It reads the object first: other clients write some
// objects all the time, and what they write between the two requests says nothing about the bytes that were stored.
func (s *Sweep) rest(ctx context.Context, starting untilStop, o object) (Counts, *Failure, error) {
	if len(o.loses) > 0 && s.state.current(o) {
		return Counts{}, nil, nil // its managedFields name what it had lost before it was written in this epoch
	}
	for attempt, moved := 1, false; ; attempt++ {
		now, err := s.read(starting, o)
		after := now
		if err == nil {
			after, _, err = s.patch(ctx, starting, now)
		}
		switch {
		case classify(err) == missing:
			return s.rewrite(ctx, starting, o)
		case err != nil:
			return s.judge(starting, o, err)
		case after.resourceVersion == now.resourceVersion:
			return Counts{}, nil, nil
		case written(now, after) && attempt >= maxMoves && !moved:
			return Counts{}, nil, nil
		case attempt >= maxMoves:
			return Counts{}, failureOf(after, Conflicting,
				fmt.Sprintf("each of %d empty patches wrote the object again", attempt)), nil
		case !written(now, after):
			moved = true
			s.update(func() { s.moved++ })
		}
		o = after
	}
}

// written reports whether a client wrote an object between two readings: what a client or a controller changes is in
// managedFields, in the metadata, or counts a generation. That the API server drops managedFields is no write.
func written(before, after object) bool {
	return before.uid != after.uid || before.generation != after.generation || before.labels != after.labels ||
		before.owners != after.owners && after.owners != 0
}
