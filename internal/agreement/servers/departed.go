// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package servers knows which processes may write: those that live, those that have left and are not silent yet, and
// since when they have been the same. It is pure: it has no clock and does no I/O, and its types are the memory from
// look to look.
//
// An API server that is told to shut down deletes its identity Lease and leaves its EndpointSlice at once, and
// continues to accept requests for --shutdown-delay-duration. A server that was suspended for longer than a Lease
// counts as fresh may finish its writes when it resumes. So a server that is no longer listed may still write (I2). A
// Fleet remembers the servers that were listed, and says which of those that no longer are have to be asked at their
// last address: as long as such a server answers, it is one of the servers that can write, with the version that it
// shows. A server that cannot be asked (its address is unknown, packets to it get lost, or it left before the first
// look) counts as serving for a delay, and no epoch begins until then (docs/adr/0009-servers-that-leave.md).
//
// A Memory bounds when an epoch can have begun, by what servers and the CRD recorded, and by earlier looks. Doubt makes
// that later, never earlier.
package servers

import (
	"slices"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
)

// DefaultShutdownDelay is how long a server that cannot be asked counts as serving. It is the longest
// --shutdown-delay-duration that a distribution is known to set; see docs/adr/0009-servers-that-leave.md.
const DefaultShutdownDelay = 210 * time.Second

const (
	// followGap is the longest time between two looks after which the later one still knows every server that left in
	// between.
	followGap = 10 * time.Second
	// leastRenewal is less than the time between two renewals of an identity Lease by one process, which is 10 s plus
	// some jitter.
	leastRenewal = 9 * time.Second
	// doubledFor is how long a Lease counts as renewed by two processes after that was last seen.
	doubledFor = time.Minute
	// askDepartedAgain is the time after which a departed server that did not answer is asked again. A server that
	// answers is asked by every look.
	askDepartedAgain = 5 * time.Second
)

// MissedFor is how long an address that used to answer may fail before the evidence becomes weaker. Until then a failure
// voids the look, so that one lost packet does not turn Observed into Sampled.
const MissedFor = 30 * time.Second

// Presence is what is known about a departed server.
type Presence int

const (
	// Uncertain means that it cannot be determined: the network does not let a connection through, the address is
	// unknown or belongs to several servers, or another certificate is shown there.
	Uncertain Presence = iota
	// Serving means that a server sent an HTTP answer of any kind after its certificate had been verified.
	Serving
	// Hanging means that its machine accepts connections for it, and it does not answer, like a suspended process.
	Hanging
	// Silent means that its machine refuses connections: the process no longer listens.
	Silent
)

// departure is a server that was listed and no longer is.
type departure struct {
	snapshot.Server
	// noticed is when it was found to be no longer listed. If its Lease was not renewed, it is when the Lease stopped
	// counting as fresh.
	noticed time.Time
	state   Presence
	// served is when it was last known to listen after it had departed, or zero.
	served time.Time
	// ask is when to ask it again.
	ask time.Time
}

// key identifies a departed server by its process or, if that is unknown, by its address.
func (d departure) key() string {
	if d.Holder != "" {
		return d.Holder
	}
	return d.Address
}

// expires returns when a server counts as gone if nothing more becomes known about it.
func (d departure) expires(delay time.Duration) time.Time {
	return Latest(d.noticed, d.served).Add(delay)
}

// Fleet is a set of API servers that write the same resources and that come and go: the kube-apiservers, or the
// processes behind one service. Its methods do no I/O and take the time, by this machine's clock, as an argument. The
// zero value has not seen any reading.
type Fleet struct {
	read     time.Time         // when the last reading took place
	present  []snapshot.Server // in the last reading
	listed   []string          // the addresses in the EndpointSlice in the last reading
	changed  time.Time         // when listed last changed, by the clock of the server that changed it
	departed []departure
	// renewed is when the Lease of each present server was last renewed, and doubled when it was last seen, by our clock,
	// that two processes renew it. Both are by holder.
	renewed map[string]time.Time
	doubled map[string]time.Time
	// ended are the stale Leases of processes that are known to have ended, by holder.
	ended map[string]bool
	// late is until when a server that left unseen may still serve. That server left the EndpointSlice by lateStamp,
	// the value of changed at the time, so it serves no longer than until quiet, which is the earliest bound that any
	// look gave, or zero if there is none.
	late, lateStamp, quiet time.Time
	// known is the latest moment at which a server that is gone now was known, or had to be assumed, to serve.
	known time.Time
}

