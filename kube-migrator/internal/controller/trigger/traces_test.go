// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

func leaseOf(holder string, renewed time.Time) (o object) {
	o.Spec.HolderIdentity, o.Spec.RenewTime = holder, metav1.NewMicroTime(renewed)
	return o
}

func TestALeaseIsAbandonedByTheClockOfTheOthers(t *testing.T) {
	// All of these times are hours away from this machine's clock, in either direction.
	for _, now := range []time.Time{noon, time.Now().Add(10 * time.Hour)} {
		got := abandoned([]object{leaseOf("dead", now.Add(-2*time.Minute)), leaseOf("alive", now),
			leaseOf("slow", now.Add(-time.Minute))})
		if len(got) != 1 || !strings.HasPrefix(got[0], "lease dead last renewed ") {
			t.Errorf("abandoned are %v", got)
		}
	}
}

func TestEndpointSlicesAreTracesOnlyWhereTheyListTheAPIServers(t *testing.T) {
	slice := func(generation int64, addresses ...string) (o object) {
		o.Metadata.Name, o.Metadata.UID, o.Metadata.Generation = "kubernetes", "u", generation
		for _, address := range addresses {
			o.Endpoints = append(o.Endpoints, struct {
				Addresses []string `json:"addresses"`
			}{[]string{address}})
		}
		return o
	}
	a, b, dead := leaseOf("a", noon), leaseOf("b", noon), leaseOf("dead", noon.Add(-time.Hour))
	for name, test := range map[string]struct {
		slices, leases []object
		traced         bool
	}{
		"each server is listed": {[]object{slice(3, "192.0.2.10",
			"192.0.2.11")}, []object{a, b}, true},
		"each in a slice of its own": {[]object{slice(3, "192.0.2.10"),
			slice(1, "192.0.2.11")}, []object{a, b}, true},
		"one that crashed is listed no more": {[]object{slice(4, "192.0.2.10")}, []object{a, dead}, true},
		"one more is listed": {[]object{slice(3, "192.0.2.10",
			"192.0.2.11")}, []object{a}, true},
		"no one keeps the slice":                  {nil, []object{a}, false},
		"neither servers nor addresses are known": {[]object{slice(9)}, nil, false},
		"the slice is empty":                      {[]object{slice(9)}, []object{a}, false},
		"a load balancer stands for all":          {[]object{slice(1, "192.0.2.1")}, []object{a, b}, false},
		"a load balancer is in the slices of each port": {[]object{slice(1, "192.0.2.1"), slice(1, "192.0.2.1")},
			[]object{a, b}, false},
	} {
		got := left(test.slices, test.leases)
		if slices.Contains(got, ledger.Untraced) == test.traced || !slices.IsSorted(got) {
			t.Errorf("%s: traces are %v", name, got)
		}
		ofSlices := slices.DeleteFunc(slices.Clone(got), func(trace string) bool {
			return !strings.HasPrefix(trace, "endpointslice")
		})
		if want := len(test.slices) + 1; len(ofSlices) != want {
			t.Errorf("%s: traces are %v, want %d of slices", name, got, want)
		}
	}
}

func TestASuspendedProcessIsKnownByItsTrace(t *testing.T) {
	traces := left(nil, []object{leaseOf("api-1_x", noon.Add(-time.Hour)), leaseOf("api-2_y", noon)})
	if !cameBack(traces, "api-1_x") || cameBack(traces, "api-2_y") ||
		cameBack(traces, "api-1") || cameBack(traces, "") {
		t.Errorf("traces are %v", traces)
	}
}
