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
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// What follows is about API servers that lie, or never come to an end. With real API servers in front the same is
// tested in kube-migrator/test/e2e.

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
	o.SettleTime, o.lookInterval = time.Millisecond, max(o.lookInterval, 10*time.Millisecond)
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
		"a control character":         {namespace: "d", name: "a\x1b[2J/"},
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
				store := &memoryCheckpoints{}
				sweep := l.sweep(t, func(target *Target) { target.Namespaced = !tt.clusterScoped },
					Options{Checkpoints: store})
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
				if tt.namespace != "" && tt.resourceVersion == "" &&
					!strings.Contains(err.Error(), printable.Quote(tt.namespace)) {
					t.Errorf("the error does not name the namespace: %v", err)
				}
				for _, sent := range l.sent {
					if strings.HasSuffix(sent, "/flunders/a") {
						continue
					}
					t.Errorf("%s was sent (I3)", sent)
				}
				if c, _ := store.read(); c.Listed || c.Complete {
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
