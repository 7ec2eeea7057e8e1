// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package pace

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacersKeepTheirBoundsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sweeps, rate, inFlight = 8, 100, 6
		b, s := NewBounds(Limits{ObjectsPerSecond: rate, InFlight: inFlight}), newServer(64, 100*time.Millisecond)
		done := make([]int, sweeps)
		var wg sync.WaitGroup
		for i := range sweeps {
			wg.Go(func() { done[i] = drive(t, Within(b), s, 10*time.Second) })
		}
		wg.Wait()
		if s.peak > inFlight {
			t.Errorf("%d requests are in flight at once, want %d at most", s.peak, inFlight)
		}
		for i, start := range s.starts {
			within := 0
			for _, later := range s.starts[i:] {
				if later.Sub(start) < time.Second {
					within++
				}
			}
			if within > rate {
				t.Fatalf("%d requests begin within a second, want %d at most", within, rate)
			}
		}
		for i, n := range done {
			if n == 0 {
				t.Errorf("sweep %d of %v gets nothing", i, done)
			}
		}
		if b.inFlight != 0 {
			t.Errorf("%d requests are in flight at the end", b.inFlight)
		}
	})
}

func TestPacersShareTheirBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, size = 100_000, 10_000
		b := NewBounds(Limits{BytesPerSecond: perSecond})
		var wg sync.WaitGroup
		var mu sync.Mutex
		sent := 0
		began := time.Now()
		for range 4 {
			p := Within(b)
			wg.Go(func() {
				for range 50 {
					slot, err := p.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					slot.meter.bytes.Add(size)
					mu.Lock()
					sent += size
					mu.Unlock()
					p.Release(slot, Wrote, 0)
				}
			})
		}
		wg.Wait()
		if took, least := time.Since(began), time.Duration(sent-2*perSecond)*time.Second/perSecond; took < least {
			t.Errorf("%d bytes took %v, want %v at least", sent, took, least)
		}
	})
}
