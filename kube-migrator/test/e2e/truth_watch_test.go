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

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// truthWatch compares, many times a second for as long as a test lasts, what etcd holds of a resource with what is
// recorded of it: the invariants I1 and I2 as testbed.Truth.Violations has them. Violations fail the test.
//
// It raises no false alarm, however slow the machine is, because it judges no clock and nothing that it infers:
//
//   - Objects, StorageState and CustomResourceDefinition are read at one revision R of etcd. No write lies between
//     them.
//   - An object in version V at R was written by a process that writes V, at R or before. Either that process ended
//     before the comparison began; then a test that ends a process has waited before until the trigger had seen it
//     (known), so V was recorded while the process lived, and only a proof that nothing is stored in V may have removed
//     it since. Or the process lived during the comparison; then V is excused, as long as the StorageState at R does
//     not name V as the version of any server. Once it does, the trigger has seen V, and has to have recorded it.
//   - A process is taken to live from before it is started until after it has exited, so the excuse never lapses too
//     early.
//   - A custom resource is stored as its CustomResourceDefinition says. A generation of that is excused until the look
//     that is recorded has seen it or a later one: between the change and the record are two writes, of two processes.
//
// The settle time has to be twice the API servers' request timeout where servers are ended while others write: for a
// shorter one the product promises nothing.
type truthWatch struct {
	cluster *testbed.Cluster
	kind    testbed.Kind

	mu          sync.Mutex
	processes   []*writing
	moves       []*move
	comparisons int
	telling     int           // comparisons where Unknown was not claimed, which accounts for anything
	proven      int           // comparisons where Migrated was True
	mixed       int           // comparisons where etcd held more than one version
	apart       time.Duration // between the ends of two comparisons, at most
	violations  []string
}

// writing is a process that writes the resource.
type writing struct {
	server *testbed.Server
	hash   string
	ended  time.Time // zero while it lives
}

// move is a change of a CustomResourceDefinition's storage version.
type move struct {
	hash       string
	generation int64
}

// watchTruth begins; the test fails at its end if anything was wrong.
func watchTruth(t *testing.T, cluster *testbed.Cluster, kind testbed.Kind) *truthWatch {
	t.Helper()
	w := &truthWatch{cluster: cluster, kind: kind}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { w.sit(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
		t.Logf("%s: compared with etcd %d times, at most %s apart: %d times without Unknown, %d times migrated, %d "+
			"times with two versions in etcd",
			kind.Name(), w.comparisons, w.apart.Round(time.Millisecond), w.telling, w.proven, w.mixed)
		for _, v := range w.violations {
			t.Error(v)
		}
		if w.comparisons == 0 {
			t.Errorf("%s was never compared with etcd", kind.Name())
		}
	})
	return w
}

// begins notes that a server is about to be started that will write an apiVersion.
func (w *truthWatch) begins(s *testbed.Server, apiVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, &writing{server: s, hash: w.kind.Hash(apiVersion)})
}

// ended notes that a server's process has exited.
func (w *truthWatch) ended(s *testbed.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		if p.server == s && p.ended.IsZero() {
			p.ended = time.Now()
		}
	}
}

// moving changes the storage version of the widgets.
func (w *truthWatch) moving(t *testing.T, version string) {
	t.Helper()
	m := &move{hash: w.kind.Hash(w.kind.Group + "/" + version), generation: math.MaxInt64}
	w.mu.Lock()
	w.moves = append(w.moves, m)
	w.mu.Unlock()
	moveStorage(t, w.cluster, version)
	generation := widgetCRD(t, w.cluster).Generation
	w.mu.Lock()
	defer w.mu.Unlock()
	m.generation = generation
}

// more waits for some more comparisons.
func (w *truthWatch) more(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.comparisons
	}
	enough := count() + n
	eventually(t, fmt.Sprintf("%d more comparisons with etcd", n), func() bool { return count() >= enough })
}

func (w *truthWatch) sit(ctx context.Context) {
	var last time.Time
	for ctx.Err() == nil {
		begin := time.Now()
		if w.compare(ctx, begin) {
			w.mu.Lock()
			if !last.IsZero() {
				w.apart = max(w.apart, time.Since(last))
			}
			w.mu.Unlock()
			last = time.Now()
		}
		select {
		case <-time.After(max(50*time.Millisecond,
			4*time.Since(begin))): // thousands of objects are not compared without a pause
		case <-ctx.Done():
		}
	}
}

// compare reports whether it has compared anything: not before something is recorded, and not while etcd is away.
func (w *truthWatch) compare(ctx context.Context, begin time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	truth, err := w.cluster.Truth(ctx, w.kind)
	if err != nil || truth.Claimed == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.comparisons++
	if !slices.Contains(truth.Claimed, v1alpha1.Unknown) {
		w.telling++
	}
	if truth.Migrated {
		w.proven++
	}
	if len(truth.Held) > 1 {
		w.mixed++
	}
	for _, v := range truth.Violations(w.excused(begin, truth)...) {
		if len(w.violations) < 5 {
			w.violations = append(w.violations, fmt.Sprintf("%s %s, revision %d: %s", time.Now().Format("15:04:05.000"),
				w.kind.Name(), truth.Revision, v))
		}
	}
	return true
}

// excused are the hashes that something may have written since begin of which the trigger cannot know yet. It is called
// after etcd was read, so that what began before the reading is among them. The lock is held.
func (w *truthWatch) excused(begin time.Time, truth testbed.Truth) (hashes []string) {
	for _, p := range w.processes {
		if p.ended.IsZero() || p.ended.After(begin) {
			hashes = append(hashes, p.hash)
		}
	}
	for _, m := range w.moves {
		if truth.Generation < m.generation {
			hashes = append(hashes, m.hash)
		}
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// wantJudged expects that enough was compared for a violation to show: also without Unknown, which accounts for
// anything, after a proof, and while two versions were in etcd.
func (w *truthWatch) wantJudged(t *testing.T) {
	t.Helper()
	const least = 40 // the tests wait for as many (more)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.comparisons < least || w.telling == 0 || w.proven == 0 || w.mixed == 0 {
		t.Errorf("%s: %d comparisons with etcd, %d without Unknown, %d migrated, %d with two versions: want at least "+
			"%d, and some of each",
			w.kind.Name(), w.comparisons, w.telling, w.proven, w.mixed, least)
	}
}
