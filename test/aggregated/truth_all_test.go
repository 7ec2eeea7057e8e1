// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package aggregated

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// watcher follows etcd, revision by revision.
type watcher struct {
	fleet *fleet
	// publishing: the replicas publish, and every write is compared with what its replica publishes.
	publishing bool

	truth testbed.Truth
	// stored is the apiVersion of each object, by key; entries are what replicas publish, by ID.
	stored, entries map[string]string
	// last is when a version was last known to be written, by apiVersion: the trigger may not have seen it yet.
	last              map[string]time.Time
	known             bool           // there is a StorageState
	writes, writers   map[string]int // by apiVersion, and by ID
	removed           map[string]int // how often an entry was removed, by ID
	mu                sync.Mutex
	problems          []string
	looked, published int
}

// watch follows etcd until stop is called, which fails the test if anything was wrong.
func (f *fleet) watch(publishing bool) (w *watcher, stop func()) {
	f.Helper()
	w = &watcher{fleet: f, publishing: publishing, truth: testbed.NewTruth(gears), stored: map[string]string{},
		entries: map[string]string{}, last: map[string]time.Time{}, writes: map[string]int{},
		writers: map[string]int{}, removed: map[string]int{}}
	ctx, cancel := context.WithCancel(f.Context())
	begun, err := f.cluster.Etcd.Client().Get(ctx, "/")
	if err != nil {
		f.Fatal(err)
	}
	for _, prefix := range []string{recorded, gears.Prefix} {
		err := f.cluster.EachRaw(ctx, prefix, func(key string, value []byte, revision int64) {
			if revision <= begun.Header.Revision {
				w.note(key, value, revision)
			}
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	events := f.cluster.Etcd.Client().Watch(ctx, "/registry/", clientv3.WithPrefix(),
		clientv3.WithRev(begun.Header.Revision+1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for answer := range events {
			for _, e := range answer.Events {
				w.note(string(e.Kv.Key), e.Kv.Value, e.Kv.ModRevision)
			}
		}
	}()
	end := sync.OnceFunc(func() { cancel(); <-done })
	f.whole.Cleanup(end)
	return w, func() {
		f.Helper()
		end()
		for i, p := range w.problems {
			if i < 10 {
				f.Error(p)
			}
		}
		f.Logf("%d writes by version %v, %d changes of the StorageVersion, %d of the StorageState, %d problems",
			len(w.stored), w.writes, w.published, w.looked, len(w.problems))
	}
}

// note takes one event. A deleted key has no value.
func (w *watcher) note(key string, value []byte, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	problem := func(format string, arguments ...any) {
		w.problems = append(w.problems, fmt.Sprintf("revision %d: ", revision)+fmt.Sprintf(format, arguments...))
	}
	switch {
	case key == published:
		w.published++
		w.publish(value, problem)
	case key == recorded:
		w.looked++
		w.truth.Claimed, w.known = nil, len(value) > 0
		if w.known {
			if err := w.truth.ReadState(value); err != nil {
				problem("%v", err)
			}
		}
	case strings.HasPrefix(key, gears.Prefix):
		w.write(key, value, problem)
	default:
		return
	}
	if !w.known || len(w.truth.Claimed) == 0 {
		return
	}
	// What is published is shown (I1). What was written after the recorded look began, it could not see.
	var excused []string
	for version, at := range w.last {
		if at.After(w.truth.Heartbeat.Add(-time.Second)) {
			excused = append(excused, gears.Hash(version))
		}
	}
	for _, version := range w.entries {
		excused = append(excused, gears.Hash(version))
	}
	for _, violation := range w.truth.Violations(excused...) {
		problem("%s", violation)
	}
}

func (w *watcher) publish(value []byte, problem func(string, ...any)) {
	if !w.publishing {
		return
	}
	before := maps.Clone(w.entries)
	for _, version := range before {
		w.last[version] = time.Now()
	}
	clear(w.entries)
	defer func() {
		for id := range before {
			if _, stays := w.entries[id]; !stays {
				w.removed[id]++
			}
		}
	}()
	if len(value) == 0 {
		return
	}
	var o struct {
		Status struct {
			StorageVersions []struct{ APIServerID, EncodingVersion string }
		}
	}
	if err := json.Unmarshal(value, &o); err != nil {
		problem("%v", err)
	}
	for _, e := range o.Status.StorageVersions {
		w.entries[e.APIServerID] = e.EncodingVersion
	}
}

func (w *watcher) write(key string, value []byte, problem func(string, ...any)) {
	if old := w.stored[key]; old != "" {
		if w.truth.Held[old]--; w.truth.Held[old] == 0 {
			delete(w.truth.Held, old)
		}
		delete(w.stored, key)
	}
	if len(value) == 0 {
		return
	}
	var g struct{ APIVersion, StoredBy string }
	if err := json.Unmarshal(value, &g); err != nil {
		problem("%v", err)
	}
	w.stored[key] = g.APIVersion
	w.truth.Held[g.APIVersion]++
	w.writes[g.APIVersion]++
	w.writers[g.StoredBy]++
	w.last[g.APIVersion] = time.Now()
	if w.publishing && w.entries[g.StoredBy] != g.APIVersion {
		problem("%s stored %s as %s while it published %q", g.StoredBy, key, g.APIVersion, w.entries[g.StoredBy])
	}
}

// entry is what a replica publishes; empty: nothing.
func (w *watcher) entry(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[id]
}

// writesBy counts the writes of a replica.
func (w *watcher) writesBy(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writers[id]
}

// removals is how often the entry of a replica was removed.
func (w *watcher) removals(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed[id]
}

// held counts the objects by apiVersion.
func (w *watcher) held(version string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.truth.Held[version]
}

// publishers is how many replicas publish.
func (w *watcher) publishers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

// doubted reports whether the record has another version than the one, or doubts it.
func (w *watcher) doubted(version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.Equal(w.truth.Claimed, []string{gears.Hash(version)})
}

// shows notes what a replica that does not publish shows in its discovery; empty: it has ended.
func (w *watcher) shows(id, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.entries[id]; was != "" {
		w.last[was] = time.Now()
	}
	delete(w.entries, id)
	if version != "" {
		w.entries[id] = version
	}
}
