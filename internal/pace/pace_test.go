// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package pace

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// server is a simulated API server in virtual time: it works on as many requests at once as it has cores, and
// the others wait.
type server struct {
	cores   chan struct{}
	service time.Duration

	mu       sync.Mutex
	inFlight int
	peak     int
	starts   []time.Time
}

func newServer(cores int, service time.Duration) *server {
	return &server{cores: make(chan struct{}, cores), service: service}
}

func (s *server) handle() {
	s.mu.Lock()
	s.inFlight++
	s.peak = max(s.peak, s.inFlight)
	s.starts = append(s.starts, time.Now())
	s.mu.Unlock()
	s.cores <- struct{}{}
	time.Sleep(s.service)
	<-s.cores
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
}

// drive sends requests for a while, as fast as the Pacer allows.
func drive(t *testing.T, p *Pacer, s *server, d time.Duration) (done int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		slot, err := p.Acquire(ctx)
		if err != nil {
			return done
		}
		done++
		requests.Go(func() {
			s.handle()
			p.Release(slot, Wrote, 0)
		})
	}
}

func TestConcurrencyGrowsToTheBoundWhereTheServerHasCoresToSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(Limits{InFlight: 20}), newServer(1000, 5*time.Millisecond)
		drive(t, p, s, 5*time.Second)
		if got := p.Stats().InFlightLimit; got != 20 && got != 1 { // 1: it is measuring the floor just now
			t.Errorf("in-flight limit = %d, want 20", got)
		}
		if s.peak != 20 {
			t.Errorf("peak in flight = %d, want 20: never exceeded, and reached", s.peak)
		}
	})
}

func TestABusyServerIsKeptBusyWithoutAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const service = 50 * time.Millisecond
		p, s := New(Limits{InFlight: 200}), newServer(3, service)
		done := drive(t, p, s, 5*time.Minute)
		ceiling := 3 * int(5*time.Minute/service)
		if done < ceiling*95/100 {
			t.Errorf("%d requests, want at least 95 %% of the ceiling %d", done, ceiling)
		}
		if limit := p.Stats().InFlightLimit; limit > 13 { // 4 times the cores, and one
			t.Errorf("in-flight limit = %d: others wait because of us", limit)
		}
	})
}

func TestAFastServerIsKeptBusyWithAWaitThatNoOneNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const service = 4 * time.Millisecond
		p, s := New(Limits{InFlight: 200}), newServer(2, service)
		done := drive(t, p, s, 30*time.Second)
		if ceiling := 2 * int(30*time.Second/service); done < ceiling*95/100 {
			t.Errorf("%d requests, want at least 95 %% of the ceiling %d", done, ceiling)
		}
		wait := time.Duration(s.peak) * service / 2
		// at first the concurrency doubles while requests take no longer than this
		if comfortable := unnoticed + service; wait < unnoticed || wait > 2*comfortable {
			t.Errorf("at the peak a request took %v, want between %v and twice %v", wait, unnoticed, comfortable)
		}
	})
}

func TestAConfiguredRateIsNeverExceededInAnySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(Limits{ObjectsPerSecond: 50}), newServer(1000, time.Millisecond)
		time.Sleep(time.Minute) // idle time must not be saved up
		drive(t, p, s, 10*time.Second)
		for i := range s.starts {
			if i >= 50 && s.starts[i].Sub(s.starts[i-50]) < time.Second {
				t.Fatalf("51 requests started within %v", s.starts[i].Sub(s.starts[i-50]))
			}
		}
		if len(s.starts) < 450 {
			t.Errorf("%d requests in 10 s, want about 500", len(s.starts))
		}
	})
}

func TestNothingStartsDuringRetryAfterAndTheRateIsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(Limits{InFlight: 16}), newServer(1000, 5*time.Millisecond)
		drive(t, p, s, 2*time.Second)
		before := p.Stats()

		var slots []Slot
		for range 8 {
			slot, err := p.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			slots = append(slots, slot)
		}
		time.Sleep(time.Millisecond)
		for _, slot := range slots {
			p.Release(slot, Throttled, 3*time.Second)
		}
		after := p.Stats()
		if after.InFlightLimit != before.InFlightLimit/2 {
			t.Errorf("in-flight limit %d → %d, want it halved once for one overload",
				before.InFlightLimit, after.InFlightLimit)
		}
		if after.RateLimit >= before.RateLimit || after.Throttles != 8 || after.Paused != 3*time.Second {
			t.Errorf("stats after throttling = %+v (before %+v)", after, before)
		}
		refused := time.Now()
		slot, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(refused); waited < 3*time.Second {
			t.Errorf("a request started %v after the server asked for 3 s", waited)
		}
		p.Release(slot, Wrote, 0)
		drive(t, p, s, 20*time.Second)
		if got := s.peak; got != 16 {
			t.Errorf("peak in flight = %d after the overload is over, want 16 again", got)
		}
	})
}

func TestAFlakyNetworkCostsConcurrencyAndNotTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(Limits{InFlight: 16}), newServer(1000, 5*time.Millisecond)
		drive(t, p, s, time.Second)
		for range 50 {
			slot, err := p.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			p.Release(slot, Lost, 0)
			drive(t, p, s, 100*time.Millisecond)
		}
		if stats := p.Stats(); !math.IsInf(stats.RateLimit, 1) || stats.InFlightLimit < 1 {
			t.Errorf("stats = %+v, want no limit on the rate", stats)
		}
		if done := drive(t, p, s, 5*time.Second); done < 5000 {
			t.Errorf("%d requests in 5 s after the network is well again, want thousands", done)
		}
	})
}

func TestOthersLoadMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(Limits{InFlight: 32}), newServer(1000, 5*time.Millisecond)
		drive(t, p, s, 3*time.Second)
		s.service = 100 * time.Millisecond // someone else keeps the server busy
		drive(t, p, s, 5*time.Second)
		if got := p.Stats().InFlightLimit; got > 4 {
			t.Errorf("in-flight limit = %d while latency is 20 times its floor, want at most 4", got)
		}
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{InFlight: 1})
		if _, err := p.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { time.Sleep(time.Second); cancel(stop) }()
		if _, err := p.Acquire(ctx); !errors.Is(err, stop) {
			t.Errorf("Acquire = %v, want the context's cause", err)
		}
	})
}

func TestNothingStartsOnceItsContextHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a slot and a token are free, so all that can be ready is
		if _, err := New(Limits{}).Acquire(ended); !errors.Is(err, context.Canceled) {
			t.Fatalf("error = %v, want the request not started", err)
		}
	}
	if err := new(Gate).Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("open gate: error = %v, want the request not sent", err)
	}
}

func TestAPacedRequestGivesItsSlotBackWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{InFlight: 1, ObjectsPerSecond: 0.1})
		slot, _ := p.Acquire(t.Context())
		p.Release(slot, Other, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx); err == nil {
			t.Fatal("the token of the next ten seconds was given out after one")
		}
		if _, err := p.Acquire(t.Context()); err != nil || p.inFlight != 1 {
			t.Errorf("Acquire = %v with %d in flight, want the one slot to be free again", err, p.inFlight)
		}
	})
}
