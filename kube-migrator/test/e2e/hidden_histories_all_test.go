// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAServerBehindTheBalancerThatIsAnotherOneForAMomentEndsTheEpoch(t *testing.T) {
	replacedForAMoment(t, testbed.BeforeUpgrade(), testbed.AfterUpgrade(), bindings)
}

// replacedForAMoment has one of three servers behind a balancer replaced in the middle of a run, by one of an older
// release that stores an object in its own version, and that one again by one of the present release.
func replacedForAMoment(t *testing.T, before, after testbed.Edition, what written) {
	const objects, rate = 60, 6
	cluster := testbed.New(t, testbed.Options{Isolated: true, Flags: []string{oneAddress},
		Servers: []testbed.ServerOptions{after.Options(), before.Options(), after.Options()}})
	server := cluster.Servers[1]
	become := func(e testbed.Edition) {
		t.Helper()
		server.Kill() // as its Lease stays, the next process takes that over before 1.35
		if err := server.RestartWith(t.Context(), e.Options()); err != nil {
			t.Fatal(err)
		}
	}
	create := func(name string) {
		t.Helper()
		status, answer, err := server.Do(t.Context(), http.MethodPost, what.path, mustJSON(map[string]any{
			"apiVersion": what.kind.Group + "/" + what.version(), "kind": what.kind.Kind,
			"metadata": map[string]any{"name": name}, "spec": what.spec,
		}))
		if err != nil || status != http.StatusCreated {
			t.Fatalf("create: %d %s (%v)", status, answer, err)
		}
	}
	for i := range objects {
		create(fmt.Sprint("object-", i))
	}
	become(after)

	tool := newCLIWith(t, cluster, balancerOf(t, cluster))
	run := []string{"migrate", what.kind.Name(), "--settle-time=1s", "-o", "json"}
	_, wait := tool.start(append(run, fmt.Sprint("--max-rate=", rate))...)
	eventually(t, "some objects are rewritten", func() bool {
		return stored(t, cluster, what.kind.Prefix)[after.Stores] > 0
	})
	become(before)
	create("late")
	become(after)
	if held := stored(t, cluster, what.kind.Prefix); held[before.Stores] < objects/4 {
		t.Fatalf("etcd holds %v: the run was nearly over", held)
	}

	// It says that it is not proven, or has found what was stored in between.
	all := map[string]int{after.Stores: objects + 1}
	out := wait()
	diff := cmp.Diff(all, stored(t, cluster, what.kind.Prefix))
	t.Logf("exit code %d; etcd (-all +got):\n%s\n%s", out.code, diff, out.stderr)
	if out.code == 0 && diff != "" || out.code != 0 && out.code != 3 {
		t.Errorf("exit code %d", out.code)
	}
	if m := report(t, tool.run(0, append(run, anyRate)...)); m.Result.Epoch.Evidence != migrate.Observed {
		t.Errorf("the evidence is %s", m.Evidence)
	}
	wantStored(t, cluster, what.kind.Prefix, all)
}

// A server that does not learn that the storage version of a CRD has moved stores new objects in the old one. Behind a
// balancer that leads to it, it is asked; otherwise what it stores is noticed.
func TestAServerThatDoesNotLearnOfACRDsChangeIsNoticed(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{Isolated: true, Flags: []string{oneAddress},
		Servers: make([]testbed.ServerOptions, 2)})
	installStale(t, cluster, testbed.Bulk{Count: 20}, testbed.Widgets{})
	server, etcd := cluster.Servers[1], newLink(t, cluster, "127.0.0.99:2379", "/customresourcedefinitions/")
	if err := server.RestartWith(t.Context(), testbed.ServerOptions{
		Flags: []string{"--etcd-servers=http://127.0.0.99:2379"}}); err != nil {
		t.Fatal(err)
	}
	asked := newCLIWith(t, cluster, balancerOf(t, cluster))
	asked.migrate(0, "widgets")
	proxy := testbed.NewProxy(t, cluster) // leads to the first server alone
	kubeconfig, err := proxy.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	tool := newCLIWith(t, cluster, kubeconfig)
	learn := etcd.holdBack()
	defer learn()
	if _, err := cluster.EditCRD(t.Context(), testbed.WidgetCRD, func(crd map[string]any) {
		for _, v := range crd["spec"].(map[string]any)["versions"].([]any) {
			v := v.(map[string]any)
			v["storage"] = v["name"] == "v1"
		}
	}); err != nil {
		t.Fatal(err)
	}

	out := asked.run(3, "migrate", "widgets", "--settle-time=1s", "--agreement-timeout=5s")
	if text := out.stdout + out.stderr; !strings.Contains(text, "disagree") {
		t.Errorf("it does not say that the servers disagree:\n%s", text)
	}

	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := 0; pace.Sleep(ctx, 100*time.Millisecond) == nil; i++ {
			_, _, _ = server.Do(ctx, http.MethodPost, widgets.path, mustJSON(map[string]any{
				"apiVersion": v1, "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprint("late-", i)},
				"spec": widgets.spec,
			}))
		}
	}()
	m := tool.migrate(3, "widgets")
	cancel()
	<-written
	if m.Result.Proven || !strings.Contains(m.Error, "stored in another version") {
		t.Errorf("proven %t: %s (%s)", m.Result.Proven, m.Error, m.Evidence)
	}

	learn()
	eventually(t, "the server has learnt it", func() bool {
		hash, err := server.Shows(t.Context(), widgetKind)
		return err == nil && hash == widgetKind.Hash(v1)
	})
	if m = tool.migrate(0, "widgets"); m.Result.Epoch.Evidence != migrate.Verified {
		t.Errorf("the evidence is %s", m.Evidence)
	}
	if held := stored(t, cluster, testbed.WidgetsPrefix); len(held) != 1 || held[v1] <= 20 {
		t.Errorf("etcd holds %v", held)
	}
}

// link is a way to etcd. What etcd tells of one resource can be held back.
type link struct{ told sync.RWMutex }

// newLink listens for the connections of an API server, which uses one for each resource. Those in which the server
// asks about keys that contain the text are held back.
func newLink(t *testing.T, cluster *testbed.Cluster, address, text string) *link {
	t.Helper()
	listener, err := cluster.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	l, ctx := new(link), t.Context()
	var work sync.WaitGroup
	work.Go(func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := cluster.DialContext(ctx, "tcp", strings.TrimPrefix(cluster.Etcd.Endpoint(), "http://"))
			if err != nil {
				_ = down.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = down.Close(), up.Close() })
			var meant atomic.Bool
			work.Go(func() {
				pass(up, down, func(data []byte) { meant.Store(meant.Load() || bytes.Contains(data, []byte(text))) })
			})
			work.Go(func() {
				pass(down, up, func([]byte) {
					if meant.Load() {
						l.told.RLock()
						defer l.told.RUnlock()
					}
				})
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); work.Wait() }) // the context has ended
	return l
}

// pass copies until one of both ends. It shows what it has read before it passes it on.
func pass(to, from net.Conn, show func([]byte)) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if show(buffer[:n]); n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// holdBack holds back what etcd tells until the function that it returns is called.
func (l *link) holdBack() (release func()) {
	l.told.Lock()
	return sync.OnceFunc(l.told.Unlock)
}