// Sight is one reading of the servers of a fleet that are listed.
type Sight struct {
	Now time.Time
	// blind means that the reading does not show which servers live. It is no reason to count one as departed.
	blind bool
	// live are the listed servers. stale are those whose Lease is no longer renewed, each with the moment at which the
	// Lease stopped counting as fresh.
	live, stale []snapshot.Server
	// listed are the addresses of an EndpointSlice, or nil if they are unknown.
	listed []string
	// changed is when they last changed, by the clock of one of the servers, or zero if that is unknown.
	changed time.Time
	clocks  Clocks
}

// Note adds a reading: a server that is no longer listed has departed.
func (p *Fleet) Note(s Sight, delay time.Duration) {
	if s.blind {
		s.live = p.present
	}
	if p.unexplained(s) {
		p.late, p.lateStamp, p.quiet = Latest(p.late, s.Now.Add(delay)), s.changed, time.Time{}
	}
	for i, before := range p.present {
		if shares(p.present, i) {
			before.Address = "" // it may belong to a load balancer, behind which another server answers
		}
		p.depart(s, departure{Server: before, noticed: s.Now})
	}
	if s.listed != nil {
		for _, address := range p.listed {
			if !slices.Contains(s.listed, address) {
				p.depart(s, departure{Server: snapshot.Server{Address: address}, noticed: s.Now})
			}
		}
		p.listed = s.listed
	}
	if !s.blind {
		p.noteStale(s)
		p.noteRenewals(s)
	}
	p.pair()
	// Either it came back, and its Lease is renewed; or it was replaced, and another process listens at its address.
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool { return s.lists(d.Server) })
	p.present, p.read, p.changed = s.live, s.Now, s.changed
	if s.changed.IsZero() || !s.changed.Equal(p.lateStamp) || len(s.live) == 0 {
		return
	}
	if quiet := s.clocks.local(s.changed).Add(wholeSecond + delay); p.quiet.IsZero() || quiet.Before(p.quiet) {
		p.quiet = quiet
	}
}

// unexplained reports whether a server that was never seen in a reading may have left since the last one.
func (p *Fleet) unexplained(s Sight) bool {
	same := slices.EqualFunc(p.present, s.live, func(a, b snapshot.Server) bool { return a.Holder == b.Holder }) &&
		slices.Equal(p.listed, s.listed)
	switch {
	case p.read.IsZero():
		return true
	case same:
		return !p.changed.Equal(s.changed) // a server came and went
	}
	return s.Now.Sub(p.read) > followGap
}

// depart remembers a server that may have departed.
func (p *Fleet) depart(s Sight, d departure) {
	if s.lists(d.Server) || p.ended[d.Holder] {
		return
	}
	if slices.ContainsFunc(p.departed, func(known departure) bool {
		return known.key() == d.key() || d.Holder == "" && known.Address == d.Address
	}) {
		return
	}
	p.departed = append(p.departed, d)
}

// noteStale remembers servers with a Lease that is not renewed: they crashed, hang, or are suspended.
func (p *Fleet) noteStale(s Sight) {
	ended := map[string]bool{}
	for _, stale := range s.stale {
		for _, l := range s.live {
			if l.Address == stale.Address && !l.Created.After(stale.Renewed) { // both lived at the same time
				stale.Address = ""
			}
		}
		p.depart(s, departure{Server: stale, noticed: stale.Expired})
		ended[stale.Holder] = p.ended[stale.Holder]
	}
	p.ended = ended
}

