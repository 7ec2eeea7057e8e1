// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// inProcess answers requests within the process, so that a test can run in virtual time.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w, answered := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(answered)
		p.ServeHTTP(w, r)
	}()
	select {
	case <-answered:
	case <-r.Context().Done():
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// settledEpoch is a look at an epoch that has lasted for an hour.
func settledEpoch() (Epoch, error) {
	e := lasting
	e.Since = time.Now().Add(-time.Hour)
	return e, nil
}

// virtualSweep is sweepOf for a test in virtual time.
func virtualSweep(t *testing.T, f *scripted, agreement agreementFunc, o Options) *Sweep {
	t.Helper()
	client, err := apiserver.NewClient(&rest.Config{Host: "http://in.process", Transport: inProcess{f}})
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
		Namespaced: true, Origin: BuiltIn}
	return newSweep(client, target, agreement, o)
}

// API Priority and Fairness asks for pauses of up to 32 s, which is longer than a pass of a built-in resource may go
// unwatched.
func TestAPauseThatTheServerAsksForDoesNotEndThePass(t *testing.T) {
	for _, pause := range []time.Duration{11 * time.Second, 32 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n, every = 60, 25
				f := &scripted{n: n, resourceVersion: "1000"}
				refused, answered := 0, 0
				var pausedUntil time.Time
				f.patch = func(_ string, w http.ResponseWriter) bool {
					if time.Now().Before(pausedUntil) {
						t.Errorf("a patch was sent %v before the end of the pause (I7)", time.Until(pausedUntil))
					}
					if answered < every*(refused+1) {
						answered++
						return false
					}
					refused++
					pausedUntil = time.Now().Add(pause)
					w.Header().Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
					http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
					return true
				}
				var looks []time.Time // during pauses
				agreement := func() (Epoch, error) {
					if time.Now().Before(pausedUntil) {
						looks = append(looks, time.Now())
					}
					e := lasting
					e.Since = time.Now().Add(-time.Hour)
					return e, nil
				}
				result, err := virtualSweep(t, f, agreement, Options{MaxInFlight: 1}).Run(t.Context())
				if err != nil || !result.Proven || result.Restarts != 0 || result.Counts.Rewritten != n || refused < 2 {
					t.Errorf("%d restarts, %d rewritten, %d refused, proven %t (%v), want one pass through at least "+
						"two pauses",
						result.Restarts, result.Counts.Rewritten, refused, result.Proven, err)
				}
				if most := refused * (1 + int(pause/pausedLook)); len(looks) == 0 || len(looks) > most {
					t.Errorf("%d looks during %d pauses, want between 1 and %d: as few as keep the pass valid (I7)",
						len(looks), refused, most)
				}
			})
		})
	}
}

// The end of the context is a gentle stop. A user who wants the opposite calls Abort.
func TestTheEndOfTheContextFinishesTheRewriteInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(s *Sweep, cancel context.CancelFunc)
		want int64
	}{
		"the context ends": {func(_ *Sweep, cancel context.CancelFunc) { cancel() }, 1},
		"Stop":             {func(s *Sweep, _ context.CancelFunc) { s.Stop() }, 1},
		"Abort":            {func(s *Sweep, _ context.CancelFunc) { s.Abort() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var s *Sweep
				f := &scripted{n: 100, resourceVersion: "1000", patch: func(string, http.ResponseWriter) bool {
					test.end(s, cancel)
					time.Sleep(time.Second)
					return false
				}}
				s = virtualSweep(t, f, settledEpoch, Options{MaxInFlight: 1})
				result, err := s.Run(ctx)
				if !errors.Is(err, ErrStopped) || f.patches.Load() != 1 || result.Counts.Rewritten != test.want {
					t.Errorf("%d patches, %d rewritten (%v), want one patch, %d rewritten and ErrStopped", f.patches.Load(),
						result.Counts.Rewritten, err, test.want)
				}
				time.Sleep(time.Minute) // in virtual time, until the handler has returned
			})
		})
	}
}

