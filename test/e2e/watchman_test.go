// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// watchman compares, more than ten times a second for as long as a test lasts, what etcd holds with what the StorageState says and the
// live servers show (I1), and once every server has run for 5 seconds, with the StorageState alone.
type watchman struct {
	cluster *testbed.Cluster
	kind    testbed.Kind

	mu    sync.Mutex
	since map[*testbed.Server]time.Time // it has run; zero while it starts
	looks int
	worst time.Duration // between two looks
	lies  []string
	// passed is what a server showed that has died within 5 seconds of its start, and until when nobody has to have recorded it.
	passed      string
	passedUntil time.Time
	moves       []*move
}

// move is a change of the definition's storage version.
type move struct {
	hash       string
	generation int64
}

// alone is when a StorageState has to account for what a new server writes.
const alone = 5 * time.Second

// watchTruth begins; the returned function ends it and fails the test for every lie.
func watchTruth(t *testing.T, cluster *testbed.Cluster, kind testbed.Kind) *watchman {
	t.Helper()
	w := &watchman{cluster: cluster, kind: kind, since: map[*testbed.Server]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { w.patrol(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
		t.Logf("%s: %d looks, at most %s apart", kind.Name(), w.looks, w.worst.Round(time.Millisecond))
		for _, lie := range w.lies {
			t.Error(lie)
		}
		if w.looks == 0 {
			t.Error("nobody looked")
		}
	})
	return w
}

// starting notes that a server is about to be started, or started anew.
func (w *watchman) starting(s *testbed.Server) { w.mark(s, time.Time{}) }

// started notes that a server has been started.
func (w *watchman) started(s *testbed.Server) { w.mark(s, time.Now()) }

// passes notes that a server is about to show a version and die: what it wrote has to be recorded 5 seconds after it started.
func (w *watchman) passes(hash string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed, w.passedUntil = hash, time.Now().Add(alone)
}

// moving changes the storage version of the widgets, and then writes something. The change and its record are two writes: what is
// written in between has to be accounted for by the first record of a look that saw the change.
func (w *watchman) moving(t *testing.T, version string) {
	t.Helper()
	m := &move{hash: w.kind.Hash(w.kind.Group + "/" + version), generation: math.MaxInt64}
	w.mu.Lock()
	w.moves = append(w.moves, m)
	w.mu.Unlock()
	moveStorage(t, w.cluster, version)
	generation := definitionOf(t, w.cluster).Generation
	w.mu.Lock()
	defer w.mu.Unlock()
	m.generation = generation
}

func (w *watchman) mark(s *testbed.Server, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since[s] = at
}

func (w *watchman) patrol(ctx context.Context) {
	var last time.Time
	for ctx.Err() == nil {
		begin := time.Now()
		if err := w.look(ctx); err == nil {
			w.mu.Lock()
			w.looks++
			if !last.IsZero() {
				w.worst = max(w.worst, time.Since(last))
			}
			w.mu.Unlock()
			last = time.Now()
		}
		select {
		case <-time.After(max(0, 60*time.Millisecond-time.Since(begin))):
		case <-ctx.Done():
		}
	}
}

// look asks the servers before and after it reads etcd: one that died in between has shown what it wrote.
func (w *watchman) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	begin := time.Now()
	shown := w.shown(ctx)
	truth, err := w.cluster.Truth(ctx, w.kind)
	if err != nil || truth.Claimed == nil {
		return err // before anything is claimed
	}
	shown = append(shown, w.shown(ctx)...)
	var unseen []string
	settled := true
	w.mu.Lock()
	for _, m := range w.moves {
		if truth.Generation < m.generation {
			unseen = append(unseen, m.hash)
		}
	}
	if begin.Before(w.passedUntil) {
		shown = append(shown, w.passed)
	}
	for _, at := range w.since {
		settled = settled && !at.IsZero() && begin.Sub(at) > alone
	}
	w.mu.Unlock()
	if lies := truth.Uncovered(slices.Concat(shown, unseen)...); len(lies) > 0 {
		w.lie("etcd holds %v at revision %d as %v; the StorageState claims %v, the servers show %v", lies, truth.Revision, truth.Held, truth.Claimed, shown)
	} else if lies := truth.Uncovered(unseen...); settled && len(lies) > 0 {
		w.lie("%s after the last start, etcd holds %v; the StorageState alone claims %v", alone, lies, truth.Claimed)
	}
	return nil
}

func (w *watchman) lie(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lies) < 5 {
		w.lies = append(w.lies, time.Now().Format("15:04:05.000 ")+w.kind.Name()+": "+fmt.Sprintf(format, arguments...))
	}
}

// shown is what the live servers show now.
func (w *watchman) shown(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var (
		mu   sync.Mutex
		all  []string
		work sync.WaitGroup
	)
	for _, s := range w.cluster.Servers {
		work.Go(func() {
			if hash, err := s.Shows(ctx, w.kind); err == nil && hash != "" {
				mu.Lock()
				all = append(all, hash)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	slices.Sort(all)
	return slices.Compact(all)
}
