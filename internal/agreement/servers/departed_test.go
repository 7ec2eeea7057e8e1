// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

// The kube-apiservers of these tests. b2 is a process that replaced b at its address.
var (
	serverA  = snapshot.Server{Name: "a", Holder: "a_1", Address: "192.0.2.11:6443", Created: at(-2 * time.Hour)}
	serverB  = snapshot.Server{Name: "b", Holder: "b_1", Address: "192.0.2.12:6443", Created: at(-2 * time.Hour)}
	serverB2 = snapshot.Server{Name: "b", Holder: "b_2", Address: "192.0.2.12:6443", Created: at(-time.Second)}
)

const testDelay = 40 * time.Second

// seeing is a reading of live servers, each listed with its address; the list changed last an hour before noon.
func seeing(d time.Duration, live ...snapshot.Server) Sight {
	s := Sight{Now: at(d), live: live, changed: at(-time.Hour), listed: []string{}}
	for _, one := range live {
		s.listed = append(s.listed, one.Address)
	}
	return s
}

// round lets a place take in a reading, and then the answers to the requests that the reading leads to.
func (p *Fleet) round(s Sight, answers map[string]Presence) snapshot.Absent {
	p.Note(s, testDelay)
	for _, d := range p.ToAsk(s.Now) {
		p.Learn(d, answers[d.Address], s.Now)
	}
	p.Release(s.Now, testDelay)
	return p.Absent(s.Now, testDelay)
}

func holdersOf(servers []snapshot.Server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Holder)
	}
	return list
}

