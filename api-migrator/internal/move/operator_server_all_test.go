// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// The webhooks are those of the new kind, and none is left that would refuse changes of old objects. The operator finds
// children that still name the old group as their owner's.
func TestAnOperatorMovedToAnotherGroupWorksOnARealServer(t *testing.T) {
	t.Parallel()
	dir := operator(t, "testdata/operator.txtar", nil)
	asked := memcachedRequest
	asked.To = "storage.example.com/v1"
	migrated(t, dir, asked)

	c := &cluster{Cluster: testbed.New(t, testbed.Options{}), t: t, paths: map[string]bool{}}
	if err := c.InstallCRDs(t.Context(), os.DirFS(filepath.Join(dir, "config/crd/bases"))); err != nil {
		t.Fatal(err)
	}
	c.operate(dir)
	const path, want = "/apis/storage.example.com/v1/namespaces/default/memcacheds", "storage.example.com/v1"
	ofNew := func(name string, size int) map[string]any {
		object := memcached("v1", name, size)
		object["apiVersion"] = want
		return object
	}
	c.until("the server to call the webhooks", func() (bool, any) {
		_, answer := c.do(http.MethodPost, path+"?dryRun=All", ofNew("dry", 1))
		return annotation(answer) != "", answer
	})
	if status, answer := c.do(http.MethodPost, path, ofNew("new", 3)); status != http.StatusCreated || annotation(answer) != want {
		t.Fatalf("create: %d %v, want an object that the webhook has seen as %s", status, answer, want)
	}
	if status, answer := c.do(http.MethodPost, path, ofNew("large", 10)); status != http.StatusForbidden ||
		!strings.Contains(fmt.Sprint(answer["message"]), "it is too large") {
		t.Errorf("create what the webhook refuses: %d %v", status, answer)
	}
	_, owner := c.do(http.MethodGet, path+"/new", nil)
	if status, answer := c.do(http.MethodPost, "/api/v1/namespaces/default/configmaps", stored(owner, "new")); status !=
		http.StatusCreated {
		t.Fatalf("create a child: %d %v", status, answer)
	}
	c.until("the status of the new object", func() (bool, any) {
		status, read := c.do(http.MethodGet, path+"/new", nil)
		spec, _ := read["spec"].(map[string]any)
		if status == http.StatusOK && message(read) != "found new-own new-stored" {
			// controller-runtime starts no reconciliation for a child whose owner is of another group than the controller's.
			read["metadata"].(map[string]any)["labels"] = map[string]any{"seen": read["metadata"].(map[string]any)["resourceVersion"]}
			_, _ = c.do(http.MethodPut, path+"/new", read) // a conflict is followed by the next attempt
		}
		return status == http.StatusOK && spec["size"] == 3.0 && message(read) == "found new-own new-stored", read
	})
	const oldPath = "/apis/cache.example.com/v1/namespaces/default/memcacheds"
	if status, answer := c.do(http.MethodPost, oldPath, memcached("v1", "old", 3)); status != http.StatusCreated ||
		annotation(answer) != "" {
		t.Errorf("create an old object: %d %v, want one that no webhook has seen", status, answer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	served := []string{"/mutate-storage-example-com-v1-memcached", "/validate-storage-example-com-v1-memcached"}
	if got := slices.Sorted(maps.Keys(c.paths)); !slices.Equal(got, served) {
		t.Errorf("the API server has called %v, want %v", got, served)
	}
}
