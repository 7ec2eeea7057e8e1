// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package storageversion

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// collected is a memory, with a Collector that looks at it again and again.
type collected struct {
	*memory
	t *testing.T
}

func collecting(t *testing.T) *collected {
	t.Helper()
	c := &collected{t: t, memory: &memory{objects: map[string]map[string]any{}}}
	collector, err := NewCollector(c.config(nil), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for t.Context().Err() == nil {
			next, err := collector.Collect(t.Context())
			if err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
			_ = pace.Sleep(t.Context(), next)
		}
	}()
	return c
}

// start runs a publisher of widgets until its context ends. cut breaks its connection.
func (c *collected) start(ctx context.Context, id, namespace string) (p *Publisher, cut *atomic.Bool) {
	c.t.Helper()
	cut = &atomic.Bool{}
	p, err := NewPublisher(Options{
		Component: "demo", ID: id, Namespace: namespace, LeaseDuration: 20 * time.Second,
		Resources: []Resource{{GroupResource: widgets, EncodingVersion: v1}},
		Config: c.config(func(*http.Request) error {
			if cut.Load() {
				return errCut
			}
			return nil
		}),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	c.t.Cleanup(func() {
		if err := <-ran; err != nil {
			c.t.Logf("the publisher ended: %v", err) // where it was cut
		}
	})
	for p.Check(nil) != nil {
		time.Sleep(100 * time.Millisecond)
	}
	return p, cut
}

func TestTheEntryOfACrashedServerGoesInTime(t *testing.T) {
	for phase := time.Duration(0); phase < 12*time.Second; phase += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := collecting(t)
			time.Sleep(phase % (5 * time.Second))
			p, cut := c.start(t.Context(), "crashes", "")
			time.Sleep(phase)
			cut.Store(true)
			crashed := time.Now()
			for c.entryOf("crashes") != "" {
				if after := time.Since(crashed); after > 30*time.Second {
					t.Fatalf("phase %s: the entry is still there %s after the crash", phase, after)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if p.Check(nil) == nil {
				t.Errorf("phase %s: the entry was removed while its server took writes", phase)
			}
		})
	}
}

func TestTheEntryOfAServerThatReturnsInTimeStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := collecting(t)
		_, cut := c.start(t.Context(), "returns", "")
		for range 20 {
			cut.Store(true)
			for end := time.Now().Add(16 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if c.entryOf("returns") == "" {
					t.Fatal("the entry was removed before the Lease had expired")
				}
			}
			cut.Store(false)
			time.Sleep(4 * time.Second)
		}
	})
}

