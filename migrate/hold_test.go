// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWritingWaitsWhileTheHoldIsClosedButNotIndefinitely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hold
		waits := func() time.Duration {
			begin := time.Now()
			if err := h.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		if d := waits(); d != 0 {
			t.Errorf("waited %v while open", d)
		}
		if !h.close() || h.close() {
			t.Error("close says it was open twice")
		}
		time.AfterFunc(5*time.Second, h.open)
		if d := waits(); d != 5*time.Second {
			t.Errorf("waited %v, want until it was opened", d)
		}
		h.close()
		if d := waits(); d != maxHold {
			t.Errorf("waited %v, want at most %v", d, maxHold)
		}
		if h.close() || waits() != 0 {
			t.Error("closed again without an answer in between")
		}
		h.open()
		h.close()
		cause := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := h.wait(ctx); !errors.Is(err, cause) {
			t.Errorf("error %v, want the cause", err)
		}
		h.open()
	})
}
