// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// One round of discovery with 300 crdsPath, each a group of its own, costs little more than a request per
// group-version.
func TestTheCostOfWatchingThreeHundredCRDs(t *testing.T) {
	t.Parallel()
	const things, period = 300, 20 * time.Second
	cluster := testbed.New(t, testbed.Options{})
	c := newControlled(t, cluster)
	if err := cluster.DefineThings(t.Context(), things, 20<<10); err != nil {
		t.Fatal(err)
	}
	proxy := testbed.NewProxy(t, cluster)
	var err error
	if c.kubeconfig, err = proxy.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	p := c.triggering("--bootstrap=none", "--discovery-period="+period.String())
	c.untilState("things.g299.example.com", "recorded",
		func(s *v1alpha1.StorageState) bool { return s.Status.CurrentVersion == "v1" })
	time.Sleep(2 * period) // what the start had to learn is learnt

	from := c.state("things.g299.example.com").Status.LastHeartbeatTime.Time
	proxy.Forget()
	c.untilState("things.g299.example.com", "looked at again",
		func(s *v1alpha1.StorageState) bool { return s.Status.LastHeartbeatTime.After(from) })
	groupVersions, requests := map[string]bool{}, 0
	for _, r := range proxy.Records() {
		if r.Method != http.MethodGet || r.Query.Get("watch") != "" || strings.Contains(r.Path, "/leases/") {
			continue
		}
		requests++
		if parts := strings.Split(strings.Trim(r.Path, "/"), "/"); parts[0] == "apis" && len(parts) == 3 ||
			parts[0] == "api" && len(parts) == 2 {
			groupVersions[r.Path] = true
		}
	}
	usage, err := testbed.UsageOf(p.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	perGroupVersion, mib := float64(requests)/float64(len(groupVersions)), float64(usage.PeakRSSBytes)/(1<<20)
	t.Logf("%d requests for %d group-versions: %.2f; peak RSS %.1f MiB", requests,
		len(groupVersions), perGroupVersion, mib)
	if len(groupVersions) < things {
		t.Errorf("%d group-versions were asked about, want at least %d", len(groupVersions), things)
	}
	if perGroupVersion > 1.2 {
		t.Errorf("%.2f requests per group-version, want at most 1.2", perGroupVersion)
	}
	if mib >= 100 {
		t.Errorf("peak RSS is %.1f MiB, want less than 100", mib)
	}
}
