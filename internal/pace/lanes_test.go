// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package pace

import (
	"context"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// driveAll sends requests for a while, each to the server that the Pacer chooses, and returns how many were sent to
// each server and how many were in flight at most. A nil server does not answer.
func driveAll(t *testing.T, p *Pacer, servers []*server, d time.Duration) (sent []int, peak int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var requests sync.WaitGroup
	defer requests.Wait()
	sent = make([]int, len(servers))
	for {
		slot, err := p.AcquireAny(ctx)
		if err != nil {
			return sent, peak
		}
		p.mu.Lock()
		peak = max(peak, p.inFlight)
		p.mu.Unlock()
		i := slot.Server() - 1
		sent[i]++
		requests.Go(func() {
			if servers[i] == nil {
				time.Sleep(time.Millisecond)
				p.Release(slot, Lost, 0)
				p.Avoid(slot)
				return
			}
			servers[i].handle()
			p.Release(slot, Wrote, 0)
		})
	}
}

func TestServersOfTheSameSpeedGetTheSameShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.Spread(3)
		servers := []*server{newServer(2, 5*time.Millisecond), newServer(2, 5*time.Millisecond),
			newServer(2, 5*time.Millisecond)}
		sent, _ := driveAll(t, p, servers, 20*time.Second)
		if least, most := slices.Min(sent), slices.Max(sent); least < most*95/100 {
			t.Errorf("requests = %v, want about the same for each", sent)
		}
		if ceiling := 3 * 2 * int(20*time.Second/(5*time.Millisecond)); sent[0]+sent[1]+sent[2] < ceiling*90/100 {
			t.Errorf("requests = %v, want at least 90 %% of the ceiling %d", sent, ceiling)
		}
	})
}

func TestASlowServerSlowsOnlyItsOwnShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.Spread(3)
		servers := []*server{newServer(2, 5*time.Millisecond), newServer(2, 5*time.Millisecond),
			newServer(2, 5*time.Millisecond)}
		before, _ := driveAll(t, p, servers, 10*time.Second)
		servers[1].service = 100 * time.Millisecond
		after, _ := driveAll(t, p, servers, 10*time.Second)
		for i := range servers {
			switch {
			case i == 1 && after[i] > 210:
				t.Errorf("the slow server got %d requests in 10 s, and it can answer 200", after[i])
			case i != 1 && after[i] < before[i]*95/100:
				t.Errorf("server %d got %d requests, and %d while another one is slow", i+1, before[i], after[i])
			}
		}
		if p.lanes[1].law.limit > comfortable*2 { // of its two cores, once its floor has been measured again
			t.Errorf("the slow server may have %d requests in flight, want few", p.lanes[1].law.limit)
		}
	})
}

func TestWithOneRequestInFlightASlowServerGetsItsPartOfTheTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{InFlight: 1})
		p.Spread(2)
		sent, _ := driveAll(t, p, []*server{newServer(2, 5*time.Millisecond), newServer(2, 100*time.Millisecond)},
			20*time.Second)
		if sent[0] < 1800 || sent[1] < 90 {
			t.Errorf("requests = %v in 20 s, want about 2000 and 100", sent)
		}
	})
}

func TestAServerThatDoesNotAnswerLosesItsShareUntilItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.Spread(3)
		servers := []*server{newServer(2, 5*time.Millisecond), nil, newServer(2, 5*time.Millisecond)}
		sent, _ := driveAll(t, p, servers, 2*time.Minute)
		if sent[1] == 0 || sent[1] > 10 {
			t.Errorf("%d requests in 2 minutes to a server that does not answer, want a few attempts", sent[1])
		}
		if ceiling := 2 * 2 * int(2*time.Minute/(5*time.Millisecond)); sent[0]+sent[2] < ceiling*90/100 {
			t.Errorf("requests = %v, want at least 90 %% of what two servers answer, %d", sent, ceiling)
		}
		servers[1] = newServer(2, 5*time.Millisecond)
		driveAll(t, p, servers, 2*time.Minute) // until it is tried again
		sent, _ = driveAll(t, p, servers, 20*time.Second)
		if least, most := slices.Min(sent), slices.Max(sent); least < most*95/100 {
			t.Errorf("requests = %v after it has recovered, want about the same for each", sent)
		}
	})
}

func TestRequestsThatFailTogetherCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.Spread(1)
		driveAll(t, p, []*server{newServer(100, 5*time.Millisecond)}, 5*time.Second)
		var slots []Slot
		for range 6 {
			slot, err := p.AcquireAny(t.Context())
			if err != nil || slot.Server() != 1 {
				t.Fatalf("server %d, %v", slot.Server(), err)
			}
			slots = append(slots, slot)
		}
		time.Sleep(time.Millisecond)
		for _, slot := range slots {
			p.Release(slot, Lost, 0)
			p.Avoid(slot)
		}
		time.Sleep(firstAvoidance)
		if slot, err := p.AcquireAny(t.Context()); err != nil || slot.Server() != 1 {
			t.Errorf("server %d, %v after %v, want it tried again", slot.Server(), err, firstAvoidance)
		}
	})
}

func TestWhereNoServerAnswersRequestsGoTheFirstWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.Spread(2)
		for range 2 {
			slot, err := p.AcquireAny(t.Context())
			if err != nil || slot.Server() == 0 {
				t.Fatalf("server %d, %v, want one of the two", slot.Server(), err)
			}
			time.Sleep(time.Millisecond)
			p.Release(slot, Lost, 0)
			p.Avoid(slot)
		}
		slot, err := p.AcquireAny(t.Context())
		if err != nil || slot.Server() != 0 {
			t.Errorf("server %d, %v, want the one of Acquire", slot.Server(), err)
		}
	})
}

func TestRetryAfterPausesTheServerThatAskedForItOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.Spread(2)
		slot, err := p.AcquireAny(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		p.Release(slot, Throttled, 30*time.Second)
		paused := slot.Server()
		servers := []*server{newServer(2, 5*time.Millisecond), newServer(2, 5*time.Millisecond)}
		sent, _ := driveAll(t, p, servers, 20*time.Second)
		if other := sent[2-paused]; sent[paused-1] != 0 || other < 5000 {
			t.Errorf("requests = %v during the pause of server %d, want none for it and thousands for the other", sent,
				paused)
		}
		if p.Paused() {
			t.Error("paused, although one server asked for nothing")
		}
	})
}

func TestConfiguredLimitsBoundAllServersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{InFlight: 5, ObjectsPerSecond: 50})
		p.Spread(3)
		servers := []*server{newServer(9, 200*time.Millisecond), newServer(9, 200*time.Millisecond),
			newServer(9, 200*time.Millisecond)}
		_, peak := driveAll(t, p, servers, time.Minute)
		if peak > 5 {
			t.Errorf("%d requests in flight, want at most 5", peak)
		}
		starts := slices.Concat(servers[0].starts, servers[1].starts, servers[2].starts)
		slices.SortFunc(starts, time.Time.Compare)
		for i := range starts {
			if i >= 50 && starts[i].Sub(starts[i-50]) < time.Second {
				t.Fatalf("51 requests started within %v", starts[i].Sub(starts[i-50]))
			}
		}
	})
}

func TestThePauseOfOneAddressLeavesOthersOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := new(Gates).Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3"}}}, nil
		}))
		begin := time.Now()
		for i, want := range []time.Duration{0, 0, 3 * time.Second} {
			address := []string{"https://one.example.com", "https://other.example.com", "https://one.example.com"}[i]
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if _, err := client.RoundTrip(request); err != nil || time.Since(begin) != want {
				t.Errorf("%s: sent after %v (%v), want %v", address, time.Since(begin), err, want)
			}
		}
	})
}

func TestNoServerPausesRequestsForMoreThanAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		slot, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		p.Release(slot, Throttled, math.MaxInt32*time.Second)
		begin := time.Now()
		if _, err := p.Acquire(t.Context()); err != nil || time.Since(begin) > time.Minute {
			t.Errorf("the next request started after %v, %v, want a minute at most", time.Since(begin), err)
		}
	})
}

func TestAServerWithALoweredRateTakesNoSlotFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{InFlight: 1})
		p.Spread(2)
		servers := []*server{newServer(2, 20*time.Millisecond), newServer(2, 20*time.Millisecond)}
		driveAll(t, p, servers, 5*time.Second)
		slot, err := p.AcquireAny(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		p.Release(slot, Throttled, time.Second)
		sent, _ := driveAll(t, p, servers, 5*time.Second)
		if total := sent[0] + sent[1]; total < 220 {
			t.Errorf("requests = %v in 5 s after one server asked for less, want about 250 in all", sent)
		}
	})
}
