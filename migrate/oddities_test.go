// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

// What follows needs servers that answer oddly or agreements that change at one moment, which real API servers do not
// do on demand. Everything about pages, conflicts and encodings is tested against real ones.

func TestARunThatStartsOverVoidsTheOldCheckpointAtOnce(t *testing.T) {
	store := &memoryCheckpoints{}
	if _, err := sweepOf(t, &scripted{n: 3, resourceVersion: "1000"}, nil,
		Options{Checkpoints: store}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A key was rotated, which no epoch shows: start over, and be interrupted on the first page.
	var interrupted *Sweep
	f := &scripted{n: 3, resourceVersion: "3000"}
	f.patch = func(name string, _ http.ResponseWriter) bool {
		if c, err := store.read(); err != nil || c.Begun || c.Complete {
			t.Errorf("checkpoint while %s is rewritten: %+v (%v), want it void before anything is written (I5)", name,
				c, err)
		}
		interrupted.Stop()
		return false
	}
	interrupted = sweepOf(t, f, nil, Options{Checkpoints: store, MaxInFlight: 1})
	if _, err := interrupted.Run(t.Context()); !errors.Is(err, ErrStopped) {
		t.Fatalf("error = %v, want it stopped", err)
	}
	f = &scripted{n: 3, resourceVersion: "3000"}
	result, err := sweepOf(t, f, nil, Options{Checkpoints: store, Resume: true}).Run(t.Context())
	if err != nil || f.patches.Load() != 3 {
		t.Errorf("resumed with %d patches, proven %v (%v), want all 3 objects rewritten",
			f.patches.Load(), result.Proven, err)
	}
}

func TestNothingIsBegunOnceStopHasReturned(t *testing.T) {
	var stopped *Sweep
	f := &scripted{n: 100, resourceVersion: "1000",
		patch: func(string, http.ResponseWriter) bool { stopped.Stop(); return false }}
	stopped = sweepOf(t, f, nil, Options{MaxInFlight: 1})
	if _, err := stopped.Run(t.Context()); !errors.Is(err, ErrStopped) || f.patches.Load() != 1 {
		t.Errorf("%d patches (%v), want the one in flight finished and no other begun (I7)", f.patches.Load(), err)
	}

	f = &scripted{n: 3, resourceVersion: "1000"}
	stopped = sweepOf(t, f, nil, Options{})
	stopped.Stop()
	if _, err := stopped.Run(t.Context()); !errors.Is(err, ErrStopped) || f.patches.Load() != 0 {
		t.Errorf("stopped before it ran: %d patches (%v), want none", f.patches.Load(), err)
	}
}

func TestA404OfSomethingInBetweenIsNoProofThatAnObjectIsGone(t *testing.T) {
	html := func(_ string, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "default backend - 404")
		return true
	}
	f := &scripted{n: 3, resourceVersion: "1000", patch: html, get: html}
	result, err := sweepOf(t, f, nil, Options{}).Run(t.Context())
	if !errors.Is(err, ErrResourceGone) || result.Counts.Gone != 0 || result.Proven {
		t.Errorf("error %v, counts %+v, proven %v; want the sweep ended and nothing counted as gone (I4)", err,
			result.Counts, result.Proven)
	}
}

func TestADisagreementEndsTheEpochEvenIfTheNextLookIsTheSameAgain(t *testing.T) {
	var looks atomic.Int64
	f := &scripted{n: 3, resourceVersion: "1000"}
	f.patch = func(string, http.ResponseWriter) bool {
		for begin := looks.Load(); looks.Load() < begin+2; { // hold the first pass until the watcher has looked
			time.Sleep(time.Millisecond)
		}
		return false
	}
	agreement := func() (Epoch, error) {
		if looks.Add(1) == 2 {
			return Epoch{}, fmt.Errorf("%w: for a moment", ErrDisagreement)
		}
		return lasting, nil
	}
	result, err := sweepOf(t, f, agreement, Options{MaxInFlight: 1}).Run(t.Context())
	if err != nil || result.Restarts != 1 {
		t.Errorf("%d restarts (%v), want the pass started over", result.Restarts, err)
	}
}

