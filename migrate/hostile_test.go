// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// What follows is about API servers that lie, or never come to an end. With real API servers in front the same is
// tested in test/e2e.

// liar is an API server in this process whose answers are made up: list returns a page for a continue token, patch and
// get an answer to a request about one object. It records every request for an object as it was sent.
type liar struct {
	list       func(n int, token string) (status int, body string)
	patch, get func(path string) (status int, body string)

	mu    sync.Mutex
	lists int
	sent  []string
}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	status, body := l.answer(r)
	w.WriteHeader(status)
	fmt.Fprint(w, body)
	return w.Result(), nil
}

func (l *liar) answer(r *http.Request) (int, string) {
	if r.Method == http.MethodPost {
		return http.StatusCreated, `{"status":{"allowed":true}}`
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	path := r.URL.Path
	if strings.HasSuffix(path, "/flunders") {
		if r.URL.Query().Get("limit") == "1" { // the preflight's
			return http.StatusOK, listOf("", about("d", "a", "1"))
		}
		l.lists++
		return l.list(l.lists, r.URL.Query().Get("continue"))
	}
	l.sent = append(l.sent, r.Method+" "+path)
	answer := func(path string) (int, string) {
		parts := strings.Split(path, "/")
		return http.StatusOK, about(parts[len(parts)-3], parts[len(parts)-1], "2000")
	}
	switch {
	case r.Method == http.MethodPatch && l.patch != nil:
		answer = l.patch
	case r.Method == http.MethodGet && l.get != nil:
		answer = l.get
	}
	return answer(path)
}

func about(namespace, name, resourceVersion string) string {
	return identified(namespace, name, "", resourceVersion)
}

func identified(namespace, name, uid, resourceVersion string) string {
	raw, err := json.Marshal(map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": uid,
			"resourceVersion": resourceVersion},
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func listOf(token string, items ...string) string {
	return fmt.Sprintf(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1000","continue":%q},"items":[%s]}`,
		token, strings.Join(items, ","))
}

func notFound(name string) (int, string) {
	return http.StatusNotFound, fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","details":{"name":%q},"code":404}`, name,
	)
}

func (l *liar) sweep(t *testing.T, change func(*Target), o Options) *Sweep {
	t.Helper()
	client, err := apiserver.NewClient(&rest.Config{Host: "http://liar.example.com", Transport: l})
	if err != nil {
		t.Fatal(err)
	}
	target := Target{
		Resource: schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"},
		Kind:     "Flunder", Namespaced: true, Origin: Aggregated,
	}
	if change != nil {
		change(&target)
	}
	o.SettleTime, o.LookInterval = time.Millisecond, max(o.LookInterval, 10*time.Millisecond)
	return newSweep(client, target, agreementFunc(func() (Epoch, error) { return lasting, nil }), o)
}

func TestAnObjectThatCannotBeOneIsNeverSentFor(t *testing.T) {
	for name, tt := range map[string]struct {
		namespace, name, resourceVersion string
		clusterScoped                    bool
	}{
		"out of the API": {namespace: "d",
			name: "../../../../../../api/v1/namespaces/kube-system/secrets/x"},
		"to a node's proxy": {namespace: "d",
			name: "../../../../../../api/v1/nodes/http:n1:19080/proxy/metrics"},
		"by its namespace":            {namespace: "../../../../api/v1/namespaces/kube-system", name: "x"},
		"a subresource":               {namespace: "d", name: "a/scale"},
		"the collection":              {namespace: "d", name: "."},
		"the namespace":               {namespace: "d", name: ".."},
		"no name":                     {namespace: "d"},
		"escaped":                     {namespace: "d", name: "..%2f..%2fx"},
		"a control character":         {namespace: "d", name: "a\x1b[2J"},
		"without its namespace":       {name: "b"},
		"with a namespace":            {namespace: "d", name: "b", clusterScoped: true},
		"with a long resourceVersion": {namespace: "d", name: "b", resourceVersion: strings.Repeat("1", 1000)},
	} {
		for _, page := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, page %d", name, page), func(t *testing.T) {
				resourceVersion := tt.resourceVersion
				if resourceVersion == "" {
					resourceVersion = "10"
				}
				bad, good := about(tt.namespace, tt.name, resourceVersion), about("d", "a", "9")
				if tt.clusterScoped {
					good = about("", "a", "9")
				}
				l := &liar{list: func(n int, _ string) (int, string) {
					if n < page {
						return http.StatusOK, listOf("next", good)
					}
					return http.StatusOK, listOf("", good, bad)
				}}
				if tt.clusterScoped {
					l.patch = func(string) (int, string) { return http.StatusOK, about("", "a", "2000") }
				}
				place := &memoryCheckpoints{}
				sweep := l.sweep(t, func(target *Target) { target.Namespaced = !tt.clusterScoped },
					Options{Checkpoints: place})
				if tt.clusterScoped {
					sweep.wire.client = clusterScoped(t, l)
				}
				result, err := sweep.Run(t.Context())
				if !errors.Is(err, ErrUntrustedAnswer) || result.Proven || result.Complete {
					t.Fatalf("error %v, proven %t, complete %t; want ErrUntrustedAnswer (I4)", err,
						result.Proven, result.Complete)
				}
				if text := err.Error(); !strings.Contains(text, "flunders.wardle.example.com") ||
					!strings.Contains(text, "liar.example.com") ||
					strings.ContainsAny(text, "\x1b") || len(text) > 700 {
					t.Errorf("the error does not name resource and server, or repeats what it should not: %q", text)
				}
				for _, sent := range l.sent {
					if strings.HasSuffix(sent, "/flunders/a") {
						continue
					}
					t.Errorf("%s was sent (I3)", sent)
				}
				if c, _ := place.read(); c.Listed || c.Complete {
					t.Errorf("the checkpoint says that the pass is complete: %+v", c)
				}
			})
		}
	}
}

