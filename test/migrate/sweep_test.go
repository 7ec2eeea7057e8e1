// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

var widgetsV2 = migrate.Target{
	Resource: schema.GroupVersionResource{Group: testbed.WidgetGroup, Version: "v2", Resource: "widgets"},
	Kind:     "Widget", Namespaced: true, Origin: migrate.Custom,
}

// stale makes a cluster that stores n widgets as v1 while their storage version is v2.
func stale(t *testing.T, n int) *testbed.Cluster {
	t.Helper()
	cluster := testbed.New(t, testbed.Options{})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BulkCreate(t.Context(), testbed.Bulk{Count: n}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func newSweep(t *testing.T, cluster *testbed.Cluster, target migrate.Target, options migrate.Options) *migrate.Sweep {
	t.Helper()
	config := cluster.Config()
	servers, err := agreement.New(config, target, agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if options.SettleTime == 0 {
		options.SettleTime = time.Second
	}
	sweep, err := migrate.New(config, target, servers, options)
	if err != nil {
		t.Fatal(err)
	}
	return sweep
}

func stored(t *testing.T, cluster *testbed.Cluster, prefix string) map[string]int {
	t.Helper()
	versions, err := cluster.StoredVersions(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

// wantAllInV2 expects that etcd holds a number of widgets in v2, with the content that they had before (I3).
func wantAllInV2(t *testing.T, cluster *testbed.Cluster, before testbed.Snapshot, objects int) {
	t.Helper()
	if diff := compare.Diff(map[string]int{testbed.WidgetGroup + "/v2": objects},
		stored(t, cluster, testbed.WidgetsPrefix)); diff != "" {
		t.Errorf("stored versions (-want +got):\n%s", diff)
	}
	after, err := cluster.Snapshot(t.Context(), testbed.WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if changes := before.Diff(after); !changes.None() {
		t.Errorf("the sweep changed objects (I3): %+v", changes)
	}
}

func TestASweepRewritesEveryObjectAndProvesIt(t *testing.T) {
	cluster := stale(t, 2000)
	before, err := cluster.Snapshot(t.Context(), testbed.WidgetsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	sweep := newSweep(t, cluster, widgetsV2, migrate.Options{Verify: true})
	result, err := sweep.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", result)
	t.Logf("%+v", sweep.Progress().Pace)
	wantAllInV2(t, cluster, before, 2000)
	if diff := compare.Diff(migrate.Counts{Rewritten: 2000}, result.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if !result.Proven || !result.Verified || result.Epoch.Evidence != migrate.Observed {
		t.Errorf("result = %+v, want it proven and verified by observed servers", result)
	}
	t.Run("targets are found", func(t *testing.T) { found(t, cluster) })
	t.Run("a bandwidth is kept, and counted as the server sees it", func(t *testing.T) { bounded(t, cluster, 2000) })
	t.Run("no object loses a field", func(t *testing.T) { randomly(t, cluster) })
	t.Run("what no server can read", func(t *testing.T) { unreadable(t, cluster) })
}

// found asks a real API server for resources of each kind that it serves itself.
func found(t *testing.T, cluster *testbed.Cluster) {
	for name, want := range map[schema.GroupResource]migrate.Target{
		widgetsV2.GroupResource(): widgetsV2,
		{Resource: "secrets"}: {Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret",
			Namespaced: true, Origin: migrate.BuiltIn},
		{Group: "apps", Resource: "deployments"}: {Resource: schema.GroupVersionResource{Group: "apps", Version: "v1",
			Resource: "deployments"}, Kind: "Deployment", Namespaced: true, Origin: migrate.BuiltIn},
	} {
		got, err := migrate.Find(t.Context(), cluster.Config(), name)
		if err != nil || got != want {
			t.Errorf("found %+v (%v), want %+v", got, err, want)
		}
	}
	unknown := schema.GroupResource{Group: testbed.WidgetGroup, Resource: "gadgets"}
	if got, err := migrate.Find(t.Context(), cluster.Config(), unknown); !errors.Is(err, migrate.ErrResourceGone) {
		t.Errorf("found %+v (%v), want ErrResourceGone", got, err)
	}
}

// overhead is what headers, HTTP/2 and TLS add to the bodies of one request and its answer at most, in bytes.
const overhead = 400

// bounded sweeps once more, through a connection and a transport that count.
func bounded(t *testing.T, cluster *testbed.Cluster, objects int64) {
	const bytesPerSecond = 400_000
	var bodies, requests, wire atomic.Int64
	config := cluster.Config()
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := cluster.DialContext(ctx, network, address)
		return &countedConn{conn, &wire}, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && strings.HasPrefix(r.URL.Path, "/apis/"+testbed.WidgetGroup+"/v2/") {
				requests.Add(1)
				bodies.Add(max(r.ContentLength, 0))
				response.Body = &countedBody{response.Body, &bodies}
			}
			return response, err
		})
	})
	servers, err := agreement.New(cluster.Config(), widgetsV2, agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := migrate.New(config, widgetsV2, servers,
		migrate.Options{SettleTime: time.Second, MaxBytesPerSecond: bytesPerSecond})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	result, err := sweep.Run(t.Context())
	if err != nil || result.Counts.Done()-result.Counts.Failed != objects {
		t.Fatalf("%+v, %v", result, err)
	}
	t.Logf("%d bytes counted, %d bytes of bodies in %d requests, %d bytes on the connection", result.Bytes,
		bodies.Load(), requests.Load(), wire.Load())
	if least := time.Duration(
		float64(result.Bytes-bytesPerSecond) / bytesPerSecond * float64(time.Second),
	); time.Since(begin) < least || result.Bytes < 2*bytesPerSecond {
		t.Errorf("%d bytes took %v, want at least %v", result.Bytes, time.Since(begin), least)
	}
	// Preflight asks a few things besides, once.
	const preflight = 20_000
	if got := result.Bytes; got < bodies.Load() || got > bodies.Load()+preflight {
		t.Errorf("counted %d bytes, and the transport %d", got, bodies.Load())
	}
	if added := wire.Load() - result.Bytes; added < 0 || added > overhead*requests.Load()+preflight {
		t.Errorf("counted %d bytes, and the connection carried %d: %d more for each of %d requests, want at most %d",
			result.Bytes, wire.Load(), added/requests.Load(), requests.Load(), overhead)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
