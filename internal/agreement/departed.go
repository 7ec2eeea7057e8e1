// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"slices"
	"time"
)

// An API server that is told to shut down deletes its identity Lease and leaves its EndpointSlice at once, and
// continues to accept requests for --shutdown-delay-duration. A server that was suspended for longer than a Lease
// counts as fresh may finish its writes when it resumes. So a server that is no longer listed may still write (I2).
// This file remembers the servers that were listed, and asks those that no longer are at their last address: as long as
// such a server answers, it is one of the servers that can write, with the version that it shows.
//
// A server that cannot be asked (its address is unknown, packets to it get lost, or it left before the first look)
// counts as serving for Options.ShutdownDelay, and no epoch begins until then.

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
	// askDepartedAgain is the time after which a departed server that did not answer is asked again. A server that
	// answers is asked by every look.
	askDepartedAgain = 5 * time.Second
)

// missedFor is how long an address that used to answer may fail before the evidence becomes weaker. Until then a failure
// voids the look, so that one lost packet does not turn Observed into Sampled.
const missedFor = 30 * time.Second

// presence is what is known about a departed server.
type presence int

const (
	// uncertain means that it cannot be determined: the network does not let a connection through, the address is
	// unknown or belongs to several servers, or another certificate is shown there.
	uncertain presence = iota
	// serving means that a server sent an HTTP answer of any kind after its certificate had been verified.
	serving
	// hanging means that its machine accepts connections for it, and it does not answer, like a suspended process.
	hanging
	// silent means that its machine refuses connections: the process no longer listens.
	silent
)

// departure is a server that was listed and no longer is.
type departure struct {
	server
	// noticed is when it was found to be no longer listed. If its Lease was not renewed, it is when the Lease stopped
	// counting as fresh.
	noticed time.Time
	state   presence
	// served is when it was last known to listen after it had departed, or zero.
	served time.Time
	// ask is when to ask it again.
	ask time.Time
}

// key identifies a departed server by its process or, if that is unknown, by its address.
func (d departure) key() string {
	if d.holder != "" {
		return d.holder
	}
	return d.address
}

// expires returns when a server counts as gone if nothing more becomes known about it.
func (d departure) expires(delay time.Duration) time.Time {
	return latest(d.noticed, d.served).Add(delay)
}

// fleet is a set of API servers that write the same resources and that come and go: the kube-apiservers, or the
// processes behind one service. Its methods do no I/O and take the time, by this machine's clock, as an argument. The
// zero value has not seen any reading.
type fleet struct {
	read     time.Time // when the last reading took place
	present  []server  // in the last reading
	listed   []string  // the addresses in the EndpointSlice in the last reading
	changed  time.Time // when listed last changed, by the clock of the server that changed it
	departed []departure
	// renewed is when the Lease of each present server was last renewed. doubled are the Leases that two processes
	// renew. Both are by holder.
	renewed map[string]time.Time
	doubled map[string]bool
	// ended are the stale Leases of processes that are known to have ended, by holder.
	ended map[string]bool
	// late is until when a server that left unseen may still serve. That server left the EndpointSlice by lateStamp,
	// the value of changed at the time, so it serves no longer than until quiet, which is the earliest bound that any
	// look gave, or zero if there is none.
	late, lateStamp, quiet time.Time
	// known is the latest moment at which a server that is gone now was known, or had to be assumed, to serve.
	known time.Time
}

// sight is one reading of the servers of a fleet that are listed.
type sight struct {
	now time.Time
	// blind means that the reading does not show which servers live. It is no reason to count one as departed.
	blind bool
	// live are the listed servers. stale are those whose Lease is no longer renewed, each with the moment at which the
	// Lease stopped counting as fresh.
	live, stale []server
	// listed are the addresses of an EndpointSlice, or nil if they are unknown.
	listed []string
	// changed is when they last changed, by the clock of one of the servers, or zero if that is unknown.
	changed time.Time
	clocks  clocks
}

