// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package storageversion_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	for _, test := range onARealServer {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
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
