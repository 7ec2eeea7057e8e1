// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

func TestAListWithoutEndIsAnErrorOfItsOwn(t *testing.T) {
	object := func(i int) string { return about("d", fmt.Sprintf("%09d", i), "5") }
	refused := func(token string) (int, string) {
		return http.StatusGone, fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"expired","code":410,"metadata":{"continue":%q}}`, token,
		)
	}
	for name, tt := range map[string]struct {
		origin Origin
		list   func(n int, token string) (int, string)
		most   int // lists
	}{
		"the same token": {Aggregated, func(n int, _ string) (int, string) {
			return 200,
				listOf("t", object(n))
		}, 3},
		"tokens in a circle": {Aggregated, func(n int, _ string) (int, string) {
			return 200,
				listOf(fmt.Sprint(n%5), object(n))
		}, 16},
		"the same page": {Aggregated, func(n int, _ string) (int, string) {
			return 200,
				listOf(fmt.Sprint(n), object(1))
		}, 3},
		"empty pages": {Aggregated, func(n int, _ string) (int, string) {
			return 200,
				listOf(fmt.Sprint(n))
		}, 102},
		"keys that go back": {BuiltIn, func(n int, _ string) (int, string) {
			return 200,
				listOf(fmt.Sprint(n), object(1000-n))
		}, 3},
		"keys that stay": {Custom, func(n int, _ string) (int, string) {
			return 200,
				listOf(fmt.Sprint(n), object(n), object(n+1))
		}, 3},
		"a list that starts over indefinitely": {Custom, func(n int, _ string) (int, string) {
			if n%2 == 0 {
				return refused("")
			}
			return 200, listOf(fmt.Sprint(n), object(1))
		}, 2*maxListStarts + 4},
		"a token that is too long": {Custom, func(n int, _ string) (int, string) {
			return 200, listOf(strings.Repeat("x", bounded.MaxToken+1), object(n))
		}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			l := &liar{list: tt.list}
			result, err := l.sweep(t, func(target *Target) { target.Origin = tt.origin }, Options{}).runList(t)
			if !errors.Is(err, ErrEndlessList) || result.Proven {
				t.Errorf("error %v, want ErrEndlessList", err)
			}
			if l.lists > tt.most {
				t.Errorf("%d lists, want at most %d", l.lists, tt.most)
			}
			if err != nil && !strings.Contains(err.Error(), "flunders.wardle.example.com") {
				t.Errorf("the error does not name the resource: %v", err)
			}
		})
	}
}

// runList is Run without the preflight, which reads the CustomResourceDefinition of a custom resource.
func (s *Sweep) runList(t *testing.T) (Result, error) {
	t.Helper()
	if err := s.load(t.Context()); err != nil {
		return s.result(err), err
	}
	epoch, err := s.settled(t.Context())
	if err == nil {
		err = s.within(t.Context(), epoch)
	}
	return s.result(err), err
}

func TestAListThatIsOddAndEndsIsSweptToItsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		origin Origin
		pages  []string // names; "-" is a 410 with a token that goes on, "!" one without
		want   int64
	}{
		"out of order": {Aggregated, []string{"c", "a", "b"}, 3},
		"empty pages in between": {Aggregated,
			append(append([]string{"a"}, make([]string, 60)...), "b", "", "c"), 3},
		"an expired token that goes on":     {BuiltIn, []string{"a", "-", "b", "-", "c"}, 3},
		"an expired token that starts over": {BuiltIn, []string{"a", "b", "!", "a", "b", "c"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := &liar{list: func(n int, _ string) (int, string) {
				page, token := tt.pages[n-1], fmt.Sprint(n)
				if n == len(tt.pages) {
					token = ""
				}
				switch page {
				case "-":
					return http.StatusGone, fmt.Sprintf(
						`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":%q}}`, token,
					)
				case "!":
					return http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
				case "":
					return http.StatusOK, listOf(token)
				}
				return http.StatusOK, listOf(token, about("d", page, "5"))
			}}
			result, err := l.sweep(t, func(target *Target) { target.Origin = tt.origin }, Options{}).runList(t)
			if err != nil || !result.Proven || result.Counts.Rewritten != tt.want {
				t.Errorf("counts %+v, proven %t (%v), want %d rewritten", result.Counts, result.Proven, err, tt.want)
			}
		})
	}
}