// clusterScoped is a client whose preflight finds no object.
func clusterScoped(t *testing.T, l *liar) rest.Interface {
	t.Helper()
	list := l.list
	empty := &liar{list: list}
	empty.patch = l.patch
	client, err := apiserver.NewClient(&rest.Config{Host: "http://liar.example.com", Transport: transport(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && r.URL.Query().Get("limit") == "1" {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, listOf(""))
			return w.Result(), nil
		}
		return l.RoundTrip(r)
	})})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnAnswerAboutAnotherObjectEndsTheSweep(t *testing.T) {
	say := func(body string) func(string) (int, string) {
		return func(string) (int, string) { return http.StatusOK, body }
	}
	gone := func(string) (int, string) { return notFound("a") }
	for name, tt := range map[string]struct {
		patch, get func(string) (int, string)
		trusted    bool
	}{
		"the patched object, as it should be": {patch: say(identified("d", "a", "u", "20")), trusted: true},
		"another name":                        {patch: say(identified("d", "b", "u", "20"))},
		"another namespace":                   {patch: say(identified("e", "a", "u", "20"))},
		"no namespace":                        {patch: say(identified("", "a", "u", "20"))},
		"no resourceVersion":                  {patch: say(identified("d", "a", "u", ""))},
		"another UID, and it is still there": {patch: say(identified("d", "a", "v", "20")),
			get: say(identified("d", "a", "u", "20"))},
		"another UID, as it was created again": {patch: say(identified("d", "a", "v", "20")),
			get: say(identified("d", "a", "v", "20")), trusted: true},
		"another UID, and it is deleted again": {patch: say(identified("d", "a", "v", "20")),
			get: gone, trusted: true},
		"a 404, and the GET is about another":    {patch: gone, get: say(identified("d", "b", "u", "20"))},
		"a 404, and the GET is about a stranger": {patch: gone, get: say(identified("e", "a", "u", "20"))},
	} {
		t.Run(name, func(t *testing.T) {
			l := &liar{
				list: func(int, string) (int, string) {
					return http.StatusOK,
						listOf("", identified("d", "a", "u", "10"))
				},
				patch: tt.patch, get: tt.get,
			}
			result, err := l.sweep(t, nil, Options{}).Run(t.Context())
			if tt.trusted && (err != nil || !result.Proven) {
				t.Errorf("error %v, proven %t, want a proof", err, result.Proven)
			}
			if !tt.trusted && (!errors.Is(err, ErrUntrustedAnswer) || result.Proven || result.Counts.Failed > 0) {
				t.Errorf("error %v, counts %+v, want ErrUntrustedAnswer", err, result.Counts)
			}
		})
	}
}

