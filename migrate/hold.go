// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"sync"
	"time"
)

// maxHold bounds how long writes wait. An API server that died no longer counts as live when its identity Lease has not
// been renewed for a minute. One that lives and cannot be reached must not stop the sweep indefinitely.
const maxHold = 90 * time.Second

// hold makes writes wait while it is closed. The zero value is open.
type hold struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open; closing the channel lets all writes continue
	timer  *time.Timer
	spent  bool // it was closed for maxHold, and stays open until open is called
}

// close makes wait block, for at most maxHold. It reports whether the hold was open before.
func (h *hold) close() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil || h.spent {
		return false
	}
	closed := make(chan struct{})
	h.closed = closed
	h.timer = time.AfterFunc(maxHold, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.closed == closed {
			h.release()
			h.spent = true
		}
	})
	return true
}

// isClosed reports whether writes have to wait.
func (h *hold) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed != nil
}

// open lets all writes continue.
func (h *hold) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.release()
	h.spent = false
}

func (h *hold) release() {
	if h.closed != nil {
		close(h.closed)
		h.timer.Stop()
		h.closed = nil
	}
}

// wait returns when the hold is open, or with the cause of the context's cancellation.
func (h *hold) wait(ctx context.Context) error {
	for {
		h.mu.Lock()
		closed := h.closed
		h.mu.Unlock()
		if closed == nil {
			return nil
		}
		select {
		case <-closed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
