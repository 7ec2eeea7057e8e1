// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"slices"
	"sync"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// joined lets callers share looks. A caller needs a look that begins after its call: while one runs, all callers wait
// for the next one together. The mutex guards the fields of the looks, too.
type joined struct {
	mu      sync.Mutex
	running bool
	next    *shared
}

// shared is one look for several resources.
type shared struct {
	look.Scope
	// waiting are those who want its result; without any, it is cancelled.
	waiting int
	context context.Context //nolint:containedctx // the look belongs to all who wait, and to none of their contexts
	cancel  context.CancelFunc
	// done is closed when snapshot and err are set.
	done     chan struct{}
	snapshot snapshot.Snapshot
	err      error
}

// join looks at the servers of a resource. The look begins after the call; it may serve others too. Resources of
// kube-apiservers share their looks, and so do those of one aggregated group: a look waits for all servers that it
// asks, and a sweep must not wait for the servers of others.
func (o *Observer) join(ctx context.Context, target migrate.Target) (snapshot.Snapshot, error) {
	key := ""
	if target.Origin == migrate.Aggregated {
		key = target.Resource.Group
	}
	o.mu.Lock()
	j := o.joined[key]
	if j == nil {
		j = new(joined)
		o.joined[key] = j
	}
	o.mu.Unlock()

	s := j.add(ctx, target, o.looker.Look)
	select {
	case <-s.done:
		return s.snapshot, s.err
	case <-ctx.Done():
		j.leave(s)
		return snapshot.Snapshot{}, context.Cause(ctx)
	}
}

// add returns the next look, with the resource in its scope. If no look runs, it begins.
func (j *joined) add(ctx context.Context, target migrate.Target,
	gather func(context.Context, look.Scope) (snapshot.Snapshot, error)) *shared {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.next == nil {
		j.next = &shared{done: make(chan struct{})}
		j.next.context, j.next.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	s := j.next
	s.waiting++
	if !slices.Contains(s.Targets, target) {
		s.Targets = append(s.Targets, target)
	}
	if !j.running {
		j.begin(gather)
	}
	return s
}

// begin starts the next look, and the one after it when that has ended.
func (j *joined) begin(gather func(context.Context, look.Scope) (snapshot.Snapshot, error)) {
	s := j.next
	j.next, j.running = nil, s != nil
	if s == nil {
		return
	}
	go func() {
		defer s.cancel()
		s.snapshot, s.err = gather(s.context, s.Scope)
		close(s.done)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.begin(gather)
	}()
}

// leave says that a caller waits no longer.
func (j *joined) leave(s *shared) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s.waiting--; s.waiting > 0 {
		return
	}
	s.cancel()
	if j.next == s { // those who come later need one that is not cancelled
		j.next = nil
	}
}