func TestWhatIsDeclaredEndsTheEpochThatRestsOnIt(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		restarts      int
	}{
		"an entry changed":                 {"u/1", "u/2", 1},
		"an entry is missing":              {"u/1", "", 1},
		"it begins to be declared":         {"", "u/1", 0},
		"it was declared, and is the same": {"u/1", "u/1", 0},
		"nothing is declared":              {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var looks atomic.Int64
			f := &scripted{n: 3, resourceVersion: "1000"}
			f.patch = func(string, http.ResponseWriter) bool {
				for begin := looks.Load(); looks.Load() < begin+2; { // hold the first pass until the watcher has looked
					time.Sleep(time.Millisecond)
				}
				return false
			}
			agreement := func() (Epoch, error) {
				e := lasting
				if e.Declared = tt.before; looks.Add(1) >= 2 {
					e.Declared = tt.after
				}
				return e, nil
			}
			result, err := sweepOf(t, f, agreement, Options{MaxInFlight: 1}).Run(t.Context())
			if err != nil || result.Restarts != tt.restarts || !result.Proven {
				t.Errorf("%d restarts, proven %t (%v), want %d", result.Restarts, result.Proven, err, tt.restarts)
			}
		})
	}
}

// Servers of a custom resource that were away when the pass began are there again: the epoch is the same, and can prove
// something now.
func TestAPassThatBeganWithWeakEvidenceStartsOverOnceThereIsEnough(t *testing.T) {
	store := &memoryCheckpoints{}
	evidence := Sampled
	agreement := func() (Epoch, error) {
		return Epoch{Hash: "h", CRDUID: "u", CRDGeneration: 2, Evidence: evidence, Since: lasting.Since}, nil
	}
	f := &scripted{n: 3, resourceVersion: "3000"}
	for run, want := range []int64{3, 3} { // a sample is not looked at again as long as there is nothing better
		if result, err := sweepOf(t, f, agreement,
			Options{Checkpoints: store, Resume: true, MinEvidence: Observed}).Run(t.Context()); !errors.Is(err, ErrNotProven) ||
			result.Proven || f.patches.Load() != want {
			t.Errorf("run %d with a sample: %d patches, proven %t (%v), want %d patches and no proof", run,
				f.patches.Load(), result.Proven, err, want)
		}
	}
	evidence = Observed
	result, err := sweepOf(t, f, agreement,
		Options{Checkpoints: store, Resume: true, MinEvidence: Observed}).Run(t.Context())
	if err != nil || !result.Proven || result.Epoch.Evidence != Observed || f.patches.Load() != 6 {
		t.Errorf("%d patches, proven %t with evidence %v (%v), want a second pass that proves", f.patches.Load(),
			result.Proven, result.Epoch.Evidence, err)
	}
}

func TestASampledCheckpointIsNotResumedAsIfNothingHadHappened(t *testing.T) {
	store := &memoryCheckpoints{}
	sampled := func() (Epoch, error) { return Epoch{Hash: "h", Evidence: Sampled, Since: lasting.Since}, nil }
	options := Options{Checkpoints: store, MinEvidence: Sampled}
	if _, err := sweepOf(t, &scripted{n: 3, resourceVersion: "1000"}, sampled, options).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := &scripted{n: 3, resourceVersion: "3000"}
	options.Resume = true
	if _, err := sweepOf(t, f, sampled, options).Run(t.Context()); err != nil || f.patches.Load() != 3 {
		t.Errorf("%d patches (%v), want all 3 objects rewritten again", f.patches.Load(), err)
	}
}

// What a sweep did last before servers went is confirmed afterwards, unless another one came.
func TestWhatWasWrittenLastIsConfirmedAfterServersWent(t *testing.T) {
	for name, tt := range map[string]struct {
		after   []string
		patches int64
	}{
		"one went":     {[]string{"a"}, 5},
		"another came": {[]string{"a", "c"}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			f := &scripted{n: 5, resourceVersion: "3000"}
			agreement := func() (Epoch, error) {
				e := lasting
				if e.Servers = []string{"a", "b"}; f.patches.Load() >= 5 {
					e.Servers = tt.after
				}
				return e, nil
			}
			result, err := sweepOf(t, f, agreement, Options{SettleTime: 300 * time.Millisecond}).Run(t.Context())
			if err != nil || !result.Proven || result.Restarts != 1 || f.patches.Load() != tt.patches {
				t.Errorf("%d patches, %d restarts, proven %t (%v), want %d patches", f.patches.Load(), result.Restarts,
					result.Proven, err, tt.patches)
			}
		})
	}
}