// Nothing that a run waits for outlives its context: neither requests that write nothing nor the store.
func TestTheEndOfTheContextEndsEveryWait(t *testing.T) {
	for name, prepare := range map[string]func(f *scripted, o *Options){
		"for the checkpoint": func(_ *scripted, o *Options) { o.Checkpoints = hangingStore{} },
		"for a page": func(f *scripted, _ *Options) {
			f.list = func(http.ResponseWriter) bool { time.Sleep(time.Minute); return false }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				f, o := &scripted{n: 3, resourceVersion: "1000"}, Options{Resume: true}
				prepare(f, &o)
				began := time.Now()
				_, err := virtualSweep(t, f, settledEpoch, o).Run(ctx)
				if took := time.Since(began); !errors.Is(err, ErrStopped) || took != time.Second {
					t.Errorf("it ended after %v with %v, want ErrStopped after 1s", took, err)
				}
				time.Sleep(2 * time.Minute) // in virtual time, until the handler has returned
			})
		})
	}
}

// hangingStore does not answer a Load.
type hangingStore struct{ noCheckpoints }

func (hangingStore) Load(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// API servers that come and go all the time agree at each look, and never for long enough.
func TestOneSettlingHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		agreement := func() (Epoch, error) {
			e := lasting
			e.Since = time.Now()
			return e, nil
		}
		f := &scripted{n: 3, resourceVersion: "1000"}
		options := Options{AgreementTimeout: 5 * time.Minute, SettleTime: 2 * time.Minute}
		_, err := virtualSweep(t, f, agreement, options).Run(t.Context())
		if took := time.Since(began); !errors.Is(err, ErrNoAgreement) || took > 7*time.Minute+2*time.Second {
			t.Errorf("ended after %v with %v, want ErrNoAgreement after 7 min", took, err)
		}
		if f.patches.Load() != 0 {
			t.Errorf("%d patches were sent before an epoch had settled (I2)", f.patches.Load())
		}
	})
}

func TestAnEpochThatBeginsLateMaySettleWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Add(4 * time.Minute)
		agreement := func() (Epoch, error) {
			if time.Now().Before(from) {
				return Epoch{}, errors.New("an API server does not answer")
			}
			e := lasting
			e.Since = from
			return e, nil
		}
		options := Options{AgreementTimeout: 5 * time.Minute, SettleTime: 2 * time.Minute}
		result, err := virtualSweep(t, &scripted{n: 3, resourceVersion: "1000"}, agreement,
			options).Run(context.Background())
		if err != nil || !result.Proven {
			t.Errorf("proven %t (%v), want the sweep to wait for the epoch and its settle time", result.Proven, err)
		}
	})
}

// Looks differ a little in when an epoch began. What people are told does not change with each of them.
func TestWhatIsWaitedForIsToldInOneSentence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		looks := 0
		agreement := func() (Epoch, error) {
			looks++
			e := lasting
			e.Since = from.Add(-time.Duration(looks%2) * time.Second)
			return e, nil
		}
		sweep := virtualSweep(t, &scripted{n: 3, resourceVersion: "1000"}, agreement,
			Options{AgreementTimeout: 5 * time.Minute, SettleTime: 2 * time.Minute})
		if said := sentences(t, sweep); len(said) != 1 {
			t.Errorf("said %d sentences, want one: %v", len(said), said)
		}
	})
}

// While a server that left unseen may still write, Since moves on with every look. The moment that people are told does
// not.
func TestTheEndOfTheWaitIsToldWhileAServerMayStillBeLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := time.Now().Add(90 * time.Second)
		agreement := func() (Epoch, error) {
			e := lasting
			if e.Since = time.Now(); e.Since.After(gone) {
				e.Since = gone
			} else {
				e.Leaving = gone
			}
			return e, nil
		}
		sweep := virtualSweep(t, &scripted{n: 3, resourceVersion: "1000"}, agreement,
			Options{AgreementTimeout: 5 * time.Minute, SettleTime: 2 * time.Minute})
		want := "until " + gone.Add(2*time.Minute).Format(time.TimeOnly) + ": an API server that left unseen may still " +
			"write until " + gone.Format(time.TimeOnly) + ", and requests that began before for a while longer"
		if said := sentences(t, sweep); len(said) != 1 || !said[want] {
			t.Errorf("said %v, want only %q", said, want)
		}
	})
}