func TestFailuresHaveTheirShareOfACheckpoint(t *testing.T) {
	const objects = 300
	text := "ä" + strings.Repeat("<\u00e4\x1b", 20<<10/14) // of 20 KiB as JSON
	l := &liar{
		list: func(int, string) (int, string) {
			var items []string
			for i := range objects {
				items = append(items, about("d", fmt.Sprintf("o%03d", i), "5"))
			}
			return http.StatusOK, listOf("", items...)
		},
		patch: func(string) (int, string) {
			raw, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
				"reason": "Invalid", "message": text, "code": 422})
			return http.StatusUnprocessableEntity, string(raw)
		},
	}
	store := &memoryCheckpoints{}
	result, err := l.sweep(t, nil, Options{Checkpoints: store, PageSize: objects}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) || result.Counts.Failed != objects || int64(len(result.Failures))+
		result.FailuresOmitted != objects {
		t.Fatalf("error %v, %d failed, %d named and %d counted, want %d", err, result.Counts.Failed,
			len(result.Failures), result.FailuresOmitted, objects)
	}
	t.Logf("the checkpoint has %d bytes", len(store.raw))
	if len(store.raw) > maxFailuresBytes+4<<10 || len(result.Failures) < 50 {
		t.Errorf("the checkpoint has %d bytes and %d failures (I6)", len(store.raw), len(result.Failures))
	}
	for _, f := range result.Failures {
		if len(f.Message) > maxMessageBytes || !utf8.ValidString(f.Message) ||
			!strings.Contains(f.Message, "(cut, it had") || strings.Contains(f.Message, "\x1b") {
			t.Fatalf("message %q", f.Message)
		}
	}
}

func TestAMessageIsCutBetweenCharactersAndSaysSo(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"short", "short"},
		{strings.Repeat("x", maxMessageBytes), strings.Repeat("x", maxMessageBytes)},
		{"a\x1b[2Jb\x00", "a [2Jb "},
	} {
		if got := cut(tt.in); got != tt.want {
			t.Errorf("cut = %q, want %q", got, tt.want)
		}
	}
	for n := maxMessageBytes + 1; n < maxMessageBytes+8; n++ {
		got := cut(strings.Repeat("€", n)[:n])
		if !utf8.ValidString(got) || len(got) > maxMessageBytes || strings.ContainsRune(got, utf8.RuneError) ||
			!strings.HasSuffix(got, fmt.Sprintf("(cut, it had %d bytes)", n)) {
			t.Errorf("%d bytes are cut to %q", n, got[max(0, len(got)-60):])
		}
	}
}

func TestFailuresBeyondTheirBytesAreCounted(t *testing.T) {
	var c checkpoint
	c.fail(slices.Repeat([]Failure{{Name: "a", Message: strings.Repeat("<", maxMessageBytes)}}, maxFailures))
	raw, err := json.Marshal(c.Failures)
	if err != nil || len(raw) > maxFailuresBytes || len(raw) < maxFailuresBytes-10<<10 || int64(len(c.Failures))+
		c.FailuresOmitted != maxFailures {
		t.Errorf("%d failures of %d bytes, %d counted (%v)", len(c.Failures), len(raw), c.FailuresOmitted, err)
	}
}

