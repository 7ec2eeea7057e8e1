// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/tlstest"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// surge is a cluster of two kube-apiservers, of which the first is told to shut down. Both serve at their own
// addresses.
type surge struct {
	servers [2]*httptest.Server
	hashes  [2]string
	told    atomic.Bool // the first one has left
	renewed time.Time   // both Leases
	cas     [2][]byte   // the authorities of the certificates
}

func (s *surge) handler(i int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var leases, addresses []string
		for j := range s.servers {
			if j == 0 && s.told.Load() {
				continue
			}
			host, _, _ := net.SplitHostPort(s.address(j))
			leases = append(leases, fmt.Sprintf(`{"metadata": {"name": "apiserver-%d", "creationTimestamp": "2026-01-01T11:00:00Z", "annotations": {"kubernetes.io/peer-advertise-address": %q}},
			 "spec": {"holderIdentity": "apiserver-%d_1", "renewTime": %q}}`, j, s.address(j), j, s.renewed.UTC().Format("2006-01-02T15:04:05.000000Z")))
			addresses = append(addresses, fmt.Sprintf(
				`{"metadata": {"managedFields": [{"time": "2026-01-01T11:00:00Z"}]}, "ports": [{"name": "https", "port": %d}], "endpoints": [{"addresses": [%q]}]}`, s.port(j), host,
			))
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/leases"):
			fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(leases, ","))
		case strings.HasSuffix(r.URL.Path, "/endpointslices"):
			fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(addresses, ","))
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"gitVersion": "v1.37.0"}`)
		case r.URL.Path == "/api":
			fmt.Fprint(w, `{"versions": []}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"groups": [{"name": "resource.k8s.io", "versions": [{"version": "v1"}]}]}`)
		case strings.HasPrefix(r.URL.Path, "/apis/resource.k8s.io"):
			fmt.Fprintf(w, `{"resources": [{"name": "deviceclasses", "kind": "DeviceClass", "verbs": ["list", "patch"], "storageVersionHash": %q}]}`, s.hashes[i])
		default:
			http.NotFound(w, r)
		}
	})
}

func (s *surge) address(i int) string { return s.servers[i].Listener.Addr().String() }
func (s *surge) port(i int) int       { return s.servers[i].Listener.Addr().(*net.TCPAddr).Port }

// newSurge starts them, and returns a configuration for the second one's address.
func newSurge(t *testing.T, hashes ...string) (*surge, *rest.Config) {
	t.Helper()
	s := &surge{hashes: [2]string(hashes), renewed: time.Now()}
	var cas []byte
	for i := range s.servers {
		e := tlstest.New(t, apiserver.ServerName, s.handler(i))
		s.servers[i], s.cas[i] = e.Server, e.CA
		cas = append(cas, e.CA...)
	}
	return s, &rest.Config{Host: "https://" + s.address(1),
		TLSClientConfig: rest.TLSClientConfig{CAData: cas, ServerName: apiserver.ServerName}}
}

func TestLooksReckonWithAServerThatLeavesUntilItIsSilent(t *testing.T) {
	old, current := hashOf(deviceClasses, "v1beta2"), hashOf(deviceClasses, "v1")
	both := []string{"apiserver-0_1", "apiserver-1_1"}
	t.Run("of another version: there is no agreement", func(t *testing.T) {
		s, config := newSurge(t, old, current)
		o, err := NewObserver(config, Options{ShutdownDelay: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		r := o.For(deviceClasses)
		for _, told := range []bool{false, true} {
			s.told.Store(told)
			if e, err := r.Epoch(t.Context()); !isDisagreement(err) {
				t.Errorf("told to end %t: the look says %+v, %v, want a disagreement", told, e, err)
			}
			round := roundOf(t, o)
			v := viewOf(t, round, "resource.k8s.io", "deviceclasses")
			if v.Epoch != nil || !v.Disagree || len(v.Servers) != 2 || v.Servers[0].Hash != old ||
				!v.Servers[0].Answered || v.Servers[0].Process != both[0] || round.Leaving != told {
				t.Errorf("told to end %t: the view is %+v, leaving %t", told, v, round.Leaving)
			}
		}
		before := time.Now()
		s.servers[0].Close()
		e, err := r.Epoch(t.Context())
		if err != nil || e.Hash != current || !slices.Equal(e.Servers, both[1:]) || e.Since.Before(before) {
			t.Errorf("when it is silent the look says %+v, %v, want an epoch of the other alone since %v or later", e,
				err, before)
		}
		if v := viewOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses"); v.Epoch == nil || len(v.Servers) != 1 ||
			v.Epoch.Since.Before(before) {
			t.Errorf("when it is silent the view is %+v", v)
		}
	})
	t.Run("of the same version: the epoch of both lasts", func(t *testing.T) {
		s, config := newSurge(t, current, current)
		r := observe(t, config, deviceClasses)
		first, _ := look(t, r)
		s.told.Store(true)
		second, explanation := look(t, r)
		if !second.Same(first) || !slices.Equal(second.Servers, both) || second.Evidence != migrate.Observed {
			t.Errorf("the epoch is %+v, want %+v", second, first)
		}
		if !strings.Contains(explanation.String(), "1 of them no longer listed, but still serving") {
			t.Errorf("the explanation is %q", explanation)
		}
		s.servers[0].Close()
		if third, _ := look(t, r); third.Same(first) {
			t.Errorf("when it is silent the epoch is %+v, as before", third)
		}
	})
	t.Run("before the first look: the delay counts", func(t *testing.T) {
		s, config := newSurge(t, old, current)
		s.told.Store(true)
		r, err := New(config, deviceClasses, Options{ShutdownDelay: 100 * 365 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			before := time.Now()
			if e, _ := look(t, r); e.Since.Before(before) {
				t.Errorf("the epoch began at %v, want no earlier than the look, %v", e.Since, before)
			}
		}
	})
}

func TestTheOnlyAddressDoesNotProveAnythingWhileAServerThatDepartedMayAnswerThere(t *testing.T) {
	o := newObserved(&client{})
	const address = "192.0.2.11:6443"
	l := leases{known: true, live: []server{{name: "a", holder: "a_1", address: address}},
		uncertain: []server{{name: "b", holder: "b_1"}}}
	if list, why := o.addresses(l, endpoints{known: true}); why == "" {
		t.Errorf("it is asked at %q", list)
	}
	if list, why := o.addresses(l, endpoints{known: true, addresses: []string{address}}); why != "" ||
		!slices.Equal(list, []string{address}) {
		t.Errorf("it is asked at %q, or not because %q; want its own address", list, why)
	}
}

func TestAServerThatDepartedAndCannotBeAskedIsInTheView(t *testing.T) {
	lives, left := server{name: "a", holder: "a_1"}, server{name: "b", holder: "b_1"}
	replaced := server{name: "a", holder: "a_0"}
	f := findings{
		target: deviceClasses, versions: []string{"v1"}, leases: leases{known: true, live: []server{lives}},
		reports: []report{{answers: said(hashOf(deviceClasses, "v1")), evidence: migrate.Observed}},
		absent:  absent{uncertain: []server{left, replaced}},
	}
	want := []Server{
		{ID: "a", Process: "a_1", Hash: hashOf(deviceClasses, "v1"), Version: "resource.k8s.io/v1", Answered: true},
		{ID: "a_0", Process: "a_0"}, {ID: "b", Process: "b_1"},
	}
	if diff := compare.Diff(want, f.view().Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func isDisagreement(err error) bool { return errors.Is(err, migrate.ErrDisagreement) }

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
			l, e := leases{known: true, live: []server{serverA, serverB}},
				endpoints{known: true, addresses: addresses[:2]}
			if l.alike = why; countable(l, e) != why {
				t.Error("the servers are counted all the same")
			}
			a.why, a.servers, a.checked = why, slices.Concat(l.holders(), e.addresses), time.Now()
			if a.of(t.Context(), l, e) != why {
				t.Error("it is forgotten while the servers are the same")
			}
		})
	}
}
