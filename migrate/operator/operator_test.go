// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package operator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What controller-runtime's package manager has as Runnable and LeaderElectionRunnable.
var _ interface {
	Start(ctx context.Context) error
	NeedLeaderElection() bool
} = (*Migration)(nil)

func TestAFailedMigrationIsTriedAgainEverLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var attempts []time.Duration
		new(Migration).repeat(t.Context(), func(context.Context) error {
			if attempts = append(attempts, time.Since(began)); len(attempts) < 12 {
				return errors.New("not yet")
			}
			return nil
		})
		if want := []time.Duration{0, 10 * time.Second, 30 * time.Second}; !slices.Equal(attempts[:3], want) {
			t.Errorf("the first attempts were after %v, want %v", attempts[:3], want)
		}
		if last := attempts[11] - attempts[10]; last != longestWait {
			t.Errorf("the last wait was %v, want %v", last, longestWait)
		}
	})
}

func TestTheEndOfTheContextEndsTheRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		attempts := 0
		began := time.Now()
		new(Migration).repeat(ctx, func(context.Context) error {
			attempts++
			return errors.New("not yet")
		})
		if took := time.Since(began); attempts != 2 || took != 15*time.Second {
			t.Errorf("%d attempts in %v, want 2 in 15s", attempts, took)
		}
	})
}
