// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
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

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
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

func (s *surge) port(i int) int { return s.servers[i].Listener.Addr().(*net.TCPAddr).Port }

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
		o, err := NewObserver(config, look.Options{ShutdownDelay: time.Nanosecond})
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
			v := verdictOf(t, round, "resource.k8s.io", "deviceclasses")
			if v.Epoch != nil || !v.Disagree || len(v.Servers) != 2 || v.Servers[0].Hash != old ||
				!v.Servers[0].Answered || v.Servers[0].Process != both[0] || round.Leaving != told {
				t.Errorf("told to end %t: the verdict is %+v, leaving %t", told, v, round.Leaving)
			}
		}
		before := time.Now()
		s.servers[0].Close()
		e, err := r.Epoch(t.Context())
		if err != nil || e.Hash != current || !slices.Equal(e.Servers, both[1:]) || e.Since.Before(before) {
			t.Errorf("when it is silent the look says %+v, %v, want an epoch of the other alone since %v or later", e,
				err, before)
		}
		if v := verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses"); v.Epoch == nil || len(v.Servers) != 1 ||
			v.Epoch.Since.Before(before) {
			t.Errorf("when it is silent the verdict is %+v", v)
		}
	})
	t.Run("of the same version: the epoch of both lasts", func(t *testing.T) {
		s, config := newSurge(t, current, current)
		r := observe(t, config, deviceClasses)
		first, _ := lookAt(t, r)
		s.told.Store(true)
		second, explanation := lookAt(t, r)
		if !second.Same(first) || !slices.Equal(second.Servers, both) || second.Evidence != migrate.Observed {
			t.Errorf("the epoch is %+v, want %+v", second, first)
		}
		if !strings.Contains(explanation.String(), "1 of them no longer listed, but still serving") {
			t.Errorf("the explanation is %q", explanation)
		}
		s.servers[0].Close()
		if third, _ := lookAt(t, r); third.Same(first) {
			t.Errorf("when it is silent the epoch is %+v, as before", third)
		}
	})
	t.Run("before the first look: the delay counts", func(t *testing.T) {
		s, config := newSurge(t, old, current)
		s.told.Store(true)
		r, err := New(config, deviceClasses, look.Options{ShutdownDelay: 100 * 365 * 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			before := time.Now()
			if e, _ := lookAt(t, r); e.Since.Before(before) {
				t.Errorf("the epoch began at %v, want no earlier than the look, %v", e.Since, before)
			}
		}
	})
}

func TestAServerThatDepartedAndCannotBeAskedIsInTheVerdict(t *testing.T) {
	lives, left := snapshot.Server{Name: "a", Holder: "a_1"}, snapshot.Server{Name: "b", Holder: "b_1"}
	replaced := snapshot.Server{Name: "a", Holder: "a_0"}
	f := findings{
		target: deviceClasses, versions: []string{"v1"}, leases: snapshot.Leases{Known: true, Live: []snapshot.Server{lives}},
		reports: []report{{answers: said(hashOf(deviceClasses, "v1")), evidence: migrate.Observed}},
		absent:  snapshot.Absent{Uncertain: []snapshot.Server{left, replaced}},
	}
	want := []Server{
		{ID: "a", Process: "a_1", Hash: hashOf(deviceClasses, "v1"), Version: "resource.k8s.io/v1", Answered: true},
		{ID: "a_0", Process: "a_0"}, {ID: "b", Process: "b_1"},
	}
	if diff := compare.Diff(want, f.verdict().Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func isDisagreement(err error) bool { return errors.Is(err, migrate.ErrDisagreement) }