func TestAServerThatIsNotListedAnyMoreHasGoneWhenItIsSilent(t *testing.T) {
	const second = time.Second
	answers := func(state Presence) map[string]Presence { return map[string]Presence{serverB.Address: state} }
	type step struct {
		sight   Sight
		answers map[string]Presence
		serving []string
		unsure  []string
		since   time.Duration // after noon
	}
	left := func(d time.Duration) Sight { // b has left, two seconds after noon
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
			{left(3 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(28 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(29 * second), answers(Silent), nil, nil, 29 * second},
			{left(90 * second), nil, nil, nil, 29 * second},
		},
		"it answers for longer than the delay": {
			begun,
			{left(3 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(300 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(301 * second), answers(Silent), nil, nil, 301 * second},
		},
		"it answers for longer than the delay, and cannot be asked then": {
			begun,
			{left(3 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(300 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(331 * second), answers(Uncertain), nil, []string{"b_1"}, 331 * second},
			{left(350 * second), answers(Uncertain), nil, nil, 300*second + testDelay},
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
			{left(3 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(13 * second), answers(Uncertain), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(33 * second), answers(Uncertain), nil, []string{"b_1"}, 33 * second},
			{left(44 * second), answers(Uncertain), nil, nil, 3*second + testDelay}, // from when it answered last
		},
		"it cannot be asked: it counts as serving for the delay": {
			begun,
			{left(3 * second), answers(Uncertain), nil, []string{"b_1"}, 3 * second},
			{left(42 * second), answers(Uncertain), nil, []string{"b_1"}, 42 * second},
			{left(43 * second), answers(Uncertain), nil, nil, 3*second + testDelay},
			{left(90 * second), nil, nil, nil, 3*second + testDelay},
		},
		"it hangs for longer than the delay: a suspended process may go on": {
			begun,
			{left(3 * second), answers(Hanging), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(300 * second), answers(Hanging), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{left(310 * second), answers(Silent), nil, nil, 310 * second},
		},
		"another process is at its address: it does not listen any more": {
			begun, {seeing(3*second, serverA, serverB2), answers(Serving), nil, nil, -time.Hour + second + testDelay},
		},
		"it comes back": {
			begun,
			{left(3 * second), answers(Serving), []string{"b_1"}, nil, -time.Hour + second + testDelay},
			{seeing(4*second, serverA, serverB), answers(Serving), nil, nil, -time.Hour + second + testDelay},
		},
		"it shared its address with the others: which server answers there is unknown": {
			{sight: seeing(0, serverA, snapshot.Server{Name: "b", Holder: "b_1", Address: serverA.Address}),
				since: -time.Hour + second + testDelay},
			{left(3 * second), map[string]Presence{serverA.Address: Serving}, nil, []string{"b_1"}, 3 * second},
			{left(50 * second), nil, nil, nil, 3*second + testDelay},
		},
		"Leases cannot be read for a while: that does not mean that a server departed": {
			begun, {Sight{Now: at(3 * second), blind: true, listed: []string{serverA.Address, serverB.Address},
				changed: at(-time.Hour)}, nil, nil, nil, -time.Hour + second + testDelay},
		},
		"there was no look for a while, and a server left: another may have left as well": {
			begun, {gone, answers(Silent), nil, nil, 60 * second}, {left(80 * second), nil, nil, nil, 60 * second},
		},
		"the addresses changed and are the same: an unknown server came and went": {
			begun, {func() Sight { s := seeing(3*second, serverA, serverB); s.changed = at(2 * second); return s }(),
				nil, nil, nil, 3 * second},
			{func() Sight { s := seeing(90*second, serverA, serverB); s.changed = at(2 * second); return s }(), nil,
				nil, nil, 3*second + testDelay},
		},
		"if it is unknown when addresses changed, servers that left before count as serving for the delay": {
			{sight: Sight{Now: noon, live: []snapshot.Server{serverA}}, since: 0},
			{sight: Sight{Now: at(39 * second), live: []snapshot.Server{serverA}}, since: 39 * second},
			{sight: Sight{Now: at(41 * second), live: []snapshot.Server{serverA}}, since: testDelay},
		},
		"a server left just before the first look": {
			{sight: left(5 * second), since: 5 * second},
			{sight: left(90 * second), since: 2*second + second + testDelay},
		},
		"its Lease is stale, and its machine refuses connections: it crashed": {
			{sight: stale(0, -10*second), answers: answers(Silent), since: 0},
			{sight: stale(40*second, -10*second), since: 0},
		},
		"its Lease is stale, and it hangs: it is suspended": {
			{sight: stale(0, -10*second), answers: answers(Hanging), serving: []string{"b_1"},
				since: -time.Hour + second + testDelay},
			{sight: stale(40*second, -10*second), answers: answers(Hanging), serving: []string{"b_1"},
				since: -time.Hour + second + testDelay},
		},
		"its Lease is stale, and it cannot be asked: the delay counts from then": {
			{sight: stale(0, -10*second), unsure: []string{"b_1"}, since: 0},
			{sight: stale(40*second, -10*second), since: -10*second + testDelay},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := new(Fleet)
			for i, s := range steps {
				a := p.round(s.sight, s.answers)
				got := fmt.Sprintf("serving %v, uncertain %v, since %v", holdersOf(a.Serving),
					holdersOf(a.Uncertain), a.Since.Sub(noon))
				want := fmt.Sprintf("serving %v, uncertain %v, since %v", s.serving, s.unsure, s.since)
				if diff := compare.Diff(want, got); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// came is a reading in which a third server is listed, since the 59th second.
func came(d time.Duration) Sight {
	s := seeing(d, serverA, serverB, snapshot.Server{Name: "c", Holder: "c_1", Address: "192.0.2.13:6443"})
	s.changed = at(59 * time.Second)
	return s
}

// stale is a reading in which the Lease of b stopped counting as fresh at a moment.
func stale(d, expired time.Duration) Sight {
	s := seeing(d, serverA)
	b := serverB
	b.Expired, b.Renewed = at(expired), at(expired-identity.FreshFor)
	s.stale = []snapshot.Server{b}
	return s
}

func TestAServerThatHangsIsReckonedWithBetweenTwoQuestions(t *testing.T) {
	p := new(Fleet)
	p.Note(seeing(0, serverA, serverB), time.Nanosecond)
	p.Note(seeing(time.Second, serverA), time.Nanosecond)
	p.Learn(p.departed[0], Hanging, at(time.Second))
	if p.Release(at(2*time.Second), time.Nanosecond); len(p.ToAsk(at(2*time.Second))) > 0 ||
		len(p.Absent(at(2*time.Second), time.Nanosecond).Serving) != 1 {
		t.Errorf("a second later it is %+v", p.departed)
	}
}

func TestAProcessWithoutAPublishedAddressIsAskedAtTheOneThatLeft(t *testing.T) {
	p, answers := new(Fleet), map[string]Presence{serverB.Address: Serving}
	anonymous := serverB
	anonymous.Address = ""
	both := seeing(0, serverA, anonymous)
	both.listed = []string{serverA.Address, serverB.Address}
	p.round(both, nil)
	first := seeing(time.Second, serverA) // the Lease goes before the address
	first.listed = both.listed
	if a := p.round(first, answers); !slices.Equal(holdersOf(a.Uncertain), []string{"b_1"}) {
		t.Errorf("before its address is known: %+v", a)
	}
	if a := p.round(seeing(2*time.Second, serverA), answers); !slices.Equal(holdersOf(a.Serving), []string{"b_1"}) ||
		a.Any() && len(a.Uncertain) > 0 {
		t.Errorf("when its address has left: %+v", a)
	}
}

// A server may have left before the first look. Until when it may still write does not change from look to look.
func TestUntilWhenAServerMayStillBeLeavingIsKnownFromTheStart(t *testing.T) {
	var p Fleet
	live := seeing(0, snapshot.Server{Holder: "a", Address: "192.0.2.10:6443"})
	live.changed = time.Time{} // no one says when the list changed
	for _, since := range []time.Duration{0, testDelay / 2, testDelay - time.Second} {
		live.Now = at(since)
		if a := p.round(live, nil); !a.Since.Equal(at(since)) || !a.Until.Equal(at(testDelay)) {
			t.Errorf("after %v: since %v, until %v, want now and %v", since, a.Since, a.Until, at(testDelay))
		}
	}
	live.Now = at(testDelay + time.Second)
	if a := p.round(live, nil); !a.Since.Equal(at(testDelay)) || !a.Until.IsZero() {
		t.Errorf("afterwards: since %v, until %v, want %v and none", a.Since, a.Until, at(testDelay))
	}
}

func TestTwoServersOfOneHostNameRenewOneLease(t *testing.T) {
	renewals := func(at ...time.Duration) *Fleet {
		p := new(Fleet)
		for _, d := range at {
			one := serverA
			one.Renewed = noon.Add(d)
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
			a := renewals(tt.at...).Absent(at(time.Minute), testDelay)
			if a.Doubled != tt.want {
				t.Errorf("the Lease that two processes renew is %q, want %q", a.Doubled, tt.want)
			}
			if l := (snapshot.Leases{Known: true}).Including(a); l.Doubled != tt.want {
				t.Errorf("with that the Leases say %q, want %q", l.Doubled, tt.want)
			}
		})
	}
}

// A server before 1.35 that returns at once after a crash renews the Lease of its predecessor early, once.
func TestALeaseThatWasRenewedEarlyOnceIsBelievedAgain(t *testing.T) {
	renewed := func(seconds int) snapshot.Server {
		s := serverA
		s.Renewed = at(time.Duration(seconds) * time.Second)
		return s
	}
	var p Fleet
	for _, step := range []struct {
		at, renewed int // seconds
		doubled     string
	}{
		{0, 0, ""}, {10, 10, ""}, {14, 14, "a"}, {24, 24, "a"}, {60, 54, "a"}, {80, 74, ""}, {90, 84, ""}, {95, 89, "a"},
	} {
		if got := p.round(seeing(time.Duration(step.at)*time.Second, renewed(step.renewed)), nil).Doubled; got != step.doubled {
			t.Errorf("after %d s, renewed at %d s: doubled %q, want %q", step.at, step.renewed, got, step.doubled)
		}
	}
}