// A process may die while it looks on after the end of an epoch: it must not go on in the pass, although the next look
// shows the same epoch again.
func TestWhileASweepLooksOnItsCheckpointSaysThatTheEpochIsOver(t *testing.T) {
	store := &memoryCheckpoints{}
	var looks, after atomic.Int64
	f := &scripted{n: 3, resourceVersion: "3000", patch: func(string, http.ResponseWriter) bool {
		for begin := looks.Load(); looks.Load() < begin+2; {
			time.Sleep(time.Millisecond)
		}
		return false
	}}
	agreement := func() (Epoch, error) {
		switch n := looks.Add(1); {
		case n == 2:
			return Epoch{}, fmt.Errorf("%w: for a moment", ErrDisagreement)
		case n > 2 && after.Add(1) == 1:
			if c, err := store.read(); err != nil || c == nil || c.inEpoch(lasting, time.Now()) {
				t.Errorf("the checkpoint is %+v (%v): who resumes it goes on in an epoch that was over", c, err)
			}
		}
		return lasting, nil
	}
	if result, err := sweepOf(t, f, agreement,
		Options{MaxInFlight: 1, Checkpoints: store}).Run(t.Context()); err != nil || result.Restarts != 1 {
		t.Errorf("%d restarts (%v), want the pass started over", result.Restarts, err)
	}
}

func TestNothingIsBegunWhileAnAPIServerDoesNotAnswer(t *testing.T) {
	for name, silence := range map[string]func() (Epoch, error){
		"with what can be seen": func() (Epoch, error) { e := lasting; e.Evidence = Sampled; return e, ErrSilent },
		"with nothing":          func() (Epoch, error) { return Epoch{}, errors.New("no answer") },
		"weaker evidence":       func() (Epoch, error) { e := lasting; e.Evidence = Sampled; return e, nil },
	} {
		t.Run(name, func(t *testing.T) {
			const from, to = 5, 15
			var looks, before, during atomic.Int64
			f := &scripted{n: 100, resourceVersion: "1000"}
			f.patch = func(string, http.ResponseWriter) bool {
				time.Sleep(5 * time.Millisecond)
				return false
			}
			agreement := func() (Epoch, error) {
				switch n := looks.Add(1); {
				case n < from || n > to:
					return lasting, nil
				case n == from+1: // the look before this one was the first silent one
					before.Store(f.patches.Load())
				case n == to:
					during.Store(f.patches.Load())
				}
				return silence()
			}
			result, err := sweepOf(t, f, agreement, Options{MaxInFlight: 1}).Run(t.Context())
			if err != nil || !result.Proven || result.Restarts != 0 {
				t.Errorf("%d restarts, proven %t (%v), want it to go on", result.Restarts, result.Proven, err)
			}
			const inFlight = 2 // one that is sent, and one that is about to be
			if before.Load() == 100 || during.Load() > before.Load()+inFlight {
				t.Errorf("%d patches before the silence and %d at its end, want no more", before.Load(), during.Load())
			}
		})
	}
}

