// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

// many is a JSON list of n elements.
func many(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// spends calls f and fails if f allocates far more than an answer of that size may lead to (I6).
func spends(t *testing.T, answer []byte, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 32<<20+30*uint64(len(answer)) {
		t.Errorf("%d bytes led to %d MiB", len(answer), spent>>20)
	}
}

func FuzzDiscovery(f *testing.F) {
	f.Add([]byte(`{"kind":"APIResourceList","groupVersion":"demo.example.com/v1","resources":[{"name":"widgets","kind":"Widget","verbs":["list","update"],"storageVersionHash":"AbCd"},{"name":"widgets/status"}]}`))
	f.Add([]byte(`{"versions":["v1"]}`))
	f.Add([]byte(`{"groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`))
	f.Add([]byte(`{"resources":[{"name":"../secrets"}]}`))
	f.Add([]byte(`{"groups":[{"versions":` + many("{}", 400_000) + `}]}`))
	f.Add([]byte(`{"resources":` + many("{}", 400_000) + `}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		spends(t, body, func() {
			doc, err := parseDocument(body, nil)
			if err != nil {
				return
			}
			for _, r := range doc.Resources {
				if is, err := apipath.Resource(r.Name, true); !is || err != nil {
					t.Errorf("%q is taken for a resource", r.Name)
				}
			}
			doc.GroupVersions()
		})
	})
}

func FuzzLeases(f *testing.F) {
	f.Add([]byte(`{"items":[{"metadata":{"name":"apiserver-a","labels":{"apiserver.kubernetes.io/identity":"kube-apiserver","kubernetes.io/hostname":"a"},`+
		`"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"holderIdentity":"apiserver-a_1","renewTime":"2026-01-01T00:00:00.000000Z"}}]}`), int64(1767225600))
	f.Add([]byte(`{"items":[{"metadata":{"name":"a"},"spec":{"renewTime":"9999-12-31T23:59:59.999999Z"}},{"spec":{"renewTime":null}}]}`), int64(-62135596800))
	f.Add([]byte(`{"items":`+many("{}", 400_000)+`}`), int64(0))
	f.Add([]byte(`{"items":[{"metadata":{"managedFields":`+many("{}", 400_000)+`}}]}`), int64(0))
	f.Fuzz(func(t *testing.T, body []byte, seconds int64) {
		spends(t, body, func() {
			now := time.Unix(seconds, 0)
			l, err := parseLeases(body, now, now)
			if err != nil {
				return
			}
			if !l.Known || !slices.IsSorted(l.Holders()) || !slices.IsSorted(l.Names()) {
				t.Errorf("leases %+v", l)
			}
			for _, s := range l.Live {
				if now.Sub(s.Renewed) > identity.FreshFor {
					t.Errorf("%s lives, and was renewed at %s, long before %s", s.Name, s.Renewed, now)
				}
				l.HostOf(s.Name)
				l.Kin(s.Name)
			}
		})
	})
}

func FuzzEndpointSlices(f *testing.F) {
	f.Add([]byte(`{"items":[{"metadata":{"name":"kubernetes","managedFields":[{"time":"2026-01-01T00:00:00Z"}]},"endpoints":[{"addresses":["10.0.0.1"],"targetRef":{"uid":"a"}}],"ports":[{"name":"https","port":6443}]}]}`))
	f.Add([]byte(`{"items":[{"endpoints":[{"addresses":["fe80::1%eth0",""]}],"ports":[{"port":-1}]}]}`))
	f.Add([]byte(`{"items":` + many("{}", 400_000) + `}`))
	f.Add([]byte(`{"items":[{"endpoints":` + many("{}", 400_000) + `}]}`))
	f.Add([]byte(`{"items":[{"endpoints":[{"addresses":` + many(`""`, 400_000) + `}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		spends(t, body, func() {
			e, err := parseEndpoints(body)
			if errors.Is(err, bounded.ErrTooLarge) || err != nil {
				return
			}
			if !e.Known || !slices.IsSorted(e.Addresses) {
				t.Errorf("endpoints %+v", e)
			}
		})
	})
}
