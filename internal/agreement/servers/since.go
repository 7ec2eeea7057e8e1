// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// wholeSecond is how much too early a time in whole seconds may be.
const wholeSecond = time.Second

// Stamps are the latest moments at which something happened that may have changed which processes write, or what they
// write. Each is by the clock of the server that recorded it. Values are comparable.
type Stamps struct {
	started time.Time // a server started
	gone    time.Time // a server stopped counting as live
	moved   time.Time // a server entered or left the EndpointSlice
	defined time.Time // the CRD's spec was written
	// Since is when, by our clock, the Observer first saw the servers that live now, or zero if that proves nothing.
	// Since then at least, they have been writing the same versions, for every resource.
	Since time.Time
	// traces are those of an aggregated resource (View.Traces), each on a line: a process that came and went, and left
	// the epoch as it was, has changed them.
	traces string
	// serversUnknown means that one of started, gone and moved cannot be determined; definedUnknown, that defined
	// cannot.
	serversUnknown, definedUnknown bool
}

// Seen is what one look has seen of the servers of one resource, and of what tells them what to write.
type Seen struct {
	Leases    snapshot.Leases
	Endpoints snapshot.Endpoints
	CRD       *crd.CRD // nil unless the resource is a custom one
	Traces    []string
	// RestartsSeen means that each live server was asked, and creates a new identity Lease when it starts.
	RestartsSeen bool
}

// StampsOf reads the moments.
func StampsOf(f Seen) Stamps {
	s := Stamps{moved: f.Endpoints.Changed, traces: strings.Join(f.Traces, "\n")}
	// The creation of a Lease is the start of its process only on servers that replace their Lease, and only if each
	// live server was asked is it known that all of them do.
	s.serversUnknown = len(f.Leases.Live) == 0 || s.moved.IsZero() || !f.RestartsSeen
	for _, l := range f.Leases.Live {
		if l.Departed {
			continue // it started before it departed
		}
		s.serversUnknown = s.serversUnknown || l.Created.IsZero()
		s.started = Latest(s.started, l.Created)
	}
	// A server that crashed or hangs counted as live for identity.FreshFor after its last renewal. After that, the
	// servers were the present ones.
	for _, l := range f.Leases.Gone {
		s.gone = Latest(s.gone, l.Renewed.Add(identity.FreshFor))
	}
	if f.CRD != nil {
		written, ok := f.CRD.SpecWritten()
		s.defined = written
		s.definedUnknown = !ok
	}
	return s
}

// Clocks relates the clocks of live servers to ours, as one reading of the Leases shows them.
type Clocks struct {
	// lag bounds how far the clocks of the servers are behind ours: a server renewed its Lease before we read it. This
	// works even if no two clocks agree. The error is the time since the last renewal, ten seconds at most.
	lag time.Duration
	// readAt is when the Leases had been read, by our clock.
	readAt time.Time
}

// ClocksOf returns the clocks of the live servers. The stamps of a server that is no longer live need no bound of their
// own: its end came later, and is among the stamps of the others.
func ClocksOf(l snapshot.Leases) Clocks {
	c := Clocks{readAt: l.ReadAt}
	first := true
	for _, s := range l.Live {
		if d := l.ReadAt.Sub(s.Renewed); !s.Departed && (first || d > c.lag) {
			c.lag, first = d, false
		}
	}
	return c
}

// local returns the latest moment, by our clock, at which a live server can have recorded a stamp. The lag is relative
// to our wall clock at the time of the reading, so the moment gets the monotonic reading of that time: its age stays
// correct if someone changes our clock afterwards.
func (c Clocks) local(stamp time.Time) time.Time {
	if c.readAt.IsZero() { // the Leases could not be read
		return stamp.Add(c.lag)
	}
	return c.readAt.Add(stamp.Add(c.lag).Sub(c.readAt))
}