// The Lease of a server may be in any namespace, and its times may be those of a clock that is wrong by hours.
func TestEntriesOfServersWithOtherLeasesStay(t *testing.T) {
	for _, namespace := range []string{"", "other-namespace"} {
		synctest.Test(t, func(t *testing.T) {
			c := collecting(t)
			c.start(t.Context(), "other", namespace)
			for range 100 {
				c.mu.Lock()
				for path, o := range c.objects {
					if strings.HasSuffix(path, "/leases/other") {
						o["spec"].(map[string]any)["renewTime"] = "2020-01-01T00:00:00.000000Z"
					}
				}
				c.mu.Unlock()
				if c.entryOf("other") == "" {
					t.Fatalf("the entry of the server with a Lease in %q was removed", namespace)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A process with the ID of a crashed one starts between any two requests of the pass that removes the crashed one's
// entry.
func TestTheEntryOfAServerThatStartsMeanwhileStays(t *testing.T) {
	met := map[string]bool{}
	for at := range 6 {
		synctest.Test(t, func(t *testing.T) {
			c := &collected{t: t, memory: &memory{objects: map[string]map[string]any{}}}
			_, cut := c.start(t.Context(), "same", "")
			cut.Store(true)
			c.mu.Lock()
			for path := range c.objects { // an administrator deletes it
				if strings.HasSuffix(path, "/leases/same") {
					delete(c.objects, path)
				}
			}
			c.mu.Unlock()
			request := 0
			collector, err := NewCollector(c.config(func(r *http.Request) error {
				if request == at {
					met[r.Method] = true
					c.start(t.Context(), "same", "")
				}
				request++
				return nil
			}), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = collector.Collect(t.Context()) // a conflict is an error
			if at < request && c.entryOf("same") == "" {
				t.Errorf("the entry of a server that started before request %d was removed", at)
			}
			if _, err := collector.Collect(t.Context()); err != nil || at < request && c.entryOf("same") == "" {
				t.Errorf("the next pass removed the entry, or failed: %v", err)
			}
		})
	}
	if !met[http.MethodPut] || !met[http.MethodGet] {
		t.Errorf("servers started only before %v", met)
	}
}

// The entry of a crashed server may be the only trace of what it wrote, until someone has recorded that.
func TestNothingIsRemovedBeforeItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collected{t: t, memory: &memory{objects: map[string]map[string]any{}}}
		path := MigrationAPI.path() + "/" + ObjectName(widgets)
		state := func() string {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.objects[path] == nil {
				return ""
			}
			m := c.objects[path]["metadata"].(map[string]any)
			uid, _ := m["uid"].(string)
			return fmt.Sprint(uid, "/", m["resourceVersion"])
		}
		_, cut := c.start(t.Context(), "crashes", "")
		recorded := ""
		collector, err := NewCollector(c.config(nil), func(r schema.GroupResource, state string) bool {
			return r == widgets && state == recorded
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		collect := func(least time.Duration) {
			for end := time.Now().Add(least); !time.Now().After(end); {
				next, err := collector.Collect(t.Context())
				if err != nil {
					t.Error(err)
				}
				if next > collectEvery {
					t.Errorf("the next pass is after %s", next)
				}
				time.Sleep(next)
			}
		}
		before := state()
		cut.Store(true)
		collect(time.Minute)
		if c.entryOf("crashes") == "" || state() != before {
			t.Fatal("the entry was removed before it was recorded")
		}
		recorded = before
		collect(2 * collectSoon)
		if c.entryOf("crashes") != "" {
			t.Fatal("the entry is still there after it was recorded")
		}
		collect(2 * emptyFor)
		if state() == "" {
			t.Fatal("the object without entries was removed before it was recorded")
		}
		recorded = state()
		collect(2 * collectEvery)
		if state() != "" {
			t.Error("the object without entries is still there after it was recorded")
		}
	})
}

func TestAnObjectWithoutEntriesGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := collecting(t)
		ctx, stop := context.WithCancel(t.Context())
		c.start(ctx, "leaves", "")
		stop()
		for c.entryOf("leaves") != "" {
			time.Sleep(time.Second)
		}
		path, emptied := MigrationAPI.path()+"/"+ObjectName(widgets), time.Now()
		exists := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.objects[path] != nil
		}
		for exists() {
			time.Sleep(time.Second)
			if time.Since(emptied) > 2*emptyFor {
				t.Fatal("the object is still there")
			}
		}
		if time.Since(emptied) < emptyFor {
			t.Errorf("the object was removed after %s", time.Since(emptied))
		}
		// A server finds it gone between reading and writing it.
		var removed atomic.Bool
		p, err := NewPublisher(Options{
			Component: "demo", Resources: []Resource{{GroupResource: widgets, EncodingVersion: v1}},
			Config: c.config(func(r *http.Request) error {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/status") && !removed.Swap(true) {
					c.mu.Lock()
					defer c.mu.Unlock()
					delete(c.objects, path)
				}
				return nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err = p.leases.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.gate.joined(time.Now())
		if err := p.entries.pass(t.Context()); err != nil || c.entryOf(p.ID()) != fmt.Sprint(v1) {
			t.Errorf("published %q: %v", c.entryOf(p.ID()), err)
		}
	})
}