// noteRenewals finds Leases that two processes renew. API servers with the same host name share one Lease: each keeps
// the holder that it finds, so there seems to be only one server. One process renews its Lease every 10 s and never
// earlier. A server before 1.35 that returns at once after a crash also finds the holder of its predecessor, once: two
// processes that live show themselves again and again.
func (p *Fleet) noteRenewals(s Sight) {
	renewed, doubled := map[string]time.Time{}, map[string]time.Time{}
	for _, l := range s.live {
		before, known := p.renewed[l.Holder]
		if between := l.Renewed.Sub(before); known && between > 0 && between < leastRenewal {
			doubled[l.Holder] = s.Now
		} else if seen, ok := p.doubled[l.Holder]; ok && s.Now.Sub(seen) < doubledFor {
			doubled[l.Holder] = seen
		}
		renewed[l.Holder] = Latest(before, l.Renewed)
	}
	p.renewed, p.doubled = renewed, doubled
}

// shares reports whether one of several servers has the same address as another.
func shares(servers []snapshot.Server, i int) bool {
	return slices.ContainsFunc(servers, func(s snapshot.Server) bool {
		return s.Holder != servers[i].Holder &&
			s.Address == servers[i].Address
	})
}

// lists reports whether a server is listed, or another process is listed at its address. An address belongs to one
// process, so the earlier process has stopped listening there.
func (s Sight) lists(one snapshot.Server) bool {
	return slices.ContainsFunc(s.live, func(l snapshot.Server) bool {
		return one.Holder != "" && l.Holder == one.Holder || one.Address != "" && l.Address == one.Address
	})
}

// pair joins a process without a published address with the address that left, if there is exactly one of each.
func (p *Fleet) pair() {
	var process, address []int
	for i, d := range p.departed {
		switch {
		case d.Address == "":
			process = append(process, i)
		case d.Holder == "":
			address = append(address, i)
		}
	}
	if len(process) == 1 && len(address) == 1 {
		d := &p.departed[process[0]]
		d.Address, d.state, d.ask = p.departed[address[0]].Address, Uncertain, time.Time{}
		p.departed = slices.Delete(p.departed, address[0], address[0]+1)
	}
}

// ToAsk returns the departed servers that are due to be asked.
func (p *Fleet) ToAsk(now time.Time) []departure {
	var list []departure
	for _, d := range p.departed {
		if d.Address != "" && !now.Before(d.ask) {
			list = append(list, d)
		}
	}
	return list
}

// Learn adds the result of asking a departed server.
func (p *Fleet) Learn(one departure, state Presence, now time.Time) {
	for i := range p.departed {
		d := &p.departed[i]
		if d.key() != one.key() {
			continue
		}
		if state == Uncertain && d.state != Uncertain && now.Sub(d.served) < MissedFor {
			return // one lost packet changes nothing
		}
		d.state = state
		switch state {
		case Serving:
			d.served = now
		case Hanging:
			d.served, d.ask = now, now.Add(askDepartedAgain)
		case Uncertain:
			d.ask = now.Add(askDepartedAgain)
		case Silent:
			p.known = Latest(p.known, now)
		}
	}
}

// Release drops the departed servers that have gone, and those that have counted as serving for long enough.
func (p *Fleet) Release(now time.Time, delay time.Duration) {
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool {
		expired := d.state == Uncertain && !now.Before(d.expires(delay))
		if expired {
			p.known = Latest(p.known, d.expires(delay))
		}
		gone := expired || d.state == Silent
		if _, stale := p.ended[d.Holder]; gone && stale {
			p.ended[d.Holder] = true
		}
		return gone
	})
}

// Absent sums up what is known now.
func (p *Fleet) Absent(now time.Time, delay time.Duration) snapshot.Absent {
	a := snapshot.Absent{Since: p.late}
	for _, l := range p.present {
		if _, two := p.doubled[l.Holder]; two {
			a.Doubled = l.Name
		}
	}
	if !p.quiet.IsZero() && p.quiet.Before(a.Since) {
		a.Since = p.quiet
	}
	a.Since = Latest(a.Since, p.known)
	for _, d := range p.departed {
		one := d.Server
		one.Departed = true
		if d.state == Serving || d.state == Hanging {
			a.Serving = append(a.Serving, one)
			continue
		}
		a.Uncertain = append(a.Uncertain, one)
		a.Since = Latest(a.Since, d.expires(delay))
	}
	if a.Since.After(now) {
		a.Since, a.Until = now, a.Since
	}
	return a
}
