// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
