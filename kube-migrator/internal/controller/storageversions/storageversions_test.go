// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversions

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func TestTheLoopLooksAsOftenAsTheCollectorAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var looks []time.Duration
		begun := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		waits := []time.Duration{time.Second, 5 * time.Second, 2 * time.Second, 10 * time.Second}
		l := &loop{log: slog.New(slog.NewTextHandler(&log, nil)), idle: func() bool { return false },
			watch: func(context.Context) error { return nil }}
		l.collect = func(context.Context) (time.Duration, error) {
			looks = append(looks, time.Since(begun))
			var err error
			switch n := len(looks); {
			case n == 2 || n == 3:
				err = errors.New("conflict")
			case n == len(waits):
				stop()
			}
			return waits[len(looks)-1], err
		}
		if err := l.Start(ctx); err != nil {
			t.Error(err)
		}
		if len(looks) != 4 || looks[1] != time.Second || looks[2] != 6*time.Second || looks[3] != 8*time.Second {
			t.Errorf("it looked after %v", looks)
		}
		if n := strings.Count(log.String(), "conflict"); n != 1 {
			t.Errorf("a problem that lasts was logged %d times:\n%s", n, log.String())
		}
	})
}

func TestTheLoopWaitsForTheFirstObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var looks []time.Duration
		begun, objects := time.Now(), 0
		l := &loop{log: slog.New(slog.DiscardHandler), created: make(chan struct{}, 1),
			idle: func() bool { return objects == 0 }, watch: func(context.Context) error { return nil }}
		l.collect = func(context.Context) (time.Duration, error) {
			looks = append(looks, time.Since(begun))
			if len(looks) == 5 {
				stop()
			}
			return 5 * time.Second, nil
		}
		go func() {
			time.Sleep(7 * time.Minute)
			objects++
			l.created <- struct{}{}
		}()
		if err := l.Start(ctx); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, idleFor, 7 * time.Minute, 7*time.Minute + 5*time.Second, 7*time.Minute + 10*time.Second}
		if !slices.Equal(looks, want) {
			t.Errorf("it looked after %v, want %v", looks, want)
		}
	})
}

func TestOnlyTheLeaderCollects(t *testing.T) {
	if r, ok := any(&loop{}).(manager.LeaderElectionRunnable); !ok || !r.NeedLeaderElection() {
		t.Error("every replica would collect")
	}
}