// note adds a reading: a server that is no longer listed has departed.
func (p *fleet) note(s sight, delay time.Duration) {
	if s.blind {
		s.live = p.present
	}
	if p.unexplained(s) {
		p.late, p.lateStamp, p.quiet = latest(p.late, s.now.Add(delay)), s.changed, time.Time{}
	}
	for i, before := range p.present {
		if shares(p.present, i) {
			before.address = "" // it may belong to a load balancer, behind which another server answers
		}
		p.depart(s, departure{server: before, noticed: s.now})
	}
	if s.listed != nil {
		for _, address := range p.listed {
			if !slices.Contains(s.listed, address) {
				p.depart(s, departure{server: server{address: address}, noticed: s.now})
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
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool { return s.lists(d.server) })
	p.present, p.read, p.changed = s.live, s.now, s.changed
	if s.changed.IsZero() || !s.changed.Equal(p.lateStamp) || len(s.live) == 0 {
		return
	}
	if quiet := s.clocks.local(s.changed).Add(wholeSecond + delay); p.quiet.IsZero() || quiet.Before(p.quiet) {
		p.quiet = quiet
	}
}

// unexplained reports whether a server that was never seen in a reading may have left since the last one.
func (p *fleet) unexplained(s sight) bool {
	same := slices.EqualFunc(p.present, s.live, func(a, b server) bool { return a.holder == b.holder }) &&
		slices.Equal(p.listed, s.listed)
	switch {
	case p.read.IsZero():
		return true
	case same:
		return !p.changed.Equal(s.changed) // a server came and went
	}
	return s.now.Sub(p.read) > followGap
}

// depart remembers a server that may have departed.
func (p *fleet) depart(s sight, d departure) {
	if s.lists(d.server) || p.ended[d.holder] {
		return
	}
	if slices.ContainsFunc(p.departed, func(known departure) bool {
		return known.key() == d.key() || d.holder == "" && known.address == d.address
	}) {
		return
	}
	p.departed = append(p.departed, d)
}

// noteStale remembers servers with a Lease that is not renewed: they crashed, hang, or are suspended.
func (p *fleet) noteStale(s sight) {
	ended := map[string]bool{}
	for _, stale := range s.stale {
		for _, l := range s.live {
			if l.address == stale.address && !l.created.After(stale.renewed) { // both lived at the same time
				stale.address = ""
			}
		}
		p.depart(s, departure{server: stale, noticed: stale.expired})
		ended[stale.holder] = p.ended[stale.holder]
	}
	p.ended = ended
}

// noteRenewals finds Leases that two processes renew. API servers with the same host name share one Lease: each keeps
// the holder that it finds, so there seems to be only one server. One process renews its Lease every 10 s and never
// earlier.
func (p *fleet) noteRenewals(s sight) {
	renewed, doubled := map[string]time.Time{}, map[string]bool{}
	for _, l := range s.live {
		before, known := p.renewed[l.holder]
		between := l.renewed.Sub(before)
		doubled[l.holder] = p.doubled[l.holder] || known && between > 0 && between < leastRenewal
		renewed[l.holder] = latest(before, l.renewed)
	}
	p.renewed, p.doubled = renewed, doubled
}

// shares reports whether one of several servers has the same address as another.
func shares(servers []server, i int) bool {
	return slices.ContainsFunc(servers, func(s server) bool {
		return s.holder != servers[i].holder &&
			s.address == servers[i].address
	})
}

// lists reports whether a server is listed, or another process is listed at its address. An address belongs to one
// process, so the earlier process has stopped listening there.
func (s sight) lists(one server) bool {
	return slices.ContainsFunc(s.live, func(l server) bool {
		return one.holder != "" && l.holder == one.holder || one.address != "" && l.address == one.address
	})
}

// pair joins a process without a published address with the address that left, if there is exactly one of each.
func (p *fleet) pair() {
	var process, address []int
	for i, d := range p.departed {
		switch {
		case d.address == "":
			process = append(process, i)
		case d.holder == "":
			address = append(address, i)
		}
	}
	if len(process) == 1 && len(address) == 1 {
		d := &p.departed[process[0]]
		d.address, d.state, d.ask = p.departed[address[0]].address, uncertain, time.Time{}
		p.departed = slices.Delete(p.departed, address[0], address[0]+1)
	}
}

// toAsk returns the departed servers that are due to be asked.
func (p *fleet) toAsk(now time.Time) []departure {
	var list []departure
	for _, d := range p.departed {
		if d.address != "" && !now.Before(d.ask) {
			list = append(list, d)
		}
	}
	return list
}

// learn adds the result of asking a departed server.
func (p *fleet) learn(one departure, state presence, now time.Time) {
	for i := range p.departed {
		d := &p.departed[i]
		if d.key() != one.key() {
			continue
		}
		if state == uncertain && d.state != uncertain && now.Sub(d.served) < missedFor {
			return // one lost packet changes nothing
		}
		d.state = state
		switch state {
		case serving:
			d.served = now
		case hanging:
			d.served, d.ask = now, now.Add(askDepartedAgain)
		case uncertain:
			d.ask = now.Add(askDepartedAgain)
		case silent:
			p.known = latest(p.known, now)
		}
	}
}

// release drops the departed servers that have gone, and those that have counted as serving for long enough.
func (p *fleet) release(now time.Time, delay time.Duration) {
	p.departed = slices.DeleteFunc(p.departed, func(d departure) bool {
		expired := d.state == uncertain && !now.Before(d.expires(delay))
		if expired {
			p.known = latest(p.known, d.expires(delay))
		}
		gone := expired || d.state == silent
		if _, stale := p.ended[d.holder]; gone && stale {
			p.ended[d.holder] = true
		}
		return gone
	})
}

// absent is what a look needs to know about departed servers.
type absent struct {
	// serving are those that can still write: they answer or hang. Sorted by holder.
	serving []server
	// uncertain are those that may still write and cannot be asked.
	uncertain []server
	// doubled is the name of a live server whose Lease another process renews as well, or "".
	doubled string
	// since is the latest moment at which a server that is no longer listed may have written. It is never after the end
	// of the look.
	since time.Time
	// until is when since stops to move on with the time, if nothing more becomes known; zero if it does not.
	until time.Time
}

// any reports whether a server that is no longer listed can still write, or may.
func (a absent) any() bool { return len(a.serving)+len(a.uncertain) > 0 }

// absent sums up what is known now.
func (p *fleet) absent(now time.Time, delay time.Duration) absent {
	a := absent{since: p.late}
	for _, l := range p.present {
		if p.doubled[l.holder] {
			a.doubled = l.name
		}
	}
	if !p.quiet.IsZero() && p.quiet.Before(a.since) {
		a.since = p.quiet
	}
	a.since = latest(a.since, p.known)
	for _, d := range p.departed {
		one := d.server
		one.departed = true
		if d.state == serving || d.state == hanging {
			a.serving = append(a.serving, one)
			continue
		}
		a.uncertain = append(a.uncertain, one)
		a.since = latest(a.since, d.expires(delay))
	}
	if a.since.After(now) {
		a.since, a.until = now, a.since
	}
	return a
}
