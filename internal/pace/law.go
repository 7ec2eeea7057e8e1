// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math"
	"time"
)

// The constants of the law. It compares latency with its own floor: the latency of a request of the same kind that is
// alone. If a server has cores to spare, latency stays at the floor, and concurrency grows to its bound. If it has none,
// every added request only waits, and latency is the number of requests in flight divided by the throughput.
//
// A short wait is not crowding: Kubernetes promises one second for a write, and an API server that handles several
// writes at once spends less on each of them.
const (
	comfortable = 3.0                   // up to this multiple of the floor, one more in flight is welcome
	crowded     = 4.0                   // above this multiple, others are waiting because of us
	unnoticed   = 60 * time.Millisecond // this much above the floor is comfortable, however low the floor is

	crowdedFactor   = 0.75 // the part of the concurrency that remains after crowding
	throttledFactor = 0.5  // the part of concurrency and rate that remains after a 429 or 503
	rateRecovery    = 0.1  // a lowered rate grows by this part of the earlier rate in each second
	rateForgotten   = 2.0  // a lowered rate ends at this multiple of the earlier rate

	minWindow    = 8                // samples of a window at least, once there has been crowding
	floorSamples = 4                // samples of one kind from which its floor is learned at least
	floorExpires = 20 * time.Second // after this time, a window with one request in flight measures the floor again
)

// law decides how many requests may be in flight and how many may start in a second. It is pure: it knows the
// time only from its arguments. It is not safe for concurrent use.
//
// It is an AIMD controller: additive increase per window while latency is near its floor, and multiplicative decrease
// while it is not, or if the server asks for less (I7). The rejected alternative is a fixed number of workers: a number
// that suits an idle server with 32 cores overloads one with two.
type law struct {
	most  int
	limit int
	rate  float64 // requests per second; +Inf as long as the server has not asked for less

	rateBefore float64   // the rate that was reached when it was lowered last
	rateRaised time.Time // when the lowered rate was raised last

	floor    [kinds]time.Duration
	measured time.Time // when the floor was measured last; zero if it has not been
	probing  bool      // this window measures the floor, with one request in flight
	resume   int       // the limit that applied before probing
	starting bool      // there has been no crowding so far: the limit doubles instead of growing by one

	lowered     time.Time // requests that started earlier have lowered the limit already
	windowStart time.Time
	samples     [kinds]int
	sum         [kinds]time.Duration

	throughput float64 // objects per second in the last window
}

func newLaw(most int, now time.Time) *law {
	return &law{most: most, limit: 1, rate: math.Inf(1), probing: true, resume: min(2, most),
		starting: true, windowStart: now}
}

// observe records one finished request.
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
	if kind >= kinds || !started.After(l.windowStart) && !l.doubling() {
		return // it says nothing, or something about an earlier limit
	}
	l.samples[kind]++
	l.sum[kind] += latency
	if l.count() < l.window() {
		return
	}
	l.conclude(now)
}

// doubling reports whether each window doubles the limit. Such a window counts also the requests that were in flight
// when it began, so that it takes one round trip and not two: far away from the API server, most of a small migration
// would pass before the limit is reached. It notices crowding later for that, by one doubling at most.
func (l *law) doubling() bool { return l.starting && !l.probing }

// window returns the number of samples that a window needs.
func (l *law) window() int {
	if l.starting {
		return max(floorSamples, l.limit)
	}
	return max(minWindow, 2*l.limit)
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

// learnFloor keeps the lowest mean latency of each kind. A probing window replaces the floor.
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

// crowding returns the mean latency of the window in multiples of its floor, or less if the floor is low: a latency of
// unnoticed above it is comfortable. It returns 1 if no floor is known.
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

// recoverRate raises a lowered rate in proportion to the time that has passed.
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

// decrease lowers the concurrency. Requests that are in flight now no longer count, so one overload lowers it once.
func (l *law) decrease(now time.Time, factor float64) {
	if l.probing {
		l.limit = l.resume // the limit without the measurement
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
