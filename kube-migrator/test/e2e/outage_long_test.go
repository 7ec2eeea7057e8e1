// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestAnAPIServerThatDiesAgainAndAgainIsOutlived(t *testing.T) {
	t.Parallel()
	const n, times = 1200, 4
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	c.supervise()
	c.ask(v1alpha1.StorageVersionMigrationSpec{Pace: v1alpha1.Pace{MaxObjectsPerSecond: 80}})

	ctx, stop := context.WithCancel(t.Context())
	var observer sync.WaitGroup
	lies := make(chan string, 1)
	observer.Go(func() { c.watchForLies(ctx, n, lies) })
	for i := range times {
		c.rewrote((i + 1) * n / (times + 2))
		for range 1 + i%2 { // every second time once more before the sweep can go on
			c.cluster.Servers[0].Kill()
			if err := c.cluster.Servers[0].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	stop()
	observer.Wait()
	select {
	case lie := <-lies:
		t.Error(lie)
	default:
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	if m.Status.Run.Failures != 0 {
		t.Errorf("outages were taken for failures: %+v", m.Status.Run)
	}
}
