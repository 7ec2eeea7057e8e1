// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// repeat looks again and again until the context ends.
func (t *trigger) repeat(ctx context.Context, look func(context.Context) (complete bool, err error)) error {
	incomplete, onlyCRDs := 0, false // whether only CRDs have asked for the look
	for ctx.Err() == nil {
		begin := time.Now()
		if !begin.Before(t.lookAgain) {
			t.lookAgain = time.Time{}
		}
		t.journal.calm()
		complete, err := look(ctx)
		t.metrics.looked(begin, time.Now(), complete, err)
		t.rested = time.Now().Add(min(time.Since(begin), time.Second))
		if onlyCRDs {
			t.budget.spend(time.Now(), time.Since(begin))
		}
		if errors.Is(err, ErrRestored) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			t.Logger.Warn("A look was incomplete or could not be recorded; retrying", "error", err)
		}
		wait := t.Period
		if complete && err == nil {
			incomplete = 0
		} else {
			incomplete++
			wait = min(wait, soon<<min(20, max(0, incomplete-patient)))
		}
		moved := t.pause(ctx, wait)
		if onlyCRDs = moved && !t.journal.presses(); moved && !onlyCRDs {
			incomplete = 0
		}
	}
	return nil
}

// pause waits for the next look, and records the results of migrations in the meantime. It reports whether something
// changed.
func (t *trigger) pause(ctx context.Context, wait time.Duration) (moved bool) {
	end := t.unlessAgain(time.Now().Add(wait))
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	var results <-chan time.Time // once results of migrations are due
	again := time.NewTicker(pausedEvery)
	defer again.Stop()
	asked := time.NewTicker(permitEvery)
	defer asked.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
			if t.paused != "" && t.resumed(ctx) || t.isAnswered(ctx) {
				return true
			}
		case <-asked.C:
			if t.mayMore(ctx) {
				return true
			}
		case <-timer.C:
			return moved
		case <-t.moved:
			moved = true
			t.react(ctx)
			if due := t.due(time.Now()); due.Before(end) {
				end = due
				timer.Reset(time.Until(end))
			}
		case <-t.changed:
			if results == nil {
				results = time.After(gatherResults)
			}
		case <-results:
			results = nil
			look, err := t.settle(ctx)
			if err != nil && ctx.Err() == nil {
				t.Logger.Warn("Could not record the result of a migration; retrying", "error", err)
				_ = pace.Sleep(ctx, soon)
			}
			if look || err != nil {
				return true
			}
			end = t.unlessAgain(end)
			timer.Reset(time.Until(end))
		}
	}
}

// unlessAgain returns when the next look begins: at end, unless one is needed earlier that completes proofs.
func (t *trigger) unlessAgain(end time.Time) time.Time {
	if !t.lookAgain.IsZero() && t.lookAgain.Before(end) {
		return t.lookAgain
	}
	return end
}

// due returns when a look begins after something has changed.
func (t *trigger) due(now time.Time) time.Time {
	due := now.Add(gather)
	if due.Before(t.rested) {
		due = t.rested
	}
	if from := t.budget.from(); !t.journal.presses() && due.Before(from) {
		due = from
	}
	return due
}
