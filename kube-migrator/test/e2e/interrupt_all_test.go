// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestASecondInterruptEndsAtOnce(t *testing.T) {
	t.Parallel()
	const inFlight = time.Minute
	cluster := staleWidgets(t, 50, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	proxy.SetRules(testbed.Rule{Match: testbed.Method("PATCH"), Fault: testbed.Latency(inFlight)})
	command, wait := user.start("migrate", "widgets", "--settle-time=1s", anyRate, anyInFlight, "-o", "json")
	eventually(t, "requests are in flight", func() bool { return len(patches(proxy)) > 0 })
	ended := make(chan output, 1)
	go func() { ended <- wait() }()
	interrupt(t, command.Process)
	select {
	case out := <-ended:
		t.Fatalf("one interrupt ended it with requests in flight:\n%s\n%s", out.stdout, out.stderr)
	case <-time.After(time.Second):
	}
	began := time.Now()
	interrupt(t, command.Process)

	out := <-ended

	if took := time.Since(began); out.code != 130 || took > inFlight/4 {
		t.Errorf("exit code %d after %v, want 130 at once\n%s\n%s", out.code, took, out.stdout, out.stderr)
	}
	wantClaimed(t, cluster, "v1", "v2")
}
