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

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// The kube-apiservers of these tests. b2 is a process that took the place of b at its address.
var (
	serverA  = server{name: "a", holder: "a_1", address: "192.0.2.11:6443", created: at(-2 * time.Hour)}
	serverB  = server{name: "b", holder: "b_1", address: "192.0.2.12:6443", created: at(-2 * time.Hour)}
	serverB2 = server{name: "b", holder: "b_2", address: "192.0.2.12:6443", created: at(-time.Second)}
)

const testDelay = 40 * time.Second

// seeing is a reading of live servers, each of which is listed with its address; they changed last an hour before noon.
func seeing(d time.Duration, live ...server) sight {
	s := sight{now: at(d), live: live, changed: at(-time.Hour), listed: []string{}}
	for _, one := range live {
		s.listed = append(s.listed, one.address)
	}
	return s
}

// round lets a place take in a reading and the answers to what it asks then.
func (p *place) round(s sight, answers map[string]presence) absent {
	p.note(s, testDelay)
	for _, d := range p.toAsk(s.now) {
		p.learn(d, answers[d.address], s.now)
	}
	p.release(s.now, testDelay)
	return p.absent(s.now, testDelay)
}

func holdersOf(servers []server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.holder)
	}
	return list
}

func TestAServerThatIsNotListedAnyMoreHasGoneWhenItIsSilent(t *testing.T) {
	const second = time.Second
	answers := func(state presence) map[string]presence { return map[string]presence{serverB.address: state} }
	type step struct {
		sight   sight
		answers map[string]presence
		serving []string
		unsure  []string
		since   time.Duration // after noon
	}
	left := func(d time.Duration) sight { // b has left, two seconds after noon
		s := seeing(d, serverA)
		s.changed = at(2 * second)
		return s
	}
	// Whoever looks for the first time does not know who left before; what left by the last change has ended the delay
	// after it.
	begun := step{sight: seeing(0, serverA, serverB), since: -time.Hour + second + testDelay}
	gone := left(60 * second)
	for name, steps := range map[string][]step{
		"it answers, and has gone when it refuses connections": {
			begun,
			{left(3 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(28 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(29 * second), answers(silent), nil, nil, 29 * second},
			{left(90 * second), nil, nil, nil, 29 * second},
		},
		"it answers for longer than the delay": {
			begun,
			{left(3 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(300 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(301 * second), answers(silent), nil, nil, 301 * second},
		},
		"it answers for longer than the delay, and cannot be asked then": {
			begun,
			{left(3 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(300 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(331 * second), answers(uncertain), nil, []string{"b_1"}, 331 * second},
			{left(350 * second), answers(uncertain), nil, nil, 300*second + testDelay},
		},
		"there was no look for a while, and a server came: another may have come and left": {
			begun, {came(60 * second), nil, nil, nil, 60 * second},
			{came(200 * second), nil, nil, nil, 59*second + second + testDelay},
		},
		"a server came between two looks that followed each other": {
			{sight: seeing(55*second, serverA, serverB), since: -time.Hour + second + testDelay},
			{came(60 * second), nil, nil, nil, -time.Hour + second + testDelay},
		},
		"a lost packet does not make it uncertain; half a minute without an answer does": {
			begun,
			{left(3 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(13 * second), answers(uncertain), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(33 * second), answers(uncertain), nil, []string{"b_1"}, 33 * second},
			{left(44 * second), answers(uncertain), nil, nil, 3*second + testDelay}, // from when it answered last
		},
		"it cannot be asked: it counts as serving for the delay": {
			begun,
			{left(3 * second), answers(uncertain), nil, []string{"b_1"}, 3 * second},
			{left(42 * second), answers(uncertain), nil, []string{"b_1"}, 42 * second},
			{left(43 * second), answers(uncertain), nil, nil, 3*second + testDelay},
			{left(90 * second), nil, nil, nil, 3*second + testDelay},
		},
		"it hangs for longer than the delay: a suspended process may go on": {
			begun,
			{left(3 * second), answers(hanging), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(300 * second), answers(hanging), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(310 * second), answers(silent), nil, nil, 310 * second},
		},
		"another process is at its address: it does not listen any more": {
			begun, {seeing(3*second, serverA, serverB2), answers(serving), nil, nil, -time.Hour + second + testDelay},
		},
		"it comes back": {
			begun,
			{left(3 * second), answers(serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{seeing(4*second, serverA, serverB), answers(serving), nil, nil, -time.Hour + second + testDelay},
		},
		"it shared its address with the others: which server answers there is unknown": {
			{sight: seeing(0, serverA, server{name: "b", holder: "b_1", address: serverA.address}),
				since: -time.Hour + second + testDelay},
			{left(3 * second), map[string]presence{serverA.address: serving}, nil, []string{"b_1"}, 3 * second},
			{left(50 * second), nil, nil, nil, 3*second + testDelay},
		},
		"Leases cannot be read for a while: that does not mean that a server departed": {
			begun, {sight{now: at(3 * second), blind: true, listed: []string{serverA.address, serverB.address},
				changed: at(-time.Hour)}, nil, nil, nil, -time.Hour + second + testDelay},
		},
		"there was no look for a while, and a server left: another may have left as well": {
			begun, {gone, answers(silent), nil, nil, 60 * second}, {left(80 * second), nil, nil, nil, 60 * second},
		},
		"the addresses changed and are the same: an unknown server came and went": {
			begun, {func() sight { s := seeing(3*second, serverA, serverB); s.changed = at(2 * second); return s }(),
				nil, nil, nil, 3 * second},
			{func() sight { s := seeing(90*second, serverA, serverB); s.changed = at(2 * second); return s }(), nil,
				nil, nil, 3*second + testDelay},
		},
		"when addresses changed is not known: whoever left before counts as serving for the delay": {
			{sight: sight{now: noon, live: []server{serverA}}, since: 0},
			{sight: sight{now: at(39 * second), live: []server{serverA}}, since: 39 * second},
			{sight: sight{now: at(41 * second), live: []server{serverA}}, since: testDelay},
		},
		"a server left just before the first look": {
			{sight: left(5 * second), since: 5 * second},
			{sight: left(90 * second), since: 2*second + second + testDelay},
		},
		"its Lease is stale, and its machine refuses connections: it crashed": {
			{sight: stale(0, -10*second), answers: answers(silent), since: 0},
			{sight: stale(40*second, -10*second), since: 0},
		},
		"its Lease is stale, and it hangs: it is suspended": {
			{sight: stale(0, -10*second), answers: answers(hanging), serving: []string{"b_1"},
				since: -time.Hour + second + testDelay},
			{sight: stale(40*second, -10*second), answers: answers(hanging), serving: []string{"b_1"},
				since: -time.Hour + second + testDelay},
		},
		"its Lease is stale, and it cannot be asked: the delay counts from then": {
			{sight: stale(0, -10*second), unsure: []string{"b_1"}, since: 0},
			{sight: stale(40*second, -10*second), since: -10*second + testDelay},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := new(place)
			for i, s := range steps {
				a := p.round(s.sight, s.answers)
				got := fmt.Sprintf("serving %v, uncertain %v, since %v", holdersOf(a.serving),
					holdersOf(a.uncertain), a.since.Sub(noon))
				want := fmt.Sprintf("serving %v, uncertain %v, since %v", s.serving, s.unsure, s.since)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// came is a reading in which a third server is listed, since the 59th second.
func came(d time.Duration) sight {
	s := seeing(d, serverA, serverB, server{name: "c", holder: "c_1", address: "192.0.2.13:6443"})
	s.changed = at(59 * time.Second)
	return s
}

// stale is a reading in which the Lease of b stopped counting as fresh at a moment.
func stale(d, expired time.Duration) sight {
	s := seeing(d, serverA)
	b := serverB
	b.expired, b.renewed = at(expired), at(expired-FreshFor)
	s.stale = []server{b}
	return s
}

func TestAServerThatHangsIsReckonedWithBetweenTwoQuestions(t *testing.T) {
	p := new(place)
	p.note(seeing(0, serverA, serverB), time.Nanosecond)
	p.note(seeing(time.Second, serverA), time.Nanosecond)
	p.learn(p.departed[0], hanging, at(time.Second))
	if p.release(at(2*time.Second), time.Nanosecond); len(p.toAsk(at(2*time.Second))) > 0 ||
		len(p.absent(at(2*time.Second), time.Nanosecond).serving) != 1 {
		t.Errorf("a second later it is %+v", p.departed)
	}
}

func TestAProcessWithoutAPublishedAddressIsAskedAtTheOneThatLeft(t *testing.T) {
	p, answers := new(place), map[string]presence{serverB.address: serving}
	anonymous := serverB
	anonymous.address = ""
	both := seeing(0, serverA, anonymous)
	both.listed = []string{serverA.address, serverB.address}
	p.round(both, nil)
	first := seeing(time.Second, serverA) // the Lease goes before the address
	first.listed = both.listed
	if a := p.round(first, answers); !slices.Equal(holdersOf(a.uncertain), []string{"b_1"}) {
		t.Errorf("before its address is known: %+v", a)
	}
	if a := p.round(seeing(2*time.Second, serverA), answers); !slices.Equal(holdersOf(a.serving), []string{"b_1"}) ||
		a.any() && len(a.uncertain) > 0 {
		t.Errorf("when its address has left: %+v", a)
	}
}

func TestWhetherADepartedServerListens(t *testing.T) {
	address := func(l net.Listener) string { return l.Addr().String() }
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	answering := newKubeAPIServer(t, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		http.Error(w, "draining", http.StatusServiceUnavailable)
	}))
	refusing := listen()
	refusing.Close()
	another := newExtension(t, "another.example.com")
	c, err := newClient(&rest.Config{Host: "https://192.0.2.1",
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Concat(answering.ca, another.ca)}}, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		address string
		want    presence
	}{
		"it answers, be it that it cannot":                           {answering.address(), serving},
		"nothing listens there":                                      {address(refusing), silent},
		"connections are accepted, as for a process that is stopped": {address(listen()), hanging},
		"another certificate is shown there":                         {another.address(), uncertain},
		"the network swallows everything":                            {"192.0.2.77:6443", uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the network swallows everything" {
				c.config.Dial = func(ctx context.Context, _, _ string) (net.Conn,
					error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				defer func() { c.config.Dial = nil }()
			}
			if got := c.presence(t.Context(), c.own, tt.address); got != tt.want {
				t.Errorf("presence is %d, want %d", got, tt.want)
			}
		})
	}
}

// newKubeAPIServer starts a server with the certificate of a kube-apiserver.
func newKubeAPIServer(t *testing.T, handler http.Handler) *extension {
	t.Helper()
	e := newExtension(t, serverName)
	e.server.Config.Handler = handler
	return e
}

// surge is a cluster of two kube-apiservers, of which the first is told to end. Both serve at their own addresses.
type surge struct {
	servers [2]*httptest.Server
	hashes  [2]string
	told    atomic.Bool // the first one has left
	renewed time.Time   // both Leases
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
		e := newKubeAPIServer(t, s.handler(i))
		s.servers[i] = e.server
		cas = append(cas, e.ca...)
	}
	return s, &rest.Config{Host: "https://" + s.address(1),
		TLSClientConfig: rest.TLSClientConfig{CAData: cas, ServerName: serverName}}
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
		if !strings.Contains(explanation.String(), "1 of them not listed any more, but still serving") {
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
	l := leases{known: true, live: []server{serverA}, uncertain: []server{serverB}}
	if list, why := o.addresses(l, endpoints{known: true}); why == "" {
		t.Errorf("it is asked at %q", list)
	}
	if list, why := o.addresses(l, endpoints{known: true, addresses: []string{serverA.address}}); why != "" ||
		!slices.Equal(list, []string{serverA.address}) {
		t.Errorf("it is asked at %q, or not because %q; want its own address", list, why)
	}
}

func TestAServerThatDepartedAndCannotBeAskedIsInTheView(t *testing.T) {
	replaced := serverA
	replaced.holder = "a_0"
	f := findings{
		target: deviceClasses, versions: []string{"v1"}, leases: leases{known: true, live: []server{serverA}},
		reports: []report{{answers: said(hashOf(deviceClasses, "v1")), evidence: migrate.Observed}},
		absent:  absent{uncertain: []server{serverB, replaced}},
	}
	want := []Server{
		{ID: "a", Process: "a_1", Hash: hashOf(deviceClasses, "v1"), Version: "resource.k8s.io/v1", Answered: true},
		{ID: "a_0", Process: "a_0"}, {ID: "b", Process: "b_1"},
	}
	if diff := cmp.Diff(want, f.view().Servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func isDisagreement(err error) bool { return errors.Is(err, migrate.ErrDisagreement) }

func TestTwoServersOfOneHostNameRenewOneLease(t *testing.T) {
	renewals := func(at ...time.Duration) *place {
		p := new(place)
		for _, d := range at {
			one := serverA
			one.renewed = noon.Add(d)
			p.round(seeing(d, one), nil)
		}
		return p
	}
	const second = time.Second
	for name, tt := range map[string]struct {
		at   []time.Duration
		want string
	}{
		"one process": {[]time.Duration{0, 10 * second, 10 * second,
			20400 * time.Millisecond, 50 * second}, ""},
		"two processes":                             {[]time.Duration{0, 10 * second, 13 * second}, "a"},
		"two processes, seen once":                  {[]time.Duration{0, 3 * second, 13 * second, 23 * second}, "a"},
		"answers of looks that overtook each other": {[]time.Duration{10 * second, 0, 10 * second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := renewals(tt.at...).absent(at(time.Minute), testDelay)
			if a.doubled != tt.want {
				t.Errorf("the Lease that two processes renew is %q, want %q", a.doubled, tt.want)
			}
			l := leases{known: true, live: []server{serverA}}.with(a)
			if why := countable(l, endpoints{known: true}); (why != "") != (tt.want != "") {
				t.Errorf("the servers cannot be counted because %q", why)
			}
			f := findings{target: deviceClasses, leases: l, publishing: true}
			if why := f.uncountable(declares(kubernetesAPI, "a=resource.k8s.io/v1")); (why != "") != (tt.want != "") {
				t.Errorf("what is declared does not count because %q", why)
			}
		})
	}
}

func TestAddressesOfLoadBalancersAreToldFromThoseOfServers(t *testing.T) {
	var servers [2]*extension
	for i := range servers {
		servers[i] = newKubeAPIServer(t, http.NotFoundHandler())
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
				Host: "https://192.0.2.1", TLSClientConfig: rest.TLSClientConfig{CAData: slices.Concat(servers[0].ca,
					servers[1].ca)},
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network,
						servers[tt.behind[slices.Index(addresses, address)]].address())
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