func TestAPassThatNoOneFollowedStartsOver(t *testing.T) {
	store := &memoryCheckpoints{}
	f := &scripted{n: 3, resourceVersion: "1000"}
	if _, err := sweepOf(t, f, nil, Options{Checkpoints: store}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.resourceVersion = "3000"
	for _, tt := range []struct {
		blind    time.Duration
		restarts int
	}{{0, 0}, {maxBlind, 1}} {
		c, err := store.read()
		if err != nil {
			t.Fatal(err)
		}
		c.LookedAt = c.LookedAt.Add(-tt.blind)
		if err := store.write(c); err != nil {
			t.Fatal(err)
		}
		result, err := sweepOf(t, f, nil, Options{Checkpoints: store, Resume: true}).Run(t.Context())
		if err != nil || !result.Proven || result.Restarts != tt.restarts {
			t.Errorf("after %v without a look: %d restarts, proven %t (%v), want %d", tt.blind, result.Restarts,
				result.Proven, err, tt.restarts)
		}
	}
}

func TestAListWithoutANumberSkipsNothing(t *testing.T) {
	f := &scripted{n: 3}
	result, err := sweepOf(t, f, nil, Options{}).Run(t.Context())
	if diff := compare.Diff(Counts{Rewritten: 3}, result.Counts); diff != "" || err != nil {
		t.Errorf("counts (-want +got), error %v:\n%s", err, diff)
	}
}

func TestAFailedVerificationTakesTheCompletionBack(t *testing.T) {
	store := &memoryCheckpoints{}
	same := func(name string, w http.ResponseWriter) bool {
		fmt.Fprint(w, object1(name, "1"+name[1:]))
		return true
	}
	f := &scripted{n: 3, resourceVersion: "1000", patch: same}
	if _, err := sweepOf(t, f, nil, Options{Checkpoints: store}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.patch = func(name string, w http.ResponseWriter) bool {
		if name == "o1" {
			return refuse(w, http.StatusUnprocessableEntity, "invalid")
		}
		return same(name, w)
	}
	for _, options := range []Options{{Verify: true}, {}} {
		options.Checkpoints, options.Resume = store, true
		result, err := sweepOf(t, f, nil, options).Run(t.Context())
		if diff := compare.Diff(Counts{Current: 2, Failed: 1}, result.Counts); diff != "" ||
			!errors.Is(err, ErrObjectsFailed) || result.Complete {
			t.Errorf("verify %v: error %v, complete %v, counts (-want +got):\n%s", options.Verify,
				err, result.Complete, diff)
		}
	}
}

func TestTheEndOfTheContextIsNotTheFailureOfObjects(t *testing.T) {
	store := &memoryCheckpoints{}
	ctx, cancel := context.WithCancelCause(t.Context())
	shuttingDown := errors.New("shutting down")
	f := &scripted{n: 200, resourceVersion: "1000",
		patch: func(string, http.ResponseWriter) bool { cancel(shuttingDown); return false }}
	result, err := sweepOf(t, f, nil, Options{Checkpoints: store, MaxInFlight: 1}).Run(ctx)
	if !errors.Is(err, shuttingDown) || !errors.Is(err, ErrStopped) || result.Counts.Failed != 0 {
		t.Errorf("error %v, counts %+v, want the cause and no failures", err, result.Counts)
	}
	if c, _ := store.read(); c.Listed {
		t.Error("the page that was cut short is saved as done (I5)")
	}
}

func TestAWebhooksDenialIsAboutTheObjectWhateverItsCode(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 409, 429, 500, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			f := &scripted{n: 3, resourceVersion: "1000", patch: func(name string, w http.ResponseWriter) bool {
				return name == "o0" && refuse(w, code, `admission webhook "p.example.com" denied the request: policy`)
			}}
			result, err := sweepOf(t, f, nil, Options{}).Run(t.Context())
			if !errors.Is(err, ErrObjectsFailed) || len(result.Failures) != 1 || result.Failures[0].Reason != Rejected {
				t.Errorf("error %v, failures %+v, want the one object rejected", err, result.Failures)
			}
			if f.patches.Load() != 4 { // and once more at the end of the pass
				t.Errorf("%d patches, want 4", f.patches.Load())
			}
		})
	}
}

func TestAnObjectThatNeverGetsAnAnswerIsSetAside(t *testing.T) {
	f := &scripted{n: 200, resourceVersion: "1000", patch: func(name string, w http.ResponseWriter) bool {
		if name == "o0" {
			return refuse(w, http.StatusGatewayTimeout, "timeout")
		}
		time.Sleep(20 * time.Millisecond) // the others are answered all the time
		return false
	}}
	result, err := sweepOf(t, f, nil, Options{outageTimeout: 300 * time.Millisecond}).Run(t.Context())
	result.Counts.Retried = 0 // as often as there was time
	if diff := compare.Diff(Counts{Rewritten: 199, Failed: 1}, result.Counts); diff != "" || !errors.Is(err, ErrObjectsFailed) {
		t.Errorf("error %v, counts (-want +got):\n%s", err, diff)
	}
}

func TestAServerThatExpiresEveryTokenIsGivenUp(t *testing.T) {
	f := &scripted{n: 3, resourceVersion: "1000"}
	s := sweepOf(t, f, nil, Options{})
	f.list = func(w http.ResponseWriter) bool { return refuse(w, http.StatusGone, "expired") }
	err := s.pages(untilStop{t.Context()}, "", func(page, bool) error { return nil })
	if classify(err) != expired {
		t.Errorf("error = %v, want the server's 410", err)
	}
}
