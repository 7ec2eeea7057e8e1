// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import "time"

// Clocks knows which clocks were wrong, when, and by how much. From that it determines when something happened that a
// process has dated by its own clock. All other times are by the clock of the test. The zero value knows no wrong
// clock. It is not safe for concurrent use.
type Clocks struct {
	spans []span
	dated map[stamp]time.Time
}

// span is a period in which a clock was wrong.
type span struct {
	clock    int
	from, to time.Time // zero: it lasts
	by       time.Duration
}

type stamp struct {
	resource string
	seconds  int64
}

// Move records that a clock is off by some time from a moment on. The time may be 0.
func (c *Clocks) Move(clock int, by time.Duration, at time.Time) {
	for i := range c.spans {
		if s := &c.spans[i]; s.clock == clock && s.to.IsZero() {
			s.to = at
		}
	}
	if by != 0 {
		c.spans = append(c.spans, span{clock: clock, from: at, by: by})
	}
}

const (
	// roundedBy is the greatest sum of the error of a stamp in whole seconds and the time between reading and moving a
	// clock.
	roundedBy = 2 * time.Second
	// longestLook is longer than the time from the beginning of a look to the write that records it.
	longestLook = 2 * time.Minute
)

// Began returns when a look began that a StorageState dates by the clock of a controller. A look is recorded soon, so
// the first call for a stamp decides. If several moments are possible, it returns the earliest, with which the judge
// excuses most; if none is possible, the zero time.
func (c *Clocks) Began(resource string, look, now time.Time) time.Time {
	at := stamp{resource, look.Unix()}
	if known, ok := c.dated[at]; ok {
		return known
	}
	began := c.earliest(look, now.Add(-longestLook), now)
	if began.IsZero() {
		began = c.earliest(look, time.Time{}, now)
	}
	if c.dated == nil {
		c.dated = map[stamp]time.Time{}
	}
	c.dated[at] = began
	return began
}

// earliest returns the earliest moment between two at which some clock showed a time, or zero if there is none.
func (c *Clocks) earliest(shown, from, to time.Time) (earliest time.Time) {
	consider := func(at, from, to time.Time) {
		within := !at.Before(from.Add(-roundedBy)) && !at.After(to.Add(roundedBy))
		if within && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	consider(shown, from, to)
	for _, s := range c.spans {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.IsZero() || end.After(to) {
			end = to
		}
		consider(shown.Add(-s.by), begin, end)
	}
	return earliest
}