// sentences runs a sweep and returns what it said that it waits for.
func sentences(t *testing.T, sweep *Sweep) map[string]bool {
	t.Helper()
	said := map[string]bool{}
	done := make(chan error, 1)
	go func() { _, err := sweep.Run(t.Context()); done <- err }()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return said
		case <-time.After(time.Second):
			if p := sweep.Progress(); p.Phase == Waiting {
				said[p.Waiting] = true
			}
		}
	}
}

// A server can write for a moment before its identity Lease shows that it is there. The look that a proof rests on
// comes after that moment. What a server writes of a custom resource the CRD tells, so that a look after the last write
// is enough.
func TestTheLastLookComesTheGraceAfterTheLastWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		custom bool
		least  time.Duration
		most   time.Duration
	}{
		"of a built-in resource": {false, leaseGrace, time.Hour},
		"of a custom resource":   {true, 0, leaseGrace / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &scripted{n: 3, resourceVersion: "1000"}
				var wrote, looked time.Time
				f.patch = func(string, http.ResponseWriter) bool { wrote = time.Now(); return false }
				agreement := func() (Epoch, error) {
					looked = time.Now()
					e := lastingFrom(time.Now().Add(-time.Hour))
					if tt.custom {
						e.CRDUID, e.CRDGeneration = "uid", 3
					}
					return e, nil
				}
				result, err := virtualSweep(t, f, agreement, Options{lookInterval: time.Hour}).Run(t.Context())
				passed := looked.Sub(wrote)
				if err != nil || !result.Proven || passed < tt.least || passed > tt.most {
					t.Errorf("the last look was %v after the last write, proven %t (%v), want %v to %v (I2)", passed,
						result.Proven, err, tt.least, tt.most)
				}
			})
		})
	}
}

// The CRD may have changed while the last objects were written: the last look follows the last write also without the
// grace.
func TestACRDThatChangesWhileTheLastObjectIsWrittenEndsTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &scripted{n: 3, resourceVersion: "1000"}
		generation := int64(3)
		patched := 0
		f.patch = func(string, http.ResponseWriter) bool {
			if patched++; patched == 3 {
				generation++
			}
			return false
		}
		agreement := func() (Epoch, error) {
			e := lastingFrom(time.Now().Add(-time.Hour))
			e.CRDUID, e.CRDGeneration = "uid", generation
			return e, nil
		}
		result, err := virtualSweep(t, f, agreement, Options{lookInterval: time.Hour}).Run(t.Context())
		if err != nil || !result.Proven || result.Restarts != 1 || result.Epoch.CRDGeneration != 4 {
			t.Errorf("proven %t (%v) in generation %d after %d restarts, want a second pass", result.Proven, err,
				result.Epoch.CRDGeneration, result.Restarts)
		}
	})
}

// Where others wait for their turn, the settle time of one resource is not theirs.
func TestARunThatWouldWaitForLongEndsWhereItIsToldTo(t *testing.T) {
	for name, tt := range map[string]struct {
		patience time.Duration
		ends     bool
	}{
		"as long as it takes":     {0, false},
		"as long as its patience": {2 * time.Minute, false},
		"not longer than that":    {5 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				f := &scripted{n: 3, resourceVersion: "1000"}
				agreement := func() (Epoch, error) { return lastingFrom(from), nil }
				result, err := virtualSweep(t, f, agreement,
					Options{SettleTime: time.Minute, SettlePatience: tt.patience}).Run(t.Context())
				unsettled := (*UnsettledError)(nil)
				if errors.As(err, &unsettled) != tt.ends || result.Proven == tt.ends {
					t.Fatalf("proven %t (%v), want it to end: %t", result.Proven, err, tt.ends)
				}
				if tt.ends && (unsettled.Left != time.Minute || time.Since(from) > time.Second ||
					result.Counts.Done() != 0) {
					t.Errorf("%v left after %v, with %+v", unsettled.Left, time.Since(from), result.Counts)
				}
			})
		})
	}
}
