// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import "time"

const (
	// burst is how much idle time is saved up.
	burst = time.Second
	// firstExpected is what the first request is expected to carry, in bytes: the metadata of an object.
	firstExpected = 1000
	// forgetting is the weight of the latest request in what the next one is expected to carry.
	forgetting = 1.0 / 16
)

// bandwidth is a bucket of bytes that fills at a rate, up to a burst's worth. How much a request carries is known when
// it has ended: it is charged what is expected when it starts, and the rest when it ends. So the bucket may be in debt,
// and the next request waits until the debt is paid: an answer larger than the burst is carried too, and over time the
// rate holds. The rejected alternative, to wait until there is room for the whole answer, would never send what is
// larger than the bucket. Not safe for concurrent use.
type bandwidth struct {
	rate     float64 // bytes per second; 0: no bound
	level    float64 // bytes; below 0 is debt
	filled   time.Time
	expected float64 // bytes of one request
}

func newBandwidth(bytesPerSecond int64, now time.Time) bandwidth {
	rate := float64(max(bytesPerSecond, 0))
	return bandwidth{rate: rate, level: rate * burst.Seconds(), filled: now, expected: firstExpected}
}

// wait is how long no request may start.
func (b *bandwidth) wait(now time.Time) time.Duration {
	if b.rate == 0 {
		return 0
	}
	b.level = min(b.level+b.rate*now.Sub(b.filled).Seconds(), b.rate*burst.Seconds())
	b.filled = now
	if b.level >= 0 {
		return 0
	}
	const longest = time.Hour // then it is asked again; a greater one could overflow
	return min(time.Duration(min(-b.level/b.rate, longest.Seconds())*float64(time.Second))+time.Nanosecond, longest)
}

// begin charges what is expected of a request that starts.
func (b *bandwidth) begin() (expected float64) {
	b.level -= b.expected
	return b.expected
}

// end corrects that by what the request carried.
func (b *bandwidth) end(expected float64, bytes int64) {
	b.level += expected - float64(bytes)
	b.expected += forgetting * (float64(bytes) - b.expected)
}