func TestAnOldCheckpointIsBroughtWithinItsBounds(t *testing.T) {
	store := &memoryCheckpoints{}
	old := &checkpoint{Version: checkpointVersion, Resource: "flunders.wardle.example.com",
		Counts: Counts{Failed: 2000}, Failures: []Failure{
			{Namespace: "../x", Name: "a"}, {Namespace: "d", Name: "a/b"},
			{Name: "a", ResourceVersion: strings.Repeat("1", 1000)},
		}}
	old.Failures = append(old.Failures, slices.Repeat([]Failure{{Namespace: "d", Name: "a",
		Message: strings.Repeat("x", 20<<10)}}, 1997)...)
	if err := store.write(old); err != nil {
		t.Fatal(err)
	}
	s := (&liar{}).sweep(t, nil, Options{Checkpoints: store, Resume: true})
	if err := s.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(s.state.Failures)
	if len(raw) > maxFailuresBytes || int64(len(s.state.Failures))+s.state.FailuresOmitted != 2000 ||
		len(s.state.Failures[0].Message) > maxMessageBytes || s.state.Failures[0].Name != "a" ||
		s.state.Failures[0].Namespace != "d" {
		t.Errorf("%d failures of %d bytes, %d counted", len(s.state.Failures), len(raw), s.state.FailuresOmitted)
	}
}

func TestAnAnswerWithoutEndIsReadUpToItsLimit(t *testing.T) {
	var read int64
	client, err := apiserver.NewClient(&rest.Config{Host: "http://liar.example.com", Transport: transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: endless{&read}}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	s := (&liar{}).sweep(t, nil, Options{})
	s.wire.client = client
	_, err = s.Run(t.Context())
	if err == nil || !errors.Is(err, ErrAnswerTooLarge) || !strings.Contains(err.Error(), "liar.example.com") {
		t.Errorf("error = %v, want ErrAnswerTooLarge and the server", err)
	}
	s = (&liar{}).sweep(t, nil, Options{})
	s.wire.client, read = client, 0
	if err := s.pages(untilStop{t.Context()}, "", func(page, bool) error { return nil }); !errors.Is(err,
		ErrAnswerTooLarge) {
		t.Errorf("error = %v, want ErrAnswerTooLarge", err)
	}
	if most := int64(12 * (maxPageBytes + 512)); read > most {
		t.Errorf("%d bytes were read, want at most %d", read, most)
	}
}

// endless is a body of JSON's opening brackets.
type endless struct{ read *int64 }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	*e.read += int64(len(p))
	return len(p), nil
}

func (endless) Close() error { return nil }

func TestARunThatGetsNowhereEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		page func(n int) string // a minute after the one before
		want error
	}{
		"empty pages, slowly": {func(n int) string { return listOf(fmt.Sprint(n)) }, ErrStalled},
		"an object now and then is enough": {func(n int) string {
			switch {
			case n == 45:
				return listOf("", about("d", "z", "5"))
			case n%7 == 0:
				return listOf(fmt.Sprint(n), about("d", fmt.Sprintf("%02d", n), "5"))
			}
			return listOf(fmt.Sprint(n))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &liar{}
				started := time.Now()
				l.list = func(n int, _ string) (int, string) { return http.StatusOK, tt.page(n) }
				store := &memoryCheckpoints{}
				s := l.sweep(t, nil, Options{Checkpoints: store, lookInterval: time.Second})
				client, err := apiserver.NewClient(&rest.Config{Host: "http://liar.example.com", Transport: transport(func(r *http.Request) (*http.Response, error) {
					if r.URL.Query().Get("limit") != "1" && strings.HasSuffix(r.URL.Path, "/flunders") {
						time.Sleep(time.Minute)
					}
					return l.RoundTrip(r)
				})})
				if err != nil {
					t.Fatal(err)
				}
				s.wire.client = client
				epoch := lasting
				epoch.Since = started.Add(-time.Hour) // by the clock of this test
				s.agreement = agreementFunc(func() (Epoch, error) { return epoch, nil })
				result, err := s.Run(t.Context())
				if !errors.Is(err, tt.want) || result.Proven != (tt.want == nil) {
					t.Errorf("error %v, proven %t, want %v", err, result.Proven, tt.want)
				}
				if took := time.Since(started); tt.want != nil &&
					(took < defaultStallTimeout || took > defaultStallTimeout+2*time.Minute) {
					t.Errorf("it ended after %v, want about %v", took, defaultStallTimeout)
				}
			})
		})
	}
}
