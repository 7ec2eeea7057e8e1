// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// An API server that came and went between two looks leaves the epoch's identity as it was. What it wrote is in no good
// range, because only Since tells of it (I2).
func TestAnEpochThatBeganAgainUnderTheSameIdentityIsOver(t *testing.T) {
	const n = 60
	for name, tt := range map[string]struct {
		patches int64         // after which the server comes and goes
		after   time.Duration // and how much later
		change  func(e Epoch, moved time.Time) Epoch
		restart bool
	}{
		"in the middle of the pass": {patches: n / 2, change: since, restart: true},
		"after the last write":      {patches: n, after: leaseGrace / 2, change: since, restart: true},
		"and may still be leaving":  {patches: n / 2, change: leaving, restart: true},
		"not of a custom resource, whose CRD is the same": {patches: n / 2, change: func(e Epoch, moved time.Time) Epoch {
			e.CRDUID, e.CRDGeneration = "uid", 3
			return since(e, moved)
		}},
		"not if a look only knows less": {patches: n / 2, change: func(e Epoch, moved time.Time) Epoch {
			if !moved.IsZero() && time.Since(moved) < 5*time.Second {
				e.Since, e.Evidence = time.Now(), Sampled
			}
			return e
		}},
		"not if it is known to have begun earlier": {patches: n / 2, change: func(e Epoch, moved time.Time) Epoch {
			if !moved.IsZero() {
				e.Since = e.Since.Add(-time.Minute)
			}
			return e
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &scripted{n: n, resourceVersion: "1000"}
				began, moved := time.Now().Add(-time.Hour), time.Time{}
				f.patch = func(string, http.ResponseWriter) bool {
					time.Sleep(100 * time.Millisecond)
					if f.patches.Load() == tt.patches {
						time.AfterFunc(tt.after, func() { moved = time.Now() })
					}
					return false
				}
				agreement := func() (Epoch, error) { return tt.change(lastingFrom(began), moved), nil }
				options := Options{MaxInFlight: 1, PageSize: 10, SettleTime: 10 * time.Second}
				result, err := virtualSweep(t, f, agreement, options).Run(t.Context())
				if err != nil || !result.Proven || (result.Restarts > 0) != tt.restart {
					t.Fatalf("proven %t after %d restarts (%v), want a restart: %t", result.Proven, result.Restarts, err,
						tt.restart)
				}
				if tt.restart && result.Epoch.Since.Before(moved) {
					t.Errorf("proven in the epoch since %v, want one since %v", result.Epoch.Since, moved)
				}
			})
		})
	}
}

func since(e Epoch, moved time.Time) Epoch {
	if !moved.IsZero() {
		e.Since = moved
	}
	return e
}

// leaving is what looks show while a server that left unseen may still write for 30 s.
func leaving(e Epoch, moved time.Time) Epoch {
	if moved.IsZero() {
		return e
	}
	if e.Since = moved.Add(30 * time.Second); e.Since.After(time.Now()) {
		e.Since, e.Leaving = time.Now(), e.Since
	}
	return e
}

// While a sweep looks on after the end of an epoch, what was written last is confirmed only if nothing else can have
// written in the meantime.
func TestWhatWasWrittenLastIsNotConfirmedIfAServerMayHaveComeAndGone(t *testing.T) {
	const n = 5
	for name, tt := range map[string]struct {
		every   time.Duration // a look
		after   func(e Epoch, gone time.Time) Epoch
		patches int64
	}{
		"one of two left": {time.Second, left, n},
		"one of two left, and another came and went": {time.Second, func(e Epoch, gone time.Time) Epoch {
			if e = left(e, gone); time.Since(gone) > 3*time.Second {
				e.Since = gone.Add(3 * time.Second)
			}
			return e
		}, 2 * n},
		"one of two left, and the look before was long ago": {7 * time.Second, left, 2 * n},
		"another came and went":                             {time.Second, since, 2 * n},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &scripted{n: n, resourceVersion: "1000"}
				began, gone := time.Now().Add(-time.Hour), time.Time{}
				f.patch = func(string, http.ResponseWriter) bool {
					time.Sleep(100 * time.Millisecond)
					if f.patches.Load() == n {
						gone = time.Now()
					}
					return false
				}
				agreement := func() (Epoch, error) {
					e := lastingFrom(began)
					if e.Servers = []string{"a", "b"}; !gone.IsZero() {
						e = tt.after(e, gone)
					}
					return e, nil
				}
				options := Options{MaxInFlight: 1, SettleTime: 10 * time.Second, lookInterval: tt.every}
				result, err := virtualSweep(t, f, agreement, options).Run(t.Context())
				if err != nil || !result.Proven || result.Restarts != 1 || f.patches.Load() != tt.patches {
					t.Errorf("%d patches, %d restarts, proven %t (%v), want %d patches", f.patches.Load(),
						result.Restarts, result.Proven, err, tt.patches)
				}
			})
		})
	}
}

func left(e Epoch, gone time.Time) Epoch {
	e.Servers, e.Since = []string{"a"}, gone
	return e
}

// A process that resumes a pass knows what happened since the last look of the one before it.
func TestAPassIsNotResumedInAnEpochThatBeganAgain(t *testing.T) {
	looked := time.Now()
	known := checkpoint{Begun: true, Epoch: lasting, LookedAt: looked}
	for name, tt := range map[string]struct {
		crd            string
		since, leaving time.Duration // after the last look
		want           bool
	}{
		"which is the same":                     {since: -time.Minute, want: true},
		"after the last look":                   {since: time.Second},
		"or may have":                           {since: -time.Minute, leaving: time.Minute},
		"whose objects are written as CRDs say": {crd: "uid", since: time.Second, leaving: time.Minute, want: true},
	} {
		c, e := known, lastingFrom(looked.Add(tt.since))
		if tt.leaving != 0 {
			e.Leaving = looked.Add(tt.leaving)
		}
		c.Epoch.CRDUID, e.CRDUID = types.UID(tt.crd), types.UID(tt.crd)
		if got := c.inEpoch(e, looked.Add(2*time.Second)); got != tt.want {
			t.Errorf("in an epoch that began %s it goes on: %t, want %t", name, got, tt.want)
		}
	}
}
