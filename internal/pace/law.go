// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math"
	"time"
)

// The law's constants. Latency is always compared with its own floor: what a request of the same kind takes when
// it is alone. Where a server has cores to spare, latency stays at the floor and concurrency grows to its bound;
// where it has none, every added request only waits, and latency is the number in flight over the throughput.
//
// A wait that no one notices is not a crowd: an API server promises a second for a write, and one that works on several
// writes at once spends less on each of them.
const (
	comfortable = 3.0                   // up to this multiple of the floor, one more in flight is welcome
	crowded     = 4.0                   // above this multiple, others are waiting because of us
	unnoticed   = 30 * time.Millisecond // above the floor counts as comfortable, however low the floor is

	crowdedFactor   = 0.75 // of the concurrency that remains when crowded
	throttledFactor = 0.5  // of concurrency and rate that remains when the server said stop
	rateRecovery    = 0.1  // of the rate before it was lowered, that a lowered rate grows by in a second
	rateForgotten   = 2.0  // a lowered rate this many times above what it was before no longer matters

	minWindow    = 8                // samples before anything is concluded
	floorSamples = 4                // samples of one kind before its floor is believed
	floorExpires = 20 * time.Second // then one window with a single request in flight measures it again
)

// law decides how many requests may be in flight and how many may start in a second. It is pure: it knows the
// time only from the samples it is given. Not safe for concurrent use.
//
// It is an AIMD controller: additive increase per window while latency is near its floor, multiplicative decrease
// when it is not or when the server says so (I7). The rejected alternative is a fixed number of workers: what is
// right for an idle server with 32 cores stops one with two.
type law struct {
	most  int
	limit int
	rate  float64 // objects per second; +Inf while the server has not asked for less

	rateBefore float64   // what was reached when the rate was lowered last
	rateRaised time.Time // when the lowered rate was raised last

	floor    [kinds]time.Duration
	measured time.Time // when the floor was measured last; zero: not yet
	probing  bool      // this window measures the floor, with one in flight
	resume   int       // the limit that held before probing
	starting bool      // never crowded so far: double instead of adding one

	lowered     time.Time // what started before this has been answered with a lower limit already
	windowStart time.Time
	samples     [kinds]int
	sum         [kinds]time.Duration

	throughput float64 // objects per second in the last window
}

func newLaw(most int, now time.Time) *law {
	return &law{most: most, limit: 1, rate: math.Inf(1), probing: true, resume: min(2, most),
		starting: true, windowStart: now}
}

// observe takes in one finished request.
func (l *law) observe(now, started time.Time, kind Kind, latency time.Duration) {
	l.recoverRate(now)
	switch {
	case kind == Throttled && started.After(l.lowered):
		l.decrease(now, throttledFactor)
		l.rateBefore, l.rateRaised = max(min(l.rate, l.throughput), 2), now
		l.rate = throttledFactor * l.rateBefore
		return
	case kind == Lost && started.After(l.lowered):
		l.decrease(now, crowdedFactor)
		return
	}
	if kind >= kinds || !started.After(l.windowStart) {
		return // says nothing, or something about an earlier limit
	}
	l.samples[kind]++
	l.sum[kind] += latency
	if l.count() < max(minWindow, 2*l.limit) {
		return
	}
	l.conclude(now)
}

func (l *law) count() (n int) {
	for _, s := range l.samples {
		n += s
	}
	return n
}

// conclude ends a window.
func (l *law) conclude(now time.Time) {
	if elapsed := now.Sub(l.windowStart).Seconds(); elapsed > 0 {
		l.throughput = float64(l.count()) / elapsed
	}
	l.learnFloor(now)
	crowding := l.crowding()
	switch {
	case l.probing:
		l.probing, l.limit = false, l.resume
	case now.Sub(l.measured) > floorExpires:
		l.probing, l.resume, l.limit = true, l.limit, 1
	case crowding > crowded:
		l.decrease(now, crowdedFactor)
		return
	case crowding <= comfortable && l.starting:
		l.limit = min(2*l.limit, l.most)
	case crowding <= comfortable:
		l.limit = min(l.limit+1, l.most)
	default:
		l.starting = false
	}
	l.begin(now)
}

// learnFloor keeps the lowest mean latency of each kind; a probing window replaces what was known.
func (l *law) learnFloor(now time.Time) {
	for k := range l.floor {
		if l.samples[k] < floorSamples {
			continue
		}
		mean := l.sum[k] / time.Duration(l.samples[k])
		if l.probing || l.floor[k] == 0 || mean < l.floor[k] {
			l.floor[k] = mean
		}
	}
	if l.probing {
		l.measured = now
	}
}

// crowding is the mean latency of the window in multiples of its floor, or less where the floor is low: unnoticed
// above it is comfortable. 1 where no floor is known.
func (l *law) crowding() float64 {
	var sum float64
	var n int
	for k, floor := range l.floor {
		if floor > 0 {
			waited := l.sum[k] - time.Duration(l.samples[k])*floor
			unit := max(floor, time.Duration(float64(unnoticed)/(comfortable-1)))
			sum += float64(l.samples[k]) + float64(waited)/float64(unit)
			n += l.samples[k]
		}
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// recoverRate raises a lowered rate with the time that has passed.
func (l *law) recoverRate(now time.Time) {
	if math.IsInf(l.rate, 1) {
		return
	}
	l.rate += rateRecovery * l.rateBefore * now.Sub(l.rateRaised).Seconds()
	l.rateRaised = now
	if l.rate > rateForgotten*l.rateBefore {
		l.rate = math.Inf(1)
	}
}

// decrease lowers the concurrency. Requests that are in flight now count no more, so one overload is answered once.
func (l *law) decrease(now time.Time, factor float64) {
	if l.probing {
		l.limit = l.resume // what holds but for the measurement
	}
	l.starting, l.probing = false, false
	l.limit = max(1, int(float64(l.limit)*factor))
	l.lowered = now
	l.begin(now)
}

func (l *law) begin(now time.Time) {
	l.windowStart = now
	l.samples, l.sum = [kinds]int{}, [kinds]time.Duration{}
}
