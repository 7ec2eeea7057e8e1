// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errWithdrawn is why the context of a write in flight is cancelled.
var errWithdrawn = errors.New("this server can no longer be sure that its StorageVersion entry stands")

// gate decides whether a write may begin, and counts the writes in flight.
//
// It upholds I1 for the server that it belongs to: a write begins only while the server's entry is known to stand.
// Another server drops an entry only after it has seen the Lease unchanged for the Lease's whole duration. The Lease's
// life is counted from before its last renewal was sent, the other server's observation from after the renewal was
// stored. So the gate closes first, whatever the clocks of the two machines show, and writes in flight are cancelled
// before the entry can be dropped.
type gate struct {
	// closeAfter is how long a confirmation lets writes begin, cancelAfter how long it lets them go on. Both are
	// shorter than the Lease's duration.
	closeAfter, cancelAfter time.Duration

	mu        sync.Mutex
	resources map[schema.GroupResource]*standing
	// member is when the last successful renewal of the Lease was started; zero while the server is not a member.
	member time.Time
	// generation counts the uninterrupted periods of membership.
	generation int
	closed     bool // for good
	inFlight   int
	drained    chan struct{} // closed once the gate is closed and no write is in flight
	// memberErr is why the server is not a member.
	memberErr error
}

// standing is what is known of the entry for one resource.
type standing struct {
	// confirmed is a moment at which the entry was not yet known to stand, and after which an answer showed that it
	// does; zero while it is not known to stand.
	confirmed time.Time
	err       error
	writes    map[*write]struct{}
}

// write is one request in flight.
type write struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func newGate(resources []schema.GroupResource, leaseDuration time.Duration) *gate {
	g := &gate{
		closeAfter:  leaseDuration * 2 / 3,
		cancelAfter: leaseDuration * 5 / 6,
		resources:   map[schema.GroupResource]*standing{},
		drained:     make(chan struct{}),
		memberErr:   errors.New("the publisher does not run"),
	}
	for _, r := range resources {
		g.resources[r] = &standing{writes: map[*write]struct{}{}, err: errors.New("not published yet")}
	}
	return g
}

// joined notes that the server is a member again. What was confirmed in an earlier period of membership no longer
// counts.
func (g *gate) joined(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(nil)
	g.generation++
	g.member = at
}

// renewed notes that the membership goes on.
func (g *gate) renewed(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.member, g.memberErr = at, nil
}

// left notes that the Lease is lost: entries may be dropped at any moment.
func (g *gate) left(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(why)
}

func (g *gate) leaveLocked(why error) {
	g.member, g.memberErr = time.Time{}, why
	for _, s := range g.resources {
		g.revokeLocked(s, errors.New("not published yet"))
	}
}

// blamed notes why the Lease could not be renewed. The last renewal still counts for as long as it counts.
func (g *gate) blamed(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.memberErr = why
}

// period returns the present period of membership; 0 while the server is not a member.
func (g *gate) period() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.member.IsZero() || possibly(g.member) >= g.closeAfter {
		return 0
	}
	return g.generation
}

// confirm notes that the entry stands: an answer to a request that was started at that moment shows it.
func (g *gate) confirm(r schema.GroupResource, at time.Time, generation int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if generation != g.generation || g.member.IsZero() {
		return
	}
	s := g.resources[r]
	s.confirmed, s.err = at, nil
}

// revoke notes that the entry does not stand.
func (g *gate) revoke(r schema.GroupResource, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revokeLocked(g.resources[r], why)
}

func (g *gate) revokeLocked(s *standing, why error) {
	s.confirmed, s.err = time.Time{}, why
	for w := range s.writes {
		w.cancel(errWithdrawn)
	}
}

// doubt notes why the entry could not be looked at. The last confirmation still counts for as long as it counts.
func (g *gate) doubt(r schema.GroupResource, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resources[r].err = why
}

// rest returns for how long a standing entry counts on: the shorter of the Lease's and the confirmation's rest.
func (g *gate) rest(s *standing, limit time.Duration) time.Duration {
	if g.member.IsZero() || s.confirmed.IsZero() {
		return 0
	}
	return limit - max(possibly(g.member), possibly(s.confirmed))
}

// knows reports whether the resource is one whose writes wait for its entry.
func (g *gate) knows(r schema.GroupResource) bool {
	_, ok := g.resources[r] // never changed after newGate
	return ok
}

// checkLocked returns why writes to a resource may not begin.
func (g *gate) checkLocked(r schema.GroupResource) error {
	s := g.resources[r]
	switch {
	case g.closed:
		return errors.New("this server is shutting down")
	case g.rest(s, g.closeAfter) > 0:
		return nil
	}
	why := s.err
	if g.memberErr != nil {
		why = g.memberErr
	}
	if why == nil {
		why = errors.New("it was not confirmed lately")
	}
	return fmt.Errorf("the StorageVersion entry of %s is not known to stand: %w", r, why)
}

// enter lets a write begin. Its context ends when the entry no longer counts; leave says that the write has finished.
func (g *gate) enter(ctx context.Context, r schema.GroupResource) (_ context.Context, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkLocked(r); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s, w := g.resources[r], &write{cancel: cancel}
	s.writes[w] = struct{}{}
	g.inFlight++
	w.timer = time.AfterFunc(g.rest(s, g.cancelAfter), func() { g.expire(s, w) })
	return ctx, func() { g.leave(s, w) }, nil
}

// expire cancels a write whose entry has not been confirmed in time.
func (g *gate) expire(s *standing, w *write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := s.writes[w]; !ok {
		return
	}
	if rest := g.rest(s, g.cancelAfter); rest > 0 {
		w.timer.Reset(rest)
		return
	}
	w.cancel(errWithdrawn)
}

func (g *gate) leave(s *standing, w *write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.timer.Stop()
	w.cancel(nil)
	delete(s.writes, w)
	g.inFlight--
	g.drainLocked()
}

// close lets no write begin any more. The channel is closed when none is in flight.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.drainLocked()
	return g.drained
}

func (g *gate) drainLocked() {
	if !g.closed || g.inFlight > 0 {
		return
	}
	select {
	case <-g.drained:
	default:
		close(g.drained)
	}
}

// cancelWrites cancels the writes in flight, and returns how many there are.
func (g *gate) cancelWrites() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.resources {
		for w := range s.writes {
			w.cancel(errWithdrawn)
		}
	}
	return g.inFlight
}

// pending returns why writes may not begin, of one resource for all, and how many resources wait.
func (g *gate) pending() (count int, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range slices.SortedFunc(maps.Keys(g.resources), byName) {
		if err := g.checkLocked(r); err != nil {
			count++
			if why == nil {
				why = err
			}
		}
	}
	return count, why
}

// possibly returns the longest time that may have passed since t. The monotonic clock stands still while a machine
// sleeps, and the wall clock may be set back.
func possibly(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// surely returns the shortest time that may have passed since t.
func surely(t time.Time) time.Duration {
	now := time.Now()
	return min(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
