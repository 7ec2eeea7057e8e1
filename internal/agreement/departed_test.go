// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/tlstest"
	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/identity"
)

// The kube-apiservers of these tests. b2 is a process that replaced b at its address.
var (
	serverA  = server{name: "a", holder: "a_1", address: "192.0.2.11:6443", created: at(-2 * time.Hour)}
	serverB  = server{name: "b", holder: "b_1", address: "192.0.2.12:6443", created: at(-2 * time.Hour)}
	serverB2 = server{name: "b", holder: "b_2", address: "192.0.2.12:6443", created: at(-time.Second)}
)

const testDelay = 40 * time.Second

// seeing is a reading of live servers, each listed with its address; the list changed last an hour before noon.
func seeing(d time.Duration, live ...server) sight {
	s := sight{now: at(d), live: live, changed: at(-time.Hour), listed: []string{}}
	for _, one := range live {
		s.listed = append(s.listed, one.address)
	}
	return s
}

// round lets a place take in a reading, and then the answers to the requests that the reading leads to.
func (p *fleet) round(s sight, answers map[string]presence) absent {
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
	// The first look does not show which servers left before it. The delay after the last change covers a server that
	// left with that change.
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
		"if it is unknown when addresses changed, servers that left before count as serving for the delay": {
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
			p := new(fleet)
			for i, s := range steps {
				a := p.round(s.sight, s.answers)
				got := fmt.Sprintf("serving %v, uncertain %v, since %v", holdersOf(a.serving),
					holdersOf(a.uncertain), a.since.Sub(noon))
				want := fmt.Sprintf("serving %v, uncertain %v, since %v", s.serving, s.unsure, s.since)
				if diff := compare.Diff(want, got); diff != "" {
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
	b.expired, b.renewed = at(expired), at(expired-identity.FreshFor)
	s.stale = []server{b}
	return s
}

func TestAServerThatHangsIsReckonedWithBetweenTwoQuestions(t *testing.T) {
	p := new(fleet)
	p.note(seeing(0, serverA, serverB), time.Nanosecond)
	p.note(seeing(time.Second, serverA), time.Nanosecond)
	p.learn(p.departed[0], hanging, at(time.Second))
	if p.release(at(2*time.Second), time.Nanosecond); len(p.toAsk(at(2*time.Second))) > 0 ||
		len(p.absent(at(2*time.Second), time.Nanosecond).serving) != 1 {
		t.Errorf("a second later it is %+v", p.departed)
	}
}

func TestAProcessWithoutAPublishedAddressIsAskedAtTheOneThatLeft(t *testing.T) {
	p, answers := new(fleet), map[string]presence{serverB.address: serving}
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
	answering := tlstest.New(t, serverName, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		http.Error(w, "draining", http.StatusServiceUnavailable)
	}))
	refusing := listen()
	refusing.Close()
	another := tlstest.New(t, "another.example.com", http.NotFoundHandler())
	c, err := newClient(&rest.Config{Host: "https://192.0.2.1",
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Concat(answering.CA, another.CA)}}, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		address string
		want    presence
	}{
		"it answers, be it that it cannot":                           {answering.Address(), serving},
		"nothing listens there":                                      {address(refusing), silent},
		"connections are accepted, as for a process that is stopped": {address(listen()), hanging},
		"another certificate is shown there":                         {another.Address(), uncertain},
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

// A server may have left before the first look. Until when it may still write does not change from look to look.
func TestUntilWhenAServerMayStillBeLeavingIsKnownFromTheStart(t *testing.T) {
	var p fleet
	live := seeing(0, server{holder: "a", address: "192.0.2.10:6443"})
	live.changed = time.Time{} // no one says when the list changed
	for _, since := range []time.Duration{0, testDelay / 2, testDelay - time.Second} {
		live.now = at(since)
		if a := p.round(live, nil); !a.since.Equal(at(since)) || !a.until.Equal(at(testDelay)) {
			t.Errorf("after %v: since %v, until %v, want now and %v", since, a.since, a.until, at(testDelay))
		}
	}
	live.now = at(testDelay + time.Second)
	if a := p.round(live, nil); !a.since.Equal(at(testDelay)) || !a.until.IsZero() {
		t.Errorf("afterwards: since %v, until %v, want %v and none", a.since, a.until, at(testDelay))
	}
}

func TestTwoServersOfOneHostNameRenewOneLease(t *testing.T) {
	renewals := func(at ...time.Duration) *fleet {
		p := new(fleet)
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
			if l := (leases{known: true}).with(a); l.doubled != tt.want {
				t.Errorf("with that the Leases say %q, want %q", l.doubled, tt.want)
			}
		})
	}
}
