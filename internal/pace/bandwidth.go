// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pace

import "time"

const (
	// burst is for how much idle time the bucket saves up bytes.
	burst = time.Second
	// firstExpected is how many bytes the first request is expected to carry: the metadata of an object.
	firstExpected = 1000
	// forgetting is the weight of the latest request in the number of bytes that the next one is expected to carry.
	forgetting = 1.0 / 16
)

// bandwidth is a bucket of bytes that fills at a rate, up to the bytes of one burst. How many bytes a request carries
// is known only when it has ended. So a request is charged the expected bytes when it starts, and the difference when
// it ends. The bucket may be in debt then, and the next request waits until the debt is paid: an answer may be larger
// than the burst, and the rate holds over time. The rejected alternative is to wait until there is room for the whole
// answer: a request whose answer is larger than the bucket would never be sent. bandwidth is not safe for concurrent
// use.
type bandwidth struct {
	rate     float64 // bytes per second; 0 means no bound
	level    float64 // bytes; a negative level is a debt
	filled   time.Time
	expected float64 // bytes of one request
}

func newBandwidth(bytesPerSecond int64, now time.Time) bandwidth {
	rate := float64(max(bytesPerSecond, 0))
	return bandwidth{rate: rate, level: rate * burst.Seconds(), filled: now, expected: firstExpected}
}

// wait returns for how long no request may start.
func (b *bandwidth) wait(now time.Time) time.Duration {
	if b.rate == 0 {
		return 0
	}
	b.level = min(b.level+b.rate*now.Sub(b.filled).Seconds(), b.rate*burst.Seconds())
	b.filled = now
	if b.level >= 0 {
		return 0
	}
	const longest = time.Hour // the caller asks again after that; a longer time could overflow
	return min(time.Duration(min(-b.level/b.rate, longest.Seconds())*float64(time.Second))+time.Nanosecond, longest)
}

// begin charges a request that starts with the expected bytes.
func (b *bandwidth) begin() (expected float64) {
	b.level -= b.expected
	return b.expected
}

// end charges the difference to the bytes that the request has carried.
func (b *bandwidth) end(expected float64, bytes int64) {
	b.level += expected - float64(bytes)
	b.expected += forgetting * (float64(bytes) - b.expected)
}
