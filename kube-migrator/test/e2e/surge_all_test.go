// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// A surge replacement: the new API server serves next to the old one before that is told to end. Behind load balancers
// the old one accepts writes for its shutdown delay, without a Lease and without being listed, and it writes the old
// version. Nothing is proven while it can, neither by a run that saw it before nor by one that began after it was told
// to end.
func TestNothingIsProvenWhileAReplacedServerAcceptsWrites(t *testing.T) {
	t.Parallel()
	const delay = 15 * time.Second
	replaced := append([]string{"--shutdown-delay-duration=" + delay.String()}, heldBack.Flags...)
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136, Isolated: true,
		Servers: []testbed.ServerOptions{{Flags: replaced}, {}}})
	a := cluster.Servers[0]
	proxy := testbed.NewProxy(t, cluster)
	proxy.Target(cluster.Servers[1])
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, name string) bool {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		status, _, err := a.Do(ctx, http.MethodPost, deviceClasses.path, mustJSON(map[string]any{
			"apiVersion": deviceNew, "kind": "DeviceClass", "metadata": map[string]any{"name": name},
			"spec": map[string]any{},
		}))
		return err == nil && status == http.StatusCreated
	}
	wantListed(t, cluster)
	if !write(t.Context(), "before") {
		t.Fatal("the server to be replaced does not write")
	}
	_, before := newCLIWith(t, cluster, kubeconfig).start("migrate", deviceClasses.kind.Name(), "--settle-time=1s", anyRate,
		anyInFlight, "--shutdown-delay=0", "-o", "json")
	eventually(t, "it has looked", func() bool { // a look ends with the Leases that it began with
		leases := 0
		for _, r := range proxy.Records() {
			if strings.HasSuffix(r.Path, "/leases") && r.Status == http.StatusOK {
				leases++
			}
		}
		return leases > 3
	})

	var written, accepted atomic.Int64
	writing, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; writing.Err() == nil; n++ {
			if begin := time.Now(); write(writing, fmt.Sprintf("late-%d", n)) {
				written.Store(begin.UnixNano())
				accepted.Add(1)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	defer writer.Wait()
	defer stop()
	told := time.Now()
	if err := a.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Lease of the replaced server is gone",
		func() bool { return len(leasesOf(t, cluster.Servers[1])) == 1 })
	_, after := newCLIWith(t, cluster, kubeconfig).start("migrate", deviceClasses.kind.Name(), "--settle-time=1s", anyRate,
		"--shutdown-delay="+(delay+5*time.Second).String(), "-o", "json")

	for name, wait := range map[string]func() output{"the run that saw it": before, "the run that began later": after} {
		got := succeeded(t, wait())
		ended, last := got.Result.Ended, time.Unix(0, written.Load())
		t.Logf("%s ended %v, writes were accepted until %v after it was told to end", name,
			ended.Sub(told), last.Sub(told))
		if since := got.Result.Epoch.Since; !got.Result.Proven || since.Before(last) {
			t.Errorf("%s: proven %t in an epoch since %v, and a write was accepted at %v", name,
				got.Result.Proven, since, last)
		}
	}
	if last := time.Unix(0, written.Load()).Sub(told); last < delay/2 {
		t.Errorf("the replaced server accepted writes for %v only", last)
	}
	wantStored(t, cluster, deviceClasses.kind.Prefix, map[string]int{deviceNew: 1 + int(accepted.Load())})
}

// leasesOf are the identity Leases of kube-apiservers.
func leasesOf(t *testing.T, s *testbed.Server) []any {
	t.Helper()
	_, answer, err := s.Do(t.Context(), http.MethodGet,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity=kube-apiserver", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []any }
	if err := json.Unmarshal(answer, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
