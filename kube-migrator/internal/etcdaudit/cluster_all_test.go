// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package etcdaudit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// A real cluster, with what a cluster has after years: two versions of a custom resource, three encodings, encrypted
// secrets, updates, deletions and a compaction.
func TestAnAuditOfARealCluster(t *testing.T) {
	c := testbed.New(t, testbed.Options{
		EncryptionConfig: testbed.EncryptionConfig([]string{"secrets"}, "key1"),
		EtcdFlags:        []string{"--max-request-bytes=8388608"},
	})
	fill(t, c)
	// What follows compares looks at one state: no one may write in between.
	if err := c.Servers[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Servers[0].Start(t.Context()); err != nil { // the invariants are checked through it
			t.Error(err)
		}
	}()
	live := etcdaudit.Live{Endpoints: []string{c.Etcd.Endpoint()}}
	path := save(t, c)
	snapshot := etcdaudit.Snapshot{Path: path}

	t.Run("live and snapshot say the same", func(t *testing.T) {
		fromLive, fromFile := audit(t, live), audit(t, snapshot)
		if diff := cmp.Diff(objects(fromLive), objects(fromFile)); diff != "" {
			t.Errorf("rows (-live +snapshot):\n%s", diff)
		}
		want := map[string]int64{
			"demo.example.com/v1 json ": 1194, "demo.example.com/v2 json ": 6, "cbor.example.com/v1 cbor ": 1,
			" encrypted aescbc/key1": 2, " unknown ": 1,
		}
		got := map[string]int64{}
		for _, r := range fromFile.Rows {
			if slices.Contains([]string{"widgets.demo.example.com", "things.cbor.example.com", "secrets"}, r.Resource) {
				key := strings.TrimSuffix(r.EncryptionProvider+"/"+r.EncryptionKey, "/")
				got[fmt.Sprintf("%s %s %s", r.APIVersion, r.Encoding, key)] += r.Objects
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("widgets and secrets (-want +got):\n%s", diff)
		}
		if s := fromFile.Source; !s.ChecksumVerified || s.Revision != fromLive.Source.Revision || s.File != path {
			t.Errorf("snapshot's provenance %+v, want a verified checksum and revision %d", s, fromLive.Source.Revision)
		}
		if s := fromLive.Source; s.ClusterID == "" || s.MemberID == "" || s.FirstRevision != s.Revision {
			t.Errorf("live provenance %+v, want cluster, member and one revision", s)
		}
	})
	t.Run("built-in resources are named with their groups", func(t *testing.T) {
		got := map[string]string{}
		for _, r := range audit(t, live).Rows {
			got[r.Resource] = r.APIVersion + " " + r.Kind
		}
		for resource, want := range map[string]string{
			"namespaces": "v1 Namespace", "services": "v1 Service",
			"clusterroles.rbac.authorization.k8s.io":         "rbac.authorization.k8s.io/v1 ClusterRole",
			"customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/v1beta1 CustomResourceDefinition",
			"apiservices.apiregistration.k8s.io":             "apiregistration.k8s.io/v1 APIService",
			"priorityclasses.scheduling.k8s.io":              "scheduling.k8s.io/v1 PriorityClass",
		} {
			if got[resource] != want {
				t.Errorf("%s is stored as %q, want %q", resource, got[resource], want)
			}
		}
	})
	t.Run("a compaction while it is read", func(t *testing.T) { compactWhileReading(t, c, live) })
	t.Run("values larger than a page", func(t *testing.T) { readLarge(t, c, live) })
	t.Run("many keys, each once and in order", func(t *testing.T) { readMany(t, c, live) })
	t.Run("memory of a live audit", func(t *testing.T) { compareHeaps(t, c, live) })
	t.Run("the member's own file, and another name for it, are refused", func(t *testing.T) {
		own := filepath.Join(c.Etcd.DataDir(), "member", "snap", "db")
		other := filepath.Join(c.Dir(), "same-file")
		if err := os.Link(own, other); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{own, other} {
			_, err := etcdaudit.Audit(t.Context(), etcdaudit.Snapshot{Path: p}, etcdaudit.Options{})
			if !errors.Is(err, etcdaudit.ErrMemberFile) || !strings.Contains(err.Error(), "running") {
				t.Errorf("%s: got %v, want %v", p, err, etcdaudit.ErrMemberFile)
			}
		}
	})
	t.Run("https where etcd speaks http", func(t *testing.T) {
		_, err := etcdaudit.Audit(t.Context(), etcdaudit.Live{
			Endpoints: []string{strings.Replace(c.Etcd.Endpoint(), "http:", "https:", 1)},
			Timeout:   3 * time.Second,
		}, etcdaudit.Options{})
		if unreachable := (*etcdaudit.UnreachableError)(nil); !errors.As(err, &unreachable) ||
			!strings.Contains(fmt.Sprint(unreachable.Cause), "TLS") {
			t.Errorf("got %v, want an error about TLS", err)
		}
	})
	t.Run("a prefix that nothing has", func(t *testing.T) {
		_, err := etcdaudit.Audit(t.Context(), live, etcdaudit.Options{Prefix: "kubernetes.io"})
		if empty := (*etcdaudit.EmptyError)(nil); !errors.As(err, &empty) || empty.Prefix != "/kubernetes.io/" {
			t.Errorf("got %v, want an error that names the prefix", err)
		}
	})
}

// fill leaves 1194 widgets in v1, 6 in v2, one thing in CBOR, 2 secrets and a value that no one understands.
func fill(t *testing.T, c *testbed.Cluster) {
	t.Helper()
	ctx, client := t.Context(), c.Etcd.Client()
	old := testbed.Bulk{Count: 1200, Bytes: 300}
	must(t, c.InstallWidgets(ctx, testbed.Widgets{}))
	for _, name := range []string{"a", "b"} {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"password":"hunter2"}}`, name)
		status, answer, err := c.Servers[0].Do(ctx, http.MethodPost, "/api/v1/namespaces/default/secrets", []byte(body))
		if err != nil || status != http.StatusCreated {
			t.Fatalf("create secret: %d %s %v", status, answer, err)
		}
	}
	must(t, c.BulkCreate(ctx, old))
	must(t, c.MoveStorage(ctx, testbed.WidgetCRD, "v2"))
	must(t, c.BulkCreate(ctx, testbed.Bulk{Version: "v2", First: 2000, Count: 4, Bytes: 300}))
	for i := range 2 { // deleted before the compaction, and behind it
		must(t, c.DeleteRaw(ctx, old.Key(i)))
	}
	must(t, c.BulkCreate(ctx, testbed.Bulk{Version: "v2", First: 3, Count: 1, Bytes: 300}))
	response, err := client.Get(ctx, "x")
	must(t, err)
	_, err = client.Compact(ctx, response.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	for i := range 3 { // of these, two were gone
		must(t, c.DeleteRaw(ctx, old.Key(i)))
	}
	must(t, c.DeleteRaw(ctx, old.Key(10)))
	must(t, c.DeleteRaw(ctx, old.Key(11)))
	must(t, c.BulkCreate(ctx, testbed.Bulk{Version: "v2", First: 11, Count: 1, Bytes: 300}))
	must(t, c.PutRaw(ctx, "/registry/cbor.example.com/things/default/a",
		[]byte("\xd9\xd9\xf7\xa2\x4aapiVersion\x53cbor.example.com/v1\x44kind\x45Thing")))
	must(t, c.PutRaw(ctx, "/registry/cbor.example.com/things/default/strange", []byte("not an object")))
	must(t, c.DeleteRaw(ctx, "/registry/cbor.example.com/things/default/strange"))
	must(t, c.PutRaw(ctx, "/registry/cbor.example.com/things/default/strange", []byte("still not an object")))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, c *testbed.Cluster) string {
	t.Helper()
	from, err := c.Etcd.Client().Snapshot(t.Context())
	must(t, err)
	defer from.Close()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	to, err := os.Create(path)
	must(t, err)
	_, err = io.Copy(to, from)
	must(t, errors.Join(err, to.Close()))
	return path
}

func audit(t *testing.T, source etcdaudit.Source) *etcdaudit.Report {
	t.Helper()
	report, err := etcdaudit.Audit(t.Context(), source, etcdaudit.Options{})
	must(t, err)
	return report
}

// objects leaves out what API servers keep for themselves: it ends by itself when they are stopped.
func objects(report *etcdaudit.Report) (rows []etcdaudit.Row) {
	for _, r := range report.Rows {
		if r.Comparison != etcdaudit.NoObject {
			rows = append(rows, r)
		}
	}
	return rows
}

func compactWhileReading(t *testing.T, c *testbed.Cluster, live etcdaudit.Live) {
	seen := map[string]int{}
	provenance, err := live.Each(t.Context(), testbed.WidgetsPrefix, func(key, _ []byte) error {
		if seen[string(key)]++; len(seen) != 1 {
			return nil
		}
		put, err := c.Etcd.Client().Put(t.Context(), "/other", "x")
		if err == nil {
			_, err = c.Etcd.Client().Compact(t.Context(), put.Header.Revision)
		}
		return err
	})
	must(t, err)
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s was visited %d times", key, n)
		}
	}
	if len(seen) != 1200 || provenance.FirstRevision >= provenance.Revision {
		t.Errorf("visited %d keys at %+v, want 1200 at two revisions", len(seen), provenance)
	}
}

func readLarge(t *testing.T, c *testbed.Cluster, live etcdaudit.Live) {
	client, err := clientv3.New(clientv3.Config{Endpoints: live.Endpoints, MaxCallSendMsgSize: 8 << 20})
	must(t, err)
	defer client.Close()
	want := map[string]int{}
	for i, size := range []int{10, 3 << 20, 2 << 20, 5 << 20, 2 << 20, 3 << 20, 10} {
		key := fmt.Sprintf("/large/%d", i)
		_, err := client.Put(t.Context(), key, strings.Repeat("x", size))
		must(t, err)
		want[key] = size
	}
	want["/large/3"] = 0 // too large to be read at all
	got := map[string]int{}
	_, err = live.Each(t.Context(), "/large/",
		func(key, value []byte) error { got[string(key)] = len(value); return nil })
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bytes of values (-want +got):\n%s", diff)
	}
}

// readMany reads more keys than a range has without a nearer end, at a real etcd.
func readMany(t *testing.T, c *testbed.Cluster, live etcdaudit.Live) {
	key := func(i int) string {
		return []string{fmt.Sprintf("/many/numbered/%06d", i), fmt.Sprintf("/many/ns-%d/token", i),
			fmt.Sprintf("/many/scattered/%08x", uint32(i)*2654435761)}[i%3]
	}
	const count = 30_000
	must(t, c.PutRaws(t.Context(), count, 1, func(i int) (string, []byte, error) { return key(i), []byte("x"), nil }))
	var want, got []string
	for i := range count {
		want = append(want, key(i))
	}
	slices.Sort(want)
	_, err := live.Each(t.Context(), "/many/", func(key, _ []byte) error { got = append(got, string(key)); return nil })
	must(t, err)
	if !slices.Equal(want, got) {
		t.Errorf("%d keys are visited, want all %d once and in order", len(got), len(want))
	}
}

func compareHeaps(t *testing.T, c *testbed.Cluster, live etcdaudit.Live) {
	peak := func(prefix string, every int) (peak uint64, n int) {
		_, err := live.Each(t.Context(), prefix, func([]byte, []byte) error {
			if n++; n%every == 1 {
				runtime.GC()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				peak = max(peak, stats.HeapAlloc)
			}
			return nil
		})
		must(t, err)
		return peak, n
	}
	for _, b := range []testbed.Bulk{
		{Group: "few.example.com", Count: 2_000, Bytes: 1 << 10}, {Group: "many.example.com", Count: 20_000, Bytes: 1 << 10},
		{Group: "large.example.com", Count: 40, Bytes: 1 << 20},
	} {
		b.Kind, b.Plural, b.Version = "Thing", "things", "v1"
		must(t, c.BulkCreate(context.Background(), b))
	}
	few, _ := peak("/registry/few.example.com/", 100)
	many, n := peak("/registry/many.example.com/", 500)
	large, _ := peak("/registry/large.example.com/", 2)
	t.Logf("live heap at most: few %d KiB, many %d KiB, large %d KiB", few>>10, many>>10, large>>10)
	if n != 20_000 || many > few+3<<20 { // at times the next page is there already; all of it is 20 MiB
		t.Errorf("live heap of %d KiB with %d keys, %d KiB with a tenth", many>>10, n, few>>10)
	}
	if large > few+16<<20 { // four of the largest pages; all of it is 40 MiB
		t.Errorf("live heap of %d KiB with large values, %d KiB without", large>>10, few>>10)
	}
}
