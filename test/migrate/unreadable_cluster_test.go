// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// unreadable sweeps resources of which an object cannot be read or stored any more: the run ends with what is wrong and
// what helps, or names the object and goes on.
func unreadable(t *testing.T, cluster *testbed.Cluster) {
	for i, test := range []struct {
		name string
		// versions are those of the CRD; the first one is stored, and * marks the storage version during the sweep.
		versions []string
		// before happens before the sweep, and during when it sends its first patch.
		before, during func(r *outliving)
		want           error
		says           []string
		rewritten      int64
	}{
		{name: "a stored version is removed during the run", versions: []string{"v1", "v2*"},
			during: func(r *outliving) { r.remove("v1") }, want: migrate.ErrNotReady,
			says: []string{"invalid group/version: outliving-0.example.com/v1",
				"kube-migrator retire things.outliving-0.example.com --version=v1 --rescue"}},
		{name: "the version at which objects are rewritten is removed during the run", versions: []string{"v2*", "v1", "v3"},
			before: func(r *outliving) { r.unserve("v2") }, during: func(r *outliving) { r.remove("v1") },
			want: migrate.ErrNotReady,
			says: []string{"things.outliving-1.example.com does not serve version v1 any more", "it serves [v3]"}},
		{name: "the CRD was deleted and came back without the stored version", versions: []string{"v1alpha1", "v1*"},
			before: func(r *outliving) { r.remove("v1alpha1") }, want: migrate.ErrNotReady,
			says: []string{"kube-migrator retire things.outliving-2.example.com --version=v1alpha1 --rescue"}},
		{name: "an object is encrypted with a key that is gone", versions: []string{"v1", "v2*"},
			before: func(r *outliving) { r.put("b", "k8s:enc:aescbc:v1:key9:0123456789abcdef0123456789abcdef") },
			want:   migrate.ErrNotReady,
			says:   []string{"/registry/outliving-3.example.com/things/default/b", "give the API servers the encryption key"}},
		{name: "an object is too large for etcd in the storage version", versions: []string{"v1", "v1alpha10*"},
			before: func(r *outliving) { r.put(r.large()) }, want: migrate.ErrObjectsFailed, rewritten: 3,
			says: []string{"Unreadable", "etcdserver: request is too large", "make it smaller"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newOutliving(t, cluster, fmt.Sprintf("outliving-%d.example.com", i), test.versions)
			if test.before != nil {
				test.before(r)
			}
			result, err := r.sweep(test.during)
			said := fmt.Sprint(err)
			for _, f := range result.Failures {
				said += fmt.Sprintf("; %s: %s: %s", f.Name, f.Reason, f.Message)
			}
			for _, part := range test.says {
				if !strings.Contains(said, part) {
					t.Errorf("it does not say %q:\n%s", part, said)
				}
			}
			if !errors.Is(err, test.want) || result.Proven || result.Counts.Rewritten != test.rewritten {
				t.Errorf("error %v, %+v; want %v, %d rewritten, and nothing proven", err, result.Counts, test.want,
					test.rewritten)
			}
			if err := cluster.DeleteRawBelow(t.Context(), r.key("")); err != nil { // the invariants do not hold of them
				t.Error(err)
			}
		})
	}
}

// outliving is a custom resource with three objects.
type outliving struct {
	t                        *testing.T
	cluster                  *testbed.Cluster
	group, storage, endpoint string
}

