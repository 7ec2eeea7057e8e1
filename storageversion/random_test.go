// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package storageversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errCut = errors.New("the connection was cut")

// memory is an API server's storage with resourceVersions, preconditions and status subresources, in virtual time. It
// stands for what the tests on a real server show that a real one does; here the order of events is random.
type memory struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	version int
}

func (m *memory) serve(r *http.Request) (int, any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path, isStatus := strings.CutSuffix(r.URL.Path, "/status")
	var body map[string]any
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	have, found := m.objects[path]
	switch r.Method {
	case http.MethodPost:
		path += "/" + body["metadata"].(map[string]any)["name"].(string)
		if _, found := m.objects[path]; found {
			return http.StatusConflict, nil
		}
		delete(body, "status")
		return http.StatusCreated, m.store(path, body)
	case http.MethodGet:
		if strings.HasSuffix(path, "/leases") || strings.HasSuffix(path, "/storageversions") {
			items := []any{}
			name, _ := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
			for p, o := range m.objects {
				if strings.HasPrefix(p, path+"/") || name != "" && strings.HasSuffix(p, "/leases/"+name) {
					items = append(items, o)
				}
			}
			return http.StatusOK, map[string]any{"items": items}
		}
		if found {
			return http.StatusOK, have
		}
		return http.StatusNotFound, nil
	case http.MethodPut, http.MethodDelete:
		meta, _ := body["metadata"].(map[string]any)
		if r.Method == http.MethodDelete {
			meta, _ = body["preconditions"].(map[string]any)
		}
		if !found {
			return http.StatusNotFound, nil
		}
		if meta["resourceVersion"] != have["metadata"].(map[string]any)["resourceVersion"] {
			return http.StatusConflict, nil
		}
		if r.Method == http.MethodDelete {
			delete(m.objects, path)
			return http.StatusOK, nil
		}
		if next := body; isStatus {
			body = map[string]any{"metadata": have["metadata"], "status": next["status"]}
		}
		same, _ := json.Marshal(have)
		if asked, _ := json.Marshal(body); bytes.Equal(same, asked) {
			return http.StatusOK, have // nothing is written
		}
		return http.StatusOK, m.store(path, body)
	}
	return http.StatusMethodNotAllowed, nil
}

// config is that of a client whose requests are answered at once; before, which may be nil, is called with each.
func (m *memory) config(before func(*http.Request) error) *rest.Config {
	serve := roundTripper(func(r *http.Request) (*http.Response, error) {
		if before != nil {
			if err := before(r); err != nil {
				return nil, err
			}
		}
		code, answer := m.serve(r)
		raw, err := json.Marshal(answer)
		return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(raw)),
			Header: http.Header{}, Request: r}, err
	})
	return &rest.Config{Host: "http://api", WrapTransport: func(http.RoundTripper) http.RoundTripper { return serve }}
}

func (m *memory) store(path string, o map[string]any) map[string]any {
	m.version++
	raw, _ := json.Marshal(o)
	var stored map[string]any
	_ = json.Unmarshal(raw, &stored)
	stored["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(m.version)
	m.objects[path] = stored
	return stored
}

// entryOf returns the encoding version that a server publishes for widgets.
func (m *memory) entryOf(server string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, _ := json.Marshal(m.objects[MigrationAPI.path()+"/"+ObjectName(widgets)])
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	if e := o.Status.find(server); e != nil {
		return e.EncodingVersion
	}
	return ""
}

// link is the connection of one process: it delays, loses answers, breaks for minutes, and ends with the process.
type link struct {
	memory *memory
	mu     sync.Mutex
	random *rand.Rand
	broken bool
}

func (l *link) chance(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

func (l *link) set(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	delay := time.Duration(l.chance(300)) * time.Millisecond
	if l.chance(20) == 0 {
		delay *= 20
	}
	if err := pace.Sleep(r.Context(), delay/2); err != nil {
		return nil, err
	}
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken {
		return nil, errCut
	}
	code, answer := l.memory.serve(r)
	raw, _ := json.Marshal(answer)
	if code >= http.StatusBadRequest {
		raw, _ = json.Marshal(metav1.Status{Code: int32(code)})
	}
	if err := pace.Sleep(r.Context(), delay/2); err != nil {
		return nil, err
	}
	if l.chance(30) == 0 {
		return nil, errCut // the answer is lost
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(bytes.NewReader(raw)),
		Header: http.Header{}, Request: r}, nil
}

// I1: whatever happens to servers and connections, a server stores nothing in a version that it does not publish at
// that moment.
func TestNothingIsStoredInAVersionThatIsNotPublished(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{objects: map[string]map[string]any{}}
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
				defer stop()
				var slots sync.WaitGroup
				var stored, refused, lives int
				var counts sync.Mutex
				for slot := range 3 {
					slots.Go(func() {
						l := &link{memory: m, random: rand.New(rand.NewPCG(seed, uint64(slot)))}
						for ctx.Err() == nil { // the next process may start before the one before it has ended
							slots.Go(func() {
								s, f := live(ctx, t, m, l, fmt.Sprintf("server-%d", slot))
								counts.Lock()
								defer counts.Unlock()
								stored, refused, lives = stored+s, refused+f, lives+1
							})
							_ = pace.Sleep(ctx, time.Duration(60+l.chance(300))*time.Second)
						}
					})
				}
				slots.Go(func() {
					l := &link{memory: m, random: rand.New(rand.NewPCG(seed, 100))}
					c, err := NewCollector(l.config(), nil, nil)
					if err != nil {
						t.Error(err)
						return
					}
					for ctx.Err() == nil {
						next, _ := c.Collect(ctx) // fails as often as the connection does
						_ = pace.Sleep(ctx, next)
					}
				})
				slots.Wait()
				if stored < 100 || refused < 10 || lives < 6 {
					t.Errorf("%d writes were stored and %d refused in %d lives: the test shows nothing",
						stored, refused, lives)
				}
			})
		})
	}
}

