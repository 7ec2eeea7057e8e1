// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversions

import (
	"context"
	"errors"
	"log/slog"
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
		l := &loop{log: slog.New(slog.NewTextHandler(&log, nil))}
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

func TestOnlyTheLeaderCollects(t *testing.T) {
	if r, ok := any(&loop{}).(manager.LeaderElectionRunnable); !ok || !r.NeedLeaderElection() {
		t.Error("every replica would collect")
	}
}
