// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A group whose server cannot be believed, or never ends, costs that group and nothing else.
func TestAHostileGroupIsAFailureAndTheOthersAreRead(t *testing.T) {
	const good = `{"name":"gadgets","namespaced":true,"kind":"Gadget","verbs":["get","list","patch"],"storageVersionHash":"h"}`
	var written atomic.Int64
	for name, tt := range map[string]struct {
		document func(w http.ResponseWriter)
		want     string
	}{
		"without end": {func(w http.ResponseWriter) {
			for n, err := fmt.Fprint(w, `{"resources":[`); err == nil; n, err = fmt.Fprint(w, good+",") {
				written.Add(int64(n))
			}
		}, bounded.ErrTooLarge.Error()},
		"of many empty elements": {func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"resources":[{}`+strings.Repeat(",{}", 100_000)+`]}`)
		}, bounded.ErrTooLarge.Error()},
		"with a resource that leads elsewhere": {func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"resources":[`+good+
				`,{"name":".."}]}`)
		}, migrate.ErrUntrustedAnswer.Error()},
		"with an escaped resource": {func(w http.ResponseWriter) { fmt.Fprint(w, `{"resources":[{"name":"a%2fb"}]}`) },
			migrate.ErrUntrustedAnswer.Error()},
		"with a resource whose name reads as that of another group's": {func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"resources":[`+good+`,{"name":"gadgets.good","kind":"Gadget","storageVersionHash":"h"}]}`)
		}, migrate.ErrUntrustedAnswer.Error()},
		"a failure without end": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			for _, err := fmt.Fprint(w, `{"message":"`); err == nil; _, err = fmt.Fprint(w, strings.Repeat("x", 1000)) {
			}
		}, bounded.ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch r.URL.Path {
				case "/api":
					fmt.Fprint(w, `{"versions":[]}`)
				case "/apis":
					fmt.Fprint(w, `{"groups":[{"name":"good.example.com","versions":[{"version":"v1"}]},{"name":"bad.example.com","versions":[{"version":"v1"}]},
						{"name":"../../api/v1/secrets?x=","versions":[{"version":"v1"}]}]}`)
				case "/apis/good.example.com/v1":
					fmt.Fprint(w, `{"resources":[`+good+`,{"name":"gadgets/status","kind":"Gadget","verbs":["patch"]},
						{"name":"gadgets.per_second","kind":"ExternalMetricValueList","verbs":["get"]}]}`)
				case "/apis/bad.example.com/v1":
					tt.document(w)
				case "/apis/apiregistration.k8s.io/v1/apiservices",
					"/apis/apiextensions.k8s.io/v1/customresourcedefinitions":
					fmt.Fprint(w, `{"items":[]}`)
				default:
					t.Errorf("%s was asked for", r.URL)
				}
			}))
			defer server.Close()
			client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			inv, err := Take(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes were written, %d were allocated", written.Load(), after.TotalAlloc-before.TotalAlloc)
			if len(inv.Resources) != 1 || inv.Resources[0].Resource != "gadgets" ||
				inv.Resources[0].Group != "good.example.com" {
				t.Errorf("resources %+v, want the one of the group that can be believed", inv.Resources)
			}
			bad := 0
			for _, f := range inv.Failures {
				if f.Group == "bad.example.com" && f.Unusable != (name == "a failure without end") &&
					strings.Contains(f.Reason, tt.want) {
					bad++
				}
			}
			if bad != 1 || len(inv.Failures) != 2 {
				t.Errorf("failures %+v, want %q about bad.example.com/v1, and the group that is none", inv.Failures,
					tt.want)
			}
		})
	}
	if most := int64(32 << 20); written.Load() > most {
		t.Errorf("%d bytes of the endless document were written, want at most %d (I6)", written.Load(), most)
	}
}