func TestA404IsOnlyGoneIfAGETSaysSoToo(t *testing.T) {
	l := &liar{
		list: func(int, string) (int, string) {
			return http.StatusOK, listOf("", about("d", "a", "10"), about("d", "b", "11"))
		},
		patch: func(path string) (int, string) { return notFound(path[strings.LastIndex(path, "/")+1:]) },
		get: func(path string) (int, string) {
			if strings.HasSuffix(path, "/b") {
				return notFound("b")
			}
			return http.StatusOK, about("d", "a", "10") // its namespace is gone, and it is stored all the same
		},
	}
	result, err := l.sweep(t, nil, Options{}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) || result.Counts.Gone != 1 || result.Counts.Failed != 1 {
		t.Fatalf("error %v, counts %+v, want one object gone and one failed (I4)", err, result.Counts)
	}
	if f := result.Failures[0]; f.Name != "a" || f.Reason != Orphaned {
		t.Errorf("failure %+v, want a orphaned", f)
	}
	if !slices.Contains(l.sent, "GET /apis/wardle.example.com/v1/namespaces/d/flunders/b") {
		t.Errorf("requests %q, want a GET of what is called gone", l.sent)
	}
}

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
			return 200, listOf(strings.Repeat("x", maxTokenBytes+1), object(n))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := &liar{list: tt.list}
			result, err := l.sweep(t, func(target *Target) { target.Origin = tt.origin }, Options{}).runList(t)
			long := strings.Contains(name, "too long")
			if !long && !errors.Is(err, ErrEndlessList) || long &&
				!errors.Is(err, ErrUntrustedAnswer) || result.Proven {
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
	const objects = 150
	text := "ä" + strings.Repeat("<\u00e4\x1b", 200<<10/14) // of 200 KiB as JSON
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
	place := &memoryCheckpoints{}
	result, err := l.sweep(t, nil, Options{Checkpoints: place, PageSize: objects}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) || result.Counts.Failed != objects || int64(len(result.Failures))+
		result.FailuresOmitted != objects {
		t.Fatalf("error %v, %d failed, %d named and %d counted, want %d", err, result.Counts.Failed,
			len(result.Failures), result.FailuresOmitted, objects)
	}
	t.Logf("the checkpoint has %d bytes", len(place.raw))
	if len(place.raw) > maxFailuresBytes+4<<10 || len(result.Failures) < 50 {
		t.Errorf("the checkpoint has %d bytes and %d failures (I6)", len(place.raw), len(result.Failures))
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
	place := &memoryCheckpoints{}
	old := &checkpoint{Version: checkpointVersion, Resource: "flunders.wardle.example.com",
		Counts: Counts{Failed: 2000}, Failures: []Failure{
			{Namespace: "../x", Name: "a"}, {Namespace: "d", Name: "a/b"},
			{Name: "a", ResourceVersion: strings.Repeat("1", 1000)},
		}}
	old.Failures = append(old.Failures, slices.Repeat([]Failure{{Namespace: "d", Name: "a",
		Message: strings.Repeat("x", 20<<10)}}, 1997)...)
	if err := place.write(old); err != nil {
		t.Fatal(err)
	}
	s := (&liar{}).sweep(t, nil, Options{Checkpoints: place, Resume: true})
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
	if err := s.pages(t.Context(), t.Context(), "", func(page, bool) error { return nil }); !errors.Is(err,
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
				place := &memoryCheckpoints{}
				s := l.sweep(t, nil, Options{Checkpoints: place, LookInterval: time.Second})
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
					(took < DefaultStallTimeout || took > DefaultStallTimeout+2*time.Minute) {
					t.Errorf("it ended after %v, want about %v", took, DefaultStallTimeout)
				}
			})
		})
	}
}
