// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestAnIdleControllerCostsNextToNothing(t *testing.T) {
	const idle = 5 * time.Minute
	c := newControlled(t, testbed.New(t, testbed.Options{}))
	proxy := testbed.NewProxy(t, c.cluster)
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	c.kubeconfig = kubeconfig
	// Everything is migrated once: idle is what a controller is afterwards.
	p := c.controller("--auto-trigger", "--bootstrap=all", "--lease-duration=15s", "--max-concurrent-migrations=4")
	for deadline := time.Now().Add(10 * time.Minute); !c.allSucceeded(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("not all has succeeded within 10 minutes")
		}
	}
	time.Sleep(5 * time.Second)
	proxy.Forget()
	time.Sleep(time.Minute)
	afterAMinute, err := testbed.UsageOf(p.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(idle - time.Minute)
	requests := len(proxy.Records())
	usage, err := testbed.UsageOf(p.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	rate := float64(requests) / idle.Seconds()
	t.Logf("%d requests in %s: %.2f/s; RSS after a minute %.1f MiB, then %.1f MiB, peak %.1f MiB", requests, idle, rate,
		float64(afterAMinute.RSSBytes)/(1<<20), float64(usage.RSSBytes)/(1<<20), float64(usage.PeakRSSBytes)/(1<<20))
	if rate >= 1 {
		t.Errorf("%.2f requests per second, want less than 1", rate)
	}
	if usage.PeakRSSBytes >= 60<<20 {
		t.Errorf("peak RSS is %d MiB, want less than 60", usage.PeakRSSBytes>>20)
	}
}

// allSucceeded reports whether there are migrations, and nothing is left to do for any.
func (c *controlled) allSucceeded() bool {
	var list v1alpha1.StorageVersionMigrationList
	get(c.T, c.cluster, migrations, &list)
	return len(list.Items) > 0 && !slices.ContainsFunc(list.Items, func(m v1alpha1.StorageVersionMigration) bool {
		return m.Status.State != v1alpha1.PhaseSucceeded
	})
}
