// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// A tenant may choose the name of the first Role, and half a MiB of it. Roles are compared all the same.
func TestACollectionIsComparedWhateverItsFirstObjectIsCalled(t *testing.T) {
	const list = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[%s]}`
	for name, tt := range map[string]struct {
		first string
		want  ledger.Collection
	}{
		"a name":      {"a", ledger.Collection{ResourceVersion: 7, Witness: ledger.Witness{UID: "u", ResourceVersion: 5}}},
		"a long name": {strings.Repeat("x", bounded.ObjectMetadata), ledger.Collection{ResourceVersion: 7}},
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			item := ""
			if r.URL.Path == "/roles" && r.URL.Query().Get("fieldSelector") == "" {
				item = fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u","resourceVersion":"5"}}`, tt.first)
			}
			fmt.Fprintf(w, list, item)
		}))
		client, err := apiserver.NewClient(&rest.Config{Host: api.URL})
		if err != nil {
			t.Fatal(err)
		}
		c := comparer{rest: client, collections: map[string]collection{"roles": {path: "/roles", small: "/few"}}}
		for range 2 {
			if found, err := c.read(t.Context(), []string{"roles"}, 0); err != nil || found["roles"] != tt.want {
				t.Errorf("%s: %+v (%v), want %+v", name, found, err, tt.want)
			}
		}
		api.Close()
	}
}

// A look relies only on a position that was read half a minute before it began: by then, every process that
// wrote before the position is seen.
func TestAPositionCountsOnceEveryWriterIsSeen(t *testing.T) {
	c := comparer{collections: map[string]collection{"widgets": {main: true}}}
	for name, collection := range map[string]string{"pods": "pods", "widgets": ""} {
		for _, r := range []struct {
			after   time.Duration
			version uint64
		}{{0, 10}, {20 * time.Second, 20}, {40 * time.Second, 40}} {
			c.note(collection, r.version, noon.Add(r.after))
		}
		for after, want := range map[time.Duration]uint64{29 * time.Second: 0, 30 * time.Second: 10, 49 * time.Second: 10,
			50 * time.Second: 20, 70 * time.Second: 40, time.Hour: 40} {
			if got := c.reached(name, noon.Add(after)); got != want {
				t.Errorf("%s: a look after %v has reached %d, want %d", name, after, got, want)
			}
		}
		for i := range 1000 {
			c.note(collection, uint64(100+i), noon.Add(time.Hour+time.Duration(i)*time.Second))
		}
		if n := len(c.readings[collection]); n > 32 {
			t.Errorf("%d positions are kept", n)
		}
	}
}
