// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storedversions_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// bench is a cluster with a CRD per test, and a client that something can get ahead of.
type bench struct {
	direct, watched rest.Interface
	// beforeWrite runs before each PATCH that the watched client sends.
	beforeWrite func()
	writes      int
}

// before runs something before each PATCH is sent.
type before struct {
	http.RoundTripper
	bench *bench
}

func (b before) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		b.bench.writes++
		if b.bench.beforeWrite != nil {
			b.bench.beforeWrite()
		}
	}
	return b.RoundTripper.RoundTrip(r)
}

func TestPruningOnARealAPIServer(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{})
	b := &bench{}
	b.direct = client(t, cluster.Config())
	config := cluster.Config()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return before{inner, b} })
	b.watched = client(t, config)

	t.Run("an old version goes and the second time nothing is written", func(t *testing.T) {
		proof := b.moved(t, "plain")
		result, err := storedversions.Prune(t.Context(), b.watched, proof)
		want := storedversions.Result{Before: []string{"v1", "v2"}, After: []string{"v2"}, Written: true}
		if diff := compare.Diff(want, result); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		b.expect(t, proof.Name, "v2")
		b.writes = 0
		result, err = storedversions.Prune(t.Context(), b.watched, proof)
		want = storedversions.Result{Before: []string{"v2"}, After: []string{"v2"}}
		if diff := compare.Diff(want, result); err != nil || diff != "" || b.writes != 0 {
			t.Errorf("%v, %d writes (-want +got):\n%s", err, b.writes, diff)
		}
	})
	t.Run("what another one has claimed is proven, and known to be", func(t *testing.T) {
		proof := b.moved(t, "claimed")
		const byHand = `{"status":{"storedVersions":["v2"]}}`
		if err := b.direct.Patch(types.MergePatchType).AbsPath(path, proof.Name, "status").Param("fieldManager", "hand").
			Body([]byte(byHand)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		claimedBy := func(want string) {
			t.Helper()
			if d, err := crd.Get(t.Context(), b.direct, proof.Name); err != nil || d.ClaimedBy() != want {
				t.Errorf("claimed by %q (%v), want %q", d.ClaimedBy(), err, want)
			}
		}
		claimedBy("hand")
		for _, writes := range []int{1, 0} {
			b.writes = 0
			result, err := storedversions.Prune(t.Context(), b.watched, proof)
			if err != nil || result.Written || b.writes != writes {
				t.Errorf("%+v after %d writes, %v; want %d writes", result, b.writes, err, writes)
			}
			claimedBy("")
		}
		b.patch(t, proof.Name, storage("v1")) // an API server adds v1 without a word
		claimedBy("")
		b.expect(t, proof.Name, "v2", "v1")
	})
	t.Run("a storage version that moves between read and write is kept", func(t *testing.T) {
		proof := b.moved(t, "flips")
		b.once(func() { b.patch(t, proof.Name, storage("v1")) })
		_, err := storedversions.Prune(t.Context(), b.watched, proof)
		if !errors.Is(err, storedversions.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		b.expect(t, proof.Name, "v1", "v2")
	})
	t.Run("a storage version that flips there and back is not taken for the same", func(t *testing.T) {
		proof := b.moved(t, "returns")
		b.once(func() {
			b.patch(t, proof.Name, storage("v1"))
			b.patch(t, proof.Name, storage("v2"))
		})
		_, err := storedversions.Prune(t.Context(), b.watched, proof)
		if !errors.Is(err, storedversions.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		b.expect(t, proof.Name, "v1", "v2")
	})
	t.Run("a change that does not concern storage is judged again and pruned", func(t *testing.T) {
		proof := b.moved(t, "labelled")
		b.once(func() { b.patch(t, proof.Name, `{"metadata":{"labels":{"a":"b"}}}`) })
		result, err := storedversions.Prune(t.Context(), b.watched, proof)
		if err != nil || !result.Written || b.writes != 2 {
			t.Errorf("%+v after %d writes, %v; want two writes", result, b.writes, err)
		}
		b.expect(t, proof.Name, "v2")
	})
	t.Run("a CRD that changes all the time is given up, not pruned", func(t *testing.T) {
		proof := b.moved(t, "restless")
		n := 0
		b.writes, b.beforeWrite = 0, func() {
			n++
			b.patch(t, proof.Name, fmt.Sprintf(`{"metadata":{"labels":{"a":"%d"}}}`, n))
		}
		_, err := storedversions.Prune(t.Context(), b.watched, proof)
		if !apierrors.IsConflict(err) || errors.Is(err, storedversions.ErrChanged) || b.writes != 5 {
			t.Errorf("%v after %d writes, want a conflict after 5", err, b.writes)
		}
		b.expect(t, proof.Name, "v1", "v2")
	})
	t.Run("a CRD that is created again between read and write is not touched", func(t *testing.T) {
		proof := b.moved(t, "reborn")
		b.once(func() {
			b.remove(t, proof.Name)
			b.moved(t, "reborn")
		})
		_, err := storedversions.Prune(t.Context(), b.watched, proof)
		if !errors.Is(err, storedversions.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		b.expect(t, proof.Name, "v1", "v2")
	})
	t.Run("a CRD that is gone is not a proof's", func(t *testing.T) {
		proof := b.moved(t, "gone")
		b.once(func() { b.remove(t, proof.Name) })
		if _, err := storedversions.Prune(t.Context(), b.watched, proof); !errors.Is(err, storedversions.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
	})
	t.Run("a caller that may not write is told what is forbidden", func(t *testing.T) {
		config := cluster.Config()
		config.Impersonate.UserName = "stranger"
		proof := b.moved(t, "forbidden")
		if _, err := storedversions.Prune(t.Context(), client(t, config), proof); !apierrors.IsForbidden(err) {
			t.Errorf("%v, want forbidden", err)
		}
		b.expect(t, proof.Name, "v1", "v2")
	})
}

// once gets ahead of the next write only.
func (b *bench) once(f func()) {
	b.writes, b.beforeWrite = 0, func() {
		b.beforeWrite = nil
		f()
	}
}

// moved makes a CRD whose storage version has moved from v1 to v2, and the proof that v1 is not stored.
func (b *bench) moved(t *testing.T, plural string) storedversions.Proof {
	t.Helper()
	name := plural + ".demo.example.com"
	const version = `"schema":{"openAPIV3Schema":{"type":"object"}}`
	body := fmt.Sprintf(`{"metadata":{"name":"%s"},"spec":{"group":"demo.example.com","scope":"Namespaced","names":{"plural":"%s","kind":"%sKind"},
		"versions":[{"name":"v1","served":true,"storage":true,%s},{"name":"v2","served":true,"storage":false,%s}]}}`, name, plural, plural, version, version)
	if err := b.direct.Post().AbsPath(path).SetHeader("Content-Type",
		"application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	b.until(t, name, func(d *crd.CRD) bool { ok, _ := d.Established(); return ok })
	b.patch(t, name, storage("v2"))
	d, err := crd.Get(t.Context(), b.direct, name)
	if err != nil {
		t.Fatal(err)
	}
	return storedversions.Proof{Name: name, UID: d.Metadata.UID,
		Generation: d.Metadata.Generation, StorageVersion: "v2"}
}

// storage is a JSON patch that moves the storage version.
func storage(version string) string {
	first, second := version == "v1", version == "v2"
	return fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/storage","value":%v},{"op":"replace","path":"/spec/versions/1/storage","value":%v}]`, first, second)
}

func (b *bench) patch(t *testing.T, name, body string) {
	t.Helper()
	kind := types.MergePatchType
	if body[0] == '[' {
		kind = types.JSONPatchType
	}
	if err := b.direct.Patch(kind).AbsPath(path, name).Body([]byte(body)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) remove(t *testing.T, name string) {
	t.Helper()
	if err := b.direct.Delete().AbsPath(path, name).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	b.until(t, name, func(d *crd.CRD) bool { return d == nil })
}

// until reads the CRD, nil once it is gone, until it is as wanted.
func (b *bench) until(t *testing.T, name string, wanted func(*crd.CRD) bool) *crd.CRD {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		d, err := crd.Get(ctx, b.direct, name)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if wanted(d) {
			return d
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not become as wanted: %+v", name, d)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *bench) expect(t *testing.T, name string, want ...string) {
	t.Helper()
	d, err := crd.Get(t.Context(), b.direct, name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := compare.Diff(want, d.Status.StoredVersions); diff != "" {
		t.Errorf("storedVersions of %s (-want +got):\n%s", name, diff)
	}
}

func client(t *testing.T, config *rest.Config) rest.Interface {
	t.Helper()
	c, err := apiserver.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
