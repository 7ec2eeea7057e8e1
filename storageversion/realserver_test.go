// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

func TestPublishersOnARealServer(t *testing.T) {
	t.Parallel()
	c := testbed.New(t, testbed.Options{
		Servers: []testbed.ServerOptions{{Flags: []string{"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"}}},
	})
	if err := c.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	t.Run("the hashes of discovery", func(t *testing.T) { hashesOfDiscovery(t, c) })
	for _, test := range storageversion.OnARealServer {
		t.Run(test.Name, func(t *testing.T) { test.Run(t, c) })
	}
	t.Run("the example", func(t *testing.T) { exampleServes(t, c) })
}

// hashesOfDiscovery compares every storageVersionHash that a kube-apiserver shows with Hash. Which version it stands
// for is not shown, so it has to be that of some version with a usual name, in the group or in one that the group came
// from.
func hashesOfDiscovery(t *testing.T, c *testbed.Cluster) {
	get := func(path string, into any) {
		t.Helper()
		code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet, path, nil)
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %v", path, code, err)
		}
	}
	var groups metav1.APIGroupList
	get("/apis", &groups)
	paths := map[string]string{"/api/v1": ""} // the group by the path of its document
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths["/apis/"+v.GroupVersion] = g.Name
		}
	}
	compared, asPublished := 0, 0
	for path, group := range paths {
		var document metav1.APIResourceList
		get(path, &document)
		for _, r := range document.APIResources {
			if r.StorageVersionHash == "" {
				continue
			}
			compared++
			if !slices.ContainsFunc(versionsOf(group, r.Kind), func(gvk schema.GroupVersionKind) bool {
				return storageversion.Hash(gvk) == r.StorageVersionHash
			}) {
				t.Errorf("%s shows the hash %s of %s, which is that of no known version", path,
					r.StorageVersionHash, r.Name)
			}
			if gv, err := schema.ParseGroupVersion(document.GroupVersion); err == nil &&
				storageversion.Hash(gv.WithKind(r.Kind)) == r.StorageVersionHash {
				asPublished++
			}
		}
	}
	if compared < 60 || asPublished < 50 {
		t.Errorf("%d hashes were compared, %d of them stand for the version that shows them", compared, asPublished)
	}
}

func versionsOf(group, kind string) (all []schema.GroupVersionKind) {
	for _, in := range []string{group, ""} { // events.k8s.io is stored in the core group
		for major := 1; major <= 3; major++ {
			names := []string{fmt.Sprintf("v%d", major)}
			for minor := 1; minor <= 4; minor++ {
				names = append(names, fmt.Sprintf("v%dbeta%d", major, minor), fmt.Sprintf("v%dalpha%d", major, minor))
			}
			for _, name := range names {
				all = append(all, schema.GroupVersionKind{Group: in, Version: name, Kind: kind})
			}
		}
	}
	return all
}

func exampleServes(t *testing.T, c *testbed.Cluster) {
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, c.Config(), listener) }()
	base := "http://" + listener.Addr().String()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(raw)
	}
	published := func() v1alpha1.StorageVersionStatus {
		t.Helper()
		code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet,
			"/apis/migration.k8s.io/v1alpha1/storageversions/demo.example.com.widgets", nil)
		var o v1alpha1.StorageVersion
		if err == nil && code == http.StatusOK {
			err = json.Unmarshal(raw, &o)
		}
		if err != nil || code != http.StatusOK && code != http.StatusNotFound {
			t.Fatalf("%d %v: %s", code, err, raw)
		}
		return o.Status
	}
	const widget = "/apis/demo.example.com/v1/widgets/one"
	storageversion.Eventually(t, "a write is taken", func() bool {
		code, body := ask(http.MethodPut, widget, `{"apiVersion":"demo.example.com/v1","kind":"Widget"}`)
		if code == http.StatusOK {
			if common := published().CommonEncodingVersion; common == nil || *common != v2.String() ||
				!strings.Contains(body, v2.String()) {
				t.Fatalf("the write was stored as %s, while %+v was published", body, published())
			}
		}
		return code == http.StatusOK
	})
	if code, body := ask(http.MethodGet, "/readyz", ""); code != http.StatusOK {
		t.Errorf("the server takes writes and is not ready: %d %s", code, body)
	}
	if code, body := ask(http.MethodGet, "/apis/demo.example.com/v1", ""); code != http.StatusOK ||
		!strings.Contains(body, storageversion.Hash(v2.WithKind("Widget"))) {
		t.Errorf("discovery shows %d %s", code, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := published(); len(s.StorageVersions) != 0 {
		t.Errorf("after the shutdown %+v is published", s)
	}
}
