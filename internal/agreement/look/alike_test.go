// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/agreement/tlstest"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

func TestTheOnlyAddressDoesNotProveAnythingWhileAServerThatDepartedMayAnswerThere(t *testing.T) {
	o := newObserved(&client{})
	const address = "192.0.2.11:6443"
	l := snapshot.Leases{Known: true, Live: []snapshot.Server{{Name: "a", Holder: "a_1", Address: address}},
		Uncertain: []snapshot.Server{{Name: "b", Holder: "b_1"}}}
	if list, why := o.addresses(l, snapshot.Endpoints{Known: true}); why == "" {
		t.Errorf("it is asked at %q", list)
	}
	if list, why := o.addresses(l, snapshot.Endpoints{Known: true, Addresses: []string{address}}); why != "" ||
		!slices.Equal(list, []string{address}) {
		t.Errorf("it is asked at %q, or not because %q; want its own address", list, why)
	}
}

func TestAddressesOfLoadBalancersAreToldFromThoseOfServers(t *testing.T) {
	var servers [2]tlstest.Server
	for i := range servers {
		servers[i] = tlstest.New(t, apiserver.ServerName, http.NotFoundHandler())
	}
	addresses := []string{"192.0.2.11:6443", "192.0.2.12:6443", "192.0.2.13:6443"}
	for name, tt := range map[string]struct {
		behind []int // which server an address leads to
		want   bool
	}{
		"each leads to a server of its own": {[]int{0, 1}, false},
		"both lead to one server":           {[]int{1, 1}, true},
		"two of three lead to one server":   {[]int{0, 1, 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newClient(&rest.Config{
				Host: "https://192.0.2.1", TLSClientConfig: rest.TLSClientConfig{CAData: slices.Concat(servers[0].CA,
					servers[1].CA)},
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network,
						servers[tt.behind[slices.Index(addresses, address)]].Address())
				},
			}, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			a := &alike{client: c}
			why := ""
			for range 50 { // the order is by chance
				if why = a.check(t.Context(), addresses[:len(tt.behind)]); why != "" {
					break
				}
			}
			if (why != "") != tt.want {
				t.Errorf("they are not those of servers because %q", why)
			}
			if why == "" {
				return
			}
			l, e := snapshot.Leases{Known: true, Live: []snapshot.Server{{Holder: "a_1"}, {Holder: "b_1"}}},
				snapshot.Endpoints{Known: true, Addresses: addresses[:2]}
			if l.Alike = why; countable(l, e) != why {
				t.Error("the servers are counted all the same")
			}
			a.why, a.servers, a.checked = why, slices.Concat(l.Holders(), e.Addresses), time.Now()
			if a.of(t.Context(), l, e) != why {
				t.Error("it is forgotten while the servers are the same")
			}
		})
	}
}