func (l *link) config() *rest.Config {
	return &rest.Config{Host: "http://api", WrapTransport: func(http.RoundTripper) http.RoundTripper { return l }}
}

// live runs one process, with an ID that the processes before it had, until it crashes or is shut down.
func live(ctx context.Context, t *testing.T, m *memory, l *link, id string) (stored, refused int) {
	// a crashed process's requests stay with it
	l = &link{memory: m, random: rand.New(rand.NewPCG(uint64(l.chance(1<<30)), 0))}
	encoding := []schema.GroupVersion{v1, v2}[l.chance(2)]
	p, err := NewPublisher(Options{
		Component: "demo", ID: id, DrainTimeout: 30 * time.Second,
		Config:    l.config(),
		Resources: []Resource{{GroupResource: widgets, EncodingVersion: encoding}},
	})
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	life, end := context.WithTimeout(ctx, time.Duration(30+l.chance(300))*time.Second)
	defer end()
	var work sync.WaitGroup
	work.Go(func() { _ = p.Run(life) }) // an error tells that the server could not withdraw
	var mu sync.Mutex
	barrier := Barrier(p, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		longest := 3000
		if l.chance(4) == 0 {
			longest = 60_000
		}
		if pace.Sleep(r.Context(), time.Duration(l.chance(longest))*time.Millisecond) != nil {
			return
		}
		mu.Lock()
		stored++
		mu.Unlock()
		if got := m.entryOf(id); got != encoding.String() {
			t.Errorf("%s stored %s while it published %q", id, encoding, got)
		}
	}))
	work.Go(func() {
		for life.Err() == nil {
			if work.Go(func() {
				if send(barrier, http.MethodPost, collection).Code == http.StatusServiceUnavailable {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}); errors.Is(pace.Sleep(life, time.Duration(l.chance(2000))*time.Millisecond), context.Canceled) {
				return
			}
		}
	})
	work.Go(func() { // breaks last from moments to longer than a Lease
		for pace.Sleep(life, time.Duration(l.chance(90))*time.Second) == nil {
			l.set(true)
			_ = pace.Sleep(life, time.Duration(l.chance(120))*time.Second)
			l.set(l.chance(3) == 0 && life.Err() != nil) // one in three crashes: nothing is withdrawn
		}
	})
	work.Wait()
	return stored, refused
}

// Others may have dropped the entries in a gap, so what was confirmed before it does not count.
func TestAGapInRenewalsBeginsAnotherMembership(t *testing.T) {
	for gap, want := range map[time.Duration]bool{10 * time.Second: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{objects: map[string]map[string]any{}}
			p, err := NewPublisher(Options{
				Component: "demo", Resources: []Resource{{GroupResource: widgets, EncodingVersion: v1}},
				Config: m.config(nil),
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, joins := range []bool{true, false, want, false} {
				if i == 2 {
					time.Sleep(gap)
				}
				if _, joined, lost, err := p.leases.keep(t.Context()); joined != joins || lost || err != nil {
					t.Errorf("renewal %d, after a gap of %s before the third: joined %t, lost %t, %v", i,
						gap, joined, lost, err)
				}
			}
		})
	}
}
