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

// A look relies only on a position that was read half a minute before it began: by then, every process that wrote before
// the position is seen. Neither the watch of the Leases nor etcd may be behind it.
func TestAPositionCountsOnceEveryWriterIsSeen(t *testing.T) {
	c := comparer{}
	for _, r := range []reading{{10, noon}, {20, noon.Add(20 * time.Second)}, {40, noon.Add(40 * time.Second)}} {
		c.note(r.version, r.at)
	}
	for _, test := range []struct {
		after              time.Duration
		now, watched, want uint64
	}{
		{29 * time.Second, 99, 99, 0}, {30 * time.Second, 99, 99, 10}, {49 * time.Second, 99, 99, 10},
		{50 * time.Second, 99, 99, 20}, {70 * time.Second, 99, 99, 40}, {time.Hour, 99, 99, 40},
		{time.Hour, 39, 99, 20}, {time.Hour, 99, 39, 20}, {time.Hour, 9, 99, 0},
	} {
		if got := c.reached(noon.Add(test.after), test.now, test.watched); got != test.want {
			t.Errorf("a look after %v, etcd at %d, watched up to %d: has reached %d, want %d", test.after, test.now,
				test.watched, got, test.want)
		}
	}
	for i := range 1000 {
		c.note(uint64(100+i), noon.Add(time.Hour+time.Duration(i)*time.Second))
	}
	if n := len(c.positions); n > 32 {
		t.Errorf("%d positions are kept", n)
	}
}

// An etcd of its own counts its own writes.
func TestWhichResourcesAreInTheMainEtcd(t *testing.T) {
	c := comparer{collections: map[string]collection{"widgets": {main: true}, "flunders": {aggregated: true}}}
	for i, step := range []struct {
		events, before, after uint64
		want                  bool
	}{{100, 99, 101, true}, {120, 120, 120, true}, {125, 124, 0, true}, {130, 0, 131, true}, {140, 141, 142, false},
		{150, 149, 151, false}} {
		found := map[string]ledger.Collection{"widgets": {ResourceVersion: 1}, "flunders": {ResourceVersion: step.events},
			"events": {ResourceVersion: step.events}}
		c.share(found, step.before, step.after)
		for name, want := range map[string]bool{"widgets": true, "flunders": false, "events": step.want} {
			if c.shared[name] != want || found[name].Shared != want {
				t.Errorf("reading %d, %s: shared %t, %+v; want %t", i, name, c.shared[name], found[name], want)
			}
		}
	}
	for _, elsewhere := range []uint64{98, 102} {
		c := comparer{}
		c.share(map[string]ledger.Collection{"events": {ResourceVersion: elsewhere}}, 99, 101)
		if c.shared["events"] {
			t.Errorf("a collection at %d is taken to be between 99 and 101", elsewhere)
		}
	}
}