// bound returns the latest moment, by our clock, at which the epoch can have begun. ok is false if it is unknown.
func (s Stamps) bound(c Clocks) (bound time.Time, ok bool) {
	if s.definedUnknown {
		return time.Time{}, false
	}
	servers := c.local(Latest(s.started, s.gone, s.moved).Add(wholeSecond))
	switch {
	case s.serversUnknown && s.Since.IsZero():
		return time.Time{}, false
	case s.serversUnknown, !s.Since.IsZero() && s.Since.Before(servers):
		servers = s.Since
	}
	if s.defined.IsZero() {
		return servers, true
	}
	return Latest(servers, c.local(s.defined.Add(wholeSecond))), true
}

// Sighting is what an Observer remembers of the servers: since when it has seen those that live now.
type Sighting struct {
	holders []string
	stamps  Stamps // without those that concern one resource
	Since   time.Time
}

// Next adds a look that ended now. The look proves something only if every live server was asked and no restart goes
// unnoticed; then servers with the same Leases and the same traces have been the same processes all the time.
func (g Sighting) Next(f Seen, s Stamps, now time.Time) Sighting {
	if len(f.Leases.Live) == 0 || !f.RestartsSeen {
		return Sighting{}
	}
	s.defined, s.definedUnknown, s.Since = time.Time{}, false, time.Time{}
	holders := f.Leases.Holders()
	if !g.Since.IsZero() && g.stamps == s && slices.Equal(g.holders, holders) {
		return g
	}
	return Sighting{holders: holders, stamps: s, Since: now}
}

// Memory is what one resource remembers of earlier looks: the last epoch, and when it can have begun.
type Memory struct {
	epoch  migrate.Epoch
	stamps Stamps
	// Since is the earliest bound on the beginning of the epoch that any look gave. All bounds hold, so the earliest
	// one does.
	Since time.Time
	// at is when the last look ended. notBefore is when the last look at another epoch ended, or zero if there was
	// none.
	at, notBefore time.Time
}

// Disagreed returns the memory after a look that saw the servers disagree. Epochs that are seen later began after that
// look.
func (Memory) Disagreed(now time.Time) Memory { return Memory{at: now} }

// Next adds a look that ended now. The end of the look bounds the beginning of what it saw, so since is never in the
// future.
//
// The same epoch with other stamps may be another period: for example, a server without a Lease came and went between
// two looks. Its beginning is bounded again, and earlier bounds are dropped (I2).
//
// An epoch begins after the last look at another one, whatever the servers recorded: the clock of a server may have
// been wrong then, and right when it renewed its Lease.
func (m Memory) Next(e migrate.Epoch, s Stamps, c Clocks, now time.Time) Memory {
	since := now
	if bound, ok := s.bound(c); ok && bound.Before(since) {
		since = bound
	}
	if !m.Since.IsZero() && m.epoch.Same(e) && m.stamps == s && m.Since.Before(since) {
		since = m.Since
	}
	notBefore := m.notBefore
	if !m.at.IsZero() && !m.epoch.Same(e) {
		notBefore = m.at
	}
	return Memory{epoch: e, stamps: s, Since: Latest(since, notBefore), at: now, notBefore: notBefore}
}

// Memories are that of the looks which see restarts, and that of all others: what the former know of the beginning of an
// epoch is unknown to the latter, and an epoch does not begin again because one look had weaker evidence.
type Memories struct{ seeing, others Memory }

// Next adds a look that ended now, and returns since when its epoch has lasted, as far as looks of its kind know.
func (m Memories) Next(seesRestarts bool, e migrate.Epoch, s Stamps, c Clocks, now time.Time) (Memories, time.Time) {
	own, other := &m.seeing, &m.others
	if !seesRestarts {
		own, other = other, own
	}
	*own = own.Next(e, s, c, now)
	if !other.at.IsZero() && !other.epoch.Same(e) {
		*other = Memory{at: now} // another epoch is over
	}
	return m, own.Since
}

// Disagreed returns the memories after a look that saw the servers disagree.
func (m Memories) Disagreed(now time.Time) Memories {
	return Memories{seeing: m.seeing.Disagreed(now), others: m.others.Disagreed(now)}
}

// Latest returns the latest of some moments, or zero.
func Latest(times ...time.Time) time.Time {
	var l time.Time
	for _, t := range times {
		if t.After(l) {
			l = t
		}
	}
	return l
}
