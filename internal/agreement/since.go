// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"slices"
	"time"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// wholeSecond is what a time in whole seconds may be too early by.
const wholeSecond = time.Second

// stamps are the latest moments at which something happened that may have changed who writes what, each by
// the clock of the server that wrote it down. Comparable.
type stamps struct {
	started time.Time // a server's start
	gone    time.Time // a server no longer counts as live
	moved   time.Time // a server entered or left the EndpointSlice
	defined time.Time // the CRD's spec was written
	// seen is when, by our clock, the Observer first saw the servers that live now, and zero where that proves nothing.
	// They have been writing what they write at least since then, whichever resource is asked about.
	seen time.Time
	// serversUnknown, definedUnknown: one of started, gone and moved cannot be known, or defined cannot.
	serversUnknown, definedUnknown bool
}

// stampsOf reads the moments off the findings.
func stampsOf(f findings) stamps {
	s := stamps{moved: f.endpoints.changed}
	// A Lease's creation is a process's start only on servers that replace their Lease; and only where each of the live
	// ones was asked is it known that all do.
	s.serversUnknown = len(f.leases.live) == 0 || s.moved.IsZero() || !restartsSeen(f.reports)
	for _, l := range f.leases.live {
		if l.departed {
			continue // it started before it departed
		}
		s.serversUnknown = s.serversUnknown || l.created.IsZero()
		s.started = latest(s.started, l.created)
	}
	// A server that crashed or hangs counted as live for FreshFor after its last renewal: this is when the servers
	// became the ones they are.
	for _, l := range f.leases.gone {
		s.gone = latest(s.gone, l.renewed.Add(FreshFor))
	}
	if f.crd != nil {
		written, ok := f.crd.SpecWritten()
		s.defined = written
		s.definedUnknown = !ok
	}
	return s
}

func restartsSeen(reports []report) bool {
	for _, r := range reports {
		if r.evidence >= migrate.Observed && r.restartsSeen {
			return true
		}
	}
	return false
}

// clocks relates the clocks of live servers to ours, as one reading of the Leases shows them.
type clocks struct {
	// lag bounds how far the clocks of the servers are behind ours: a server renewed its Lease no later than it was
	// read. No two clocks need to agree for this; it errs by the time since the last renewal, ten seconds at most.
	lag time.Duration
	// readAt is when the Leases had been read, by our clock.
	readAt time.Time
}

// clocks are those of the live servers. What a server wrote down that is no longer live needs no bound of its own: its
// end, which came later, is among the stamps of the others.
func (l leases) clocks() clocks {
	c := clocks{readAt: l.readAt}
	first := true
	for _, s := range l.live {
		if d := l.readAt.Sub(s.renewed); !s.departed && (first || d > c.lag) {
			c.lag, first = d, false
		}
	}
	return c
}

// local returns the latest moment by our clock at which a live server can have written down a stamp. The lag holds for
// our wall clock as it was when the Leases were read. So the moment gets the monotonic reading of then: its age stays
// right when someone sets our clock afterwards.
func (c clocks) local(stamp time.Time) time.Time {
	if c.readAt.IsZero() { // no Leases could be read
		return stamp.Add(c.lag)
	}
	return c.readAt.Add(stamp.Add(c.lag).Sub(c.readAt))
}

// bound returns the latest moment, by our clock, at which the epoch can have begun; ok is false where it is not known.
func (s stamps) bound(c clocks) (bound time.Time, ok bool) {
	if s.definedUnknown {
		return time.Time{}, false
	}
	servers := c.local(latest(s.started, s.gone, s.moved).Add(wholeSecond))
	switch {
	case s.serversUnknown && s.seen.IsZero():
		return time.Time{}, false
	case s.serversUnknown, !s.seen.IsZero() && s.seen.Before(servers):
		servers = s.seen
	}
	if s.defined.IsZero() {
		return servers, true
	}
	return latest(servers, c.local(s.defined.Add(wholeSecond))), true
}

// sighting is what an Observer remembers of the servers: since when it has seen the ones that live now.
type sighting struct {
	holders []string
	stamps  stamps // without what concerns one resource
	since   time.Time
}

// next takes in a look that ended now. It proves something only where every live server was asked and no restart goes
// unseen; then servers with the same Leases and the same traces are the same processes all the time.
func (g sighting) next(f findings, s stamps, now time.Time) sighting {
	if len(f.leases.live) == 0 || !restartsSeen(f.reports) {
		return sighting{}
	}
	s.defined, s.definedUnknown, s.seen = time.Time{}, false, time.Time{}
	holders := f.leases.holders()
	if !g.since.IsZero() && g.stamps == s && slices.Equal(g.holders, holders) {
		return g
	}
	return sighting{holders: holders, stamps: s, since: now}
}

// memory is what one resource remembers of the looks before: the last epoch, and when it can have begun.
type memory struct {
	epoch  migrate.Epoch
	stamps stamps
	// since is the earliest of the bounds on the epoch's beginning that any look gave. Each bound holds, so
	// the earliest does.
	since time.Time
	// at is when the last look ended. notBefore is when the last look at another epoch ended; zero: there was none.
	at, notBefore time.Time
}

// disagreed is the memory after a look that saw the servers disagree. No epoch that is seen later began before it.
func (memory) disagreed(now time.Time) memory { return memory{at: now} }

// next takes in a look that ended now. Its own end bounds the beginning of what it saw, so since is never in the
// future.
//
// The same epoch with other stamps is not the same period for sure: a server without a Lease, say, came and went
// between two looks. Its beginning is bounded again, and earlier bounds are forgotten (I2).
//
// An epoch begins after the last look at another one, whatever servers wrote down: the clock of one may have been wrong
// then, and right when it renewed its Lease.
func (m memory) next(e migrate.Epoch, s stamps, c clocks, now time.Time) memory {
	since := now
	if bound, ok := s.bound(c); ok && bound.Before(since) {
		since = bound
	}
	if !m.since.IsZero() && m.epoch.Same(e) && m.stamps == s && m.since.Before(since) {
		since = m.since
	}
	notBefore := m.notBefore
	if !m.at.IsZero() && !m.epoch.Same(e) {
		notBefore = m.at
	}
	return memory{epoch: e, stamps: s, since: latest(since, notBefore), at: now, notBefore: notBefore}
}

func latest(times ...time.Time) time.Time {
	var l time.Time
	for _, t := range times {
		if t.After(l) {
			l = t
		}
	}
	return l
}
