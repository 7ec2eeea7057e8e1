// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package pace

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// transfer is what a request carried, and when it ended.
type transfer struct {
	bytes int64
	ended time.Time
}

// carry sends requests of the sizes that next gives for a while, as fast as the Pacer allows; each takes a moment.
func carry(t *testing.T, p *Pacer, d time.Duration, next func() int64) (done []transfer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var mu sync.Mutex
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		slot, err := p.Acquire(ctx)
		if err != nil {
			requests.Wait()
			return done
		}
		bytes := next()
		requests.Go(func() {
			time.Sleep(5 * time.Millisecond)
			slot.meter.bytes.Add(bytes)
			p.Release(slot, Wrote, 0)
			mu.Lock()
			defer mu.Unlock()
			done = append(done, transfer{bytes, time.Now()})
		})
	}
}

func total(done []transfer) (bytes int64) {
	for _, d := range done {
		bytes += d.bytes
	}
	return bytes
}

func TestBandwidthIsReachedAndNotExceeded(t *testing.T) {
	for name, test := range map[string]struct {
		limit, each int64
	}{
		"small answers": {limit: 1 << 20, each: 700},
		"answers of a tenth of what a second may have": {limit: 1 << 20, each: 100 << 10},
		"answers larger than what a second may have":   {limit: 100 << 10, each: 350 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(Limits{BytesPerSecond: test.limit})
				time.Sleep(time.Minute) // idle time is saved up for a second at most
				const seconds = 60
				got := total(carry(t, p, seconds*time.Second, func() int64 { return test.each }))
				most := test.limit*(seconds+1) + test.each
				if got > most || got < test.limit*seconds*95/100 {
					t.Errorf("%d bytes in %d s, want at most %d and nearly that", got, seconds, most)
				}
				if s := p.Stats(); s.Bytes != got {
					t.Errorf("Stats says %d bytes, want %d", s.Bytes, got)
				}
			})
		})
	}
}

func TestWithoutABandwidthNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{InFlight: 4})
		done := carry(t, p, time.Second, func() int64 { return 1 << 30 })
		if len(done) < 400 {
			t.Errorf("%d requests in a second, want some 800", len(done))
		}
	})
}

// Over any interval at most that much is carried: what the interval may have, a second's burst, and what the requests
// in flight at its end turn out to have beyond what was expected of them, which one debt makes good.
func TestNoIntervalCarriesMoreThanItsBandwidth(t *testing.T) {
	for seed := range uint64(100) {
		draw := rand.New(rand.NewPCG(seed, 0))
		limit := int64(math.Pow(10, 3+4*draw.Float64()))
		inFlight := 1 + draw.IntN(8)
		sizes := make([]int64, 1+draw.IntN(20))
		for i := range sizes {
			sizes[i] = draw.Int64N(2*limit + 1)
		}
		synctest.Test(t, func(t *testing.T) {
			p := New(Limits{BytesPerSecond: limit, InFlight: inFlight})
			i, greatest := 0, int64(0)
			done := carry(t, p, 4*time.Second, func() int64 {
				i++
				greatest = max(greatest, sizes[i%len(sizes)])
				return sizes[i%len(sizes)]
			})
			for from := 0; from < len(done); from += 1 + len(done)/50 {
				sum := int64(0)
				for _, d := range done[from:] {
					sum += d.bytes
					seconds := d.ended.Sub(done[from].ended).Seconds()
					if most := float64(limit)*(seconds+1) + float64(greatest)*float64(inFlight); float64(sum) > most+1 {
						t.Fatalf("seed %d: %d bytes within %.3f s, want at most %.0f", seed, sum, seconds, most)
					}
				}
			}
			if len(done) == 0 {
				t.Fatalf("seed %d: nothing was carried", seed)
			}
		})
	}
}

func TestWaitingForBandwidthEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{BytesPerSecond: 1000})
		slot, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slot.meter.bytes.Add(1_000_000)
		p.Release(slot, Other, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx); err == nil {
			t.Fatal("a request started a second after a debt of a quarter of an hour")
		}
		begin := time.Now()
		if _, err := p.Acquire(t.Context()); err != nil || p.inFlight != 1 {
			t.Errorf("Acquire = %v with %d in flight, want the slot given back before", err, p.inFlight)
		}
		if waited := time.Since(begin); waited < 15*time.Minute || waited > 20*time.Minute {
			t.Errorf("waited %v, want some 998 s for 999,000 bytes", waited)
		}
	})
}