func newOutliving(t *testing.T, cluster *testbed.Cluster, group string, versions []string) *outliving {
	t.Helper()
	r := &outliving{t: t, cluster: cluster, group: group}
	var all []any
	for i, v := range versions {
		name, isStorage := strings.CutSuffix(v, "*")
		if isStorage {
			r.storage, r.endpoint = name, name
		}
		all = append(all, map[string]any{"name": name, "served": true, "storage": i == 0, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	crd, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{"group": group, "scope": "Namespaced", "versions": all,
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}},
	})
	if err == nil {
		err = cluster.InstallCRDs(t.Context(), fstest.MapFS{"crd.yaml": &fstest.MapFile{Data: crd}})
	}
	if err != nil {
		t.Fatal(err)
	}
	first, _ := strings.CutSuffix(versions[0], "*")
	for _, name := range []string{"a", "b", "c"} {
		r.put(name, fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"Thing","metadata":{"name":%q,"namespace":"default","uid":%q}}`,
			group, first, name, name))
	}
	if first != r.storage {
		if err := cluster.MoveStorage(t.Context(), "things."+group, r.storage); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *outliving) key(name string) string {
	return "/registry/" + r.group + "/things/default/" + name
}

func (r *outliving) put(name, value string) {
	r.t.Helper()
	if err := r.cluster.PutRaw(r.t.Context(), r.key(name), []byte(value)); err != nil {
		r.t.Fatal(err)
	}
}

// large is an object that etcd takes alone, and not with the preconditions of an API server's write.
func (r *outliving) large() (name, value string) {
	const limit = 3 << 19 // etcd's default of --max-request-bytes
	name = "d" + strings.Repeat("x", 200)
	value = fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":%q,"namespace":"default","uid":"d"},"spec":{"a":"`,
		r.group, name)
	room := limit - len(r.key(name)) - len(value) - 100
	return name, value + strings.Repeat("x", room) + `"}}`
}

// edit edits the entries of spec.versions.
func (r *outliving) edit(f func(versions []any) []any) {
	r.t.Helper()
	_, err := r.cluster.EditCRD(r.t.Context(), "things."+r.group, func(d map[string]any) {
		spec := d["spec"].(map[string]any)
		spec["versions"] = f(spec["versions"].([]any))
	})
	if err != nil {
		r.t.Error(err)
	}
}

// unserve makes the first other version the one at which objects are rewritten.
func (r *outliving) unserve(version string) {
	r.t.Helper()
	r.edit(func(versions []any) []any {
		for _, v := range slices.Backward(versions) {
			v := v.(map[string]any)
			if v["name"] == version {
				v["served"] = false
			} else {
				r.endpoint = v["name"].(string)
			}
		}
		return versions
	})
}

// remove removes a version from the CRD, as if no object were stored in it, and waits until it is not served.
func (r *outliving) remove(version string) {
	r.t.Helper()
	_, err := r.cluster.EditCRDStatus(r.t.Context(), "things."+r.group, func(d map[string]any) {
		d["status"].(map[string]any)["storedVersions"] = []string{r.storage}
	})
	if err != nil {
		r.t.Error(err)
	}
	r.edit(func(versions []any) []any {
		return slices.DeleteFunc(versions, func(v any) bool { return v.(map[string]any)["name"] == version })
	})
	for code := 0; code != http.StatusNotFound && r.t.Context().Err() == nil; {
		code, _, err = r.cluster.Servers[0].Do(r.t.Context(), http.MethodGet, "/apis/"+r.group+"/"+version+"/things", nil)
		if err != nil {
			r.t.Error(err)
			return
		}
	}
}

// sweep sweeps; during is called before the first patch is sent.
func (r *outliving) sweep(during func(r *outliving)) (migrate.Result, error) {
	r.t.Helper()
	config := rest.CopyConfig(r.cluster.Config())
	var once sync.Once
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && during != nil {
				once.Do(func() { during(r) })
			}
			return next.RoundTrip(request)
		})
	})
	target := migrate.Target{Kind: "Thing", Namespaced: true, Origin: migrate.Custom,
		Resource: schema.GroupVersionResource{Group: r.group, Version: r.endpoint, Resource: "things"}}
	servers, err := agreement.Of(config, target, agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		r.t.Fatal(err)
	}
	sweep, err := migrate.New(config, target, servers, migrate.Options{SettleTime: time.Second, SingleAddress: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return sweep.Run(r.t.Context())
}
