// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

func TestALeaderRenewsItsLeaseWhileTheAPIServerAsksEverythingElseToWait(t *testing.T) {
	i := newInstaller(t, testbed.Options{})
	i.run(exit.Done, "install", "--wait=false")
	proxy := testbed.NewProxy(t, i.cluster)
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var log lockedBuilder
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{
			"kube-migrator", "controller", "--kubeconfig", kubeconfig, "--worker-image=x",
			"--bootstrap=none", "--lease-duration=3s",
			"--metrics-bind-address=0", "--health-probe-bind-address=0",
		}, Streams{In: strings.NewReader(""), Out: &log, Err: &log})
	}()
	renewals := func(since time.Time) (n int) {
		for _, r := range proxy.Records() {
			if r.Method == http.MethodPut && strings.HasSuffix(r.Path, "/leases/kube-migrator-controller") &&
				r.Status == http.StatusOK && r.Begin.After(since) {
				n++
			}
		}
		return n
	}
	const path = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	i.eventually("the controller leads", func() bool { return renewals(time.Time{}) > 0 })
	proxy.SetRules(testbed.Rule{Fault: testbed.TooManyRequests(30 * time.Second), Match: testbed.PathContains(path)})
	post(t, i.client, path, `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"secrets"},"spec":{"resource":{"resource":"secrets"}}}`)
	var closed time.Time
	i.eventually("everything has to wait", func() bool {
		for _, r := range proxy.Records() {
			if r.RetryAfter > 0 && !r.End.IsZero() {
				closed = r.End
			}
		}
		return !closed.IsZero()
	})
	select {
	case code := <-ended:
		t.Fatalf("the controller ended with the code %d:\n%s", code, log.String())
	case <-time.After(5 * time.Second): // more than the Lease lasts
	}
	if n := renewals(closed.Add(time.Second)); n < 3 {
		t.Errorf("the Lease was renewed %d times while everything else waited", n)
	}
	stop()
	<-ended
}
