// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package pace

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheGateIsClosedForEveryoneDuringRetryAfter(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		retryAfter string
		want       time.Duration
	}{
		"429 with Retry-After":             {http.StatusTooManyRequests, "3", 3 * time.Second},
		"503 with Retry-After":             {http.StatusServiceUnavailable, "1", time.Second},
		"an hour is too long for everyone": {http.StatusServiceUnavailable, "3600", time.Minute},
		"more than a duration can hold":    {http.StatusServiceUnavailable, "9223372036854775807", time.Minute},
		"429 without":                      {http.StatusTooManyRequests, "", 0},
		"a date is not what servers send":  {http.StatusTooManyRequests, "Sat, 21 Nov 2026 00:00:00 GMT", 0},
		"200 with Retry-After":             {http.StatusOK, "3", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gate Gate
				var sent []time.Time
				next := roundTripper(func(*http.Request) (*http.Response, error) {
					sent = append(sent, time.Now())
					return &http.Response{StatusCode: test.status,
						Header: http.Header{"Retry-After": {test.retryAfter}}}, nil
				})
				one, other := gate.Wrap(next), gate.Wrap(next)
				request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com", nil)
				for _, client := range []http.RoundTripper{one, other} {
					if _, err := client.RoundTrip(request); err != nil {
						t.Fatal(err)
					}
				}
				if got := sent[1].Sub(sent[0]); got != test.want {
					t.Errorf("the next request was sent after %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestARequestThatEndsWhileTheGateIsClosedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate Gate
		gate.close(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com", nil)
		client := gate.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("the request was sent")
			return nil, nil //nolint:nilnil // not reached
		}))
		if _, err := client.RoundTrip(request); err == nil {
			t.Error("no error after the request's end")
		}
	})
}

func TestARequestThatCannotWaitIsHeldUntilItsMomentAndClosesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate Gate
		gate.close(10 * time.Second)
		client := gate.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests,
				Header: http.Header{"Retry-After": {"20"}}}, nil
		}))
		begin := time.Now()
		request, _ := http.NewRequestWithContext(HeldUntil(t.Context(), begin.Add(4*time.Second)), http.MethodGet,
			"https://example.com", nil)
		if _, err := client.RoundTrip(request); err != nil || time.Since(begin) != 4*time.Second {
			t.Errorf("sent after %v (%v), want 4 s", time.Since(begin), err)
		}
		if _, err := client.RoundTrip(request); err != nil || time.Since(begin) != 4*time.Second {
			t.Errorf("sent after %v (%v), want at once when the moment has passed", time.Since(begin), err)
		}
		if err := gate.Wait(t.Context()); err != nil || time.Since(begin) != 24*time.Second {
			t.Errorf("the gate opened after %v (%v), want what the last answer asked for", time.Since(begin), err)
		}
	})
}
