// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
)

const (
	lookDeadline = 10 * time.Second // how long one look may take
	mostClients  = 16               // that follow events at one time
	// backlog is how many updates a client may be behind before it is dropped. It then connects again, and starts with
	// the whole page.
	backlog = 4
)

// board holds the latest page. All clients share its looks at the cluster, and without clients there is none.
type board struct {
	// look calls Options.Look. It ends with the board, and not with the client for which it began, as others wait for it.
	look  func() (page.View, page.Trouble, error)
	every time.Duration
	// turn is held during a look, so that there is one at a time.
	turn chan struct{}
	// arrived is signalled when a client begins to follow.
	arrived chan struct{}

	mu      sync.Mutex
	view    page.View
	parts   page.Parts
	taken   time.Time
	clients map[*client]bool
}

// client follows the changes of the page. updates is closed when the client is dropped.
type client struct{ updates chan page.Parts }

// newBoard returns a board whose looks end with the context.
func newBoard(ctx context.Context, o Options) *board {
	look := func() (page.View, page.Trouble, error) {
		looking, cancel := context.WithTimeout(ctx, lookDeadline)
		defer cancel()
		view, trouble := o.Look(looking)
		return view, trouble, ctx.Err()
	}
	return &board{look: look, every: o.Every, turn: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		view: o.Blank, parts: page.PartsOf(o.Blank), clients: map[*client]bool{}}
}

// run looks at the cluster for as long as anyone follows, until the context ends.
func (b *board) run(ctx context.Context) {
	for {
		select {
		case <-b.arrived:
		case <-ctx.Done():
			return
		}
		for b.followers() > 0 {
			if b.renew(ctx) != nil || pace.Sleep(ctx, b.every) != nil {
				return
			}
		}
	}
}

func (b *board) followers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients)
}

// latest returns the latest page, which is never older than one interval.
func (b *board) latest(ctx context.Context) (page.View, error) {
	if err := b.renew(ctx); err != nil {
		return page.View{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view, nil
}

// renew looks at the cluster, unless that was done within the last interval. Its error is that of the context, or of the
// board's.
func (b *board) renew(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b.mu.Lock()
	taken, view := b.taken, b.view
	b.mu.Unlock()
	if !taken.IsZero() && time.Since(taken) < b.every {
		return nil
	}
	next, trouble, err := b.look()
	if err != nil {
		return err
	}
	if trouble.Error != "" {
		if trouble.Since = view.Trouble.Since; trouble.Since.IsZero() {
			trouble.Since = time.Now()
		}
		next, next.Trouble = view, trouble
	}
	b.publish(next)
	return nil
}

// publish replaces the page, and sends what differs to all clients. It drops those that do not keep up.
func (b *board) publish(view page.View) {
	parts := page.PartsOf(view)
	b.mu.Lock()
	defer b.mu.Unlock()
	changed, differs := parts.Since(b.parts)
	b.view, b.parts, b.taken = view, parts, time.Now()
	if !differs {
		return
	}
	for c := range b.clients {
		select {
		case c.updates <- changed:
		default:
			delete(b.clients, c)
			close(c.updates)
		}
	}
}

// follow adds a client, whose first update is the whole page. It returns nil if there are too many.
func (b *board) follow() *client {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.clients) >= mostClients {
		return nil
	}
	c := &client{updates: make(chan page.Parts, backlog)}
	c.updates <- b.parts
	b.clients[c] = true
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	return c
}

// leave removes a client.
func (b *board) leave(c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.clients, c)
}
