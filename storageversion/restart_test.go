// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package storageversion

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A process that crashed is started again with the same ID on the same host, at any moment within the Lease's duration.
// The entry stays, and is that of the earlier process for as long as that may write.
func TestTheEntryOfAServerThatRestartsInTimeStays(t *testing.T) {
	for after := 100 * time.Millisecond; after < 16*time.Second; after += 1700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c := collecting(t)
			c.start(t.Context(), "another", "")
			before, cut := c.start(t.Context(), "restarts", "")
			time.Sleep(after)
			cut.Store(true) // to the API server; it goes on to write for as long as it may
			time.Sleep(after)
			next, err := NewPublisher(Options{
				Component: "demo", ID: "restarts", LeaseDuration: 20 * time.Second, Config: c.config(nil),
				Resources: []Resource{{GroupResource: widgets, EncodingVersion: v2}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- next.Run(ctx) }()
			for begun := time.Now(); next.Check(nil) != nil; time.Sleep(100 * time.Millisecond) {
				switch entry := c.entryOf("restarts"); {
				case entry == "":
					t.Fatalf("%s after the crash the entry was removed", after)
				case entry != v1.String() && before.Check(nil) == nil:
					t.Fatalf("the entry is of %s while the earlier process takes writes", entry)
				case time.Since(begun) > 30*time.Second:
					t.Fatalf("the next process is not ready: %v", next.Check(nil))
				}
			}
			if entry := c.entryOf("restarts"); entry != v2.String() || before.Check(nil) == nil {
				t.Errorf("the next process takes writes of v2, the entry is %s, and the earlier one: %v", entry,
					before.Check(nil))
			}
			stop()
			if err := <-ran; err != nil || c.entryOf("restarts") != "" {
				t.Errorf("it withdrew: %v, %q", err, c.entryOf("restarts"))
			}
		})
	}
}

// A process that ends before it has taken over from an earlier one withdraws nothing: that one may still write.
func TestAProcessThatWaitsForAnEarlierOneWithdrawsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := collecting(t)
		before, cut := c.start(t.Context(), "restarts", "")
		cut.Store(true)
		for range 2 { // the second waits for the first as long as the Lease of the crashed one said
			next, err := NewPublisher(Options{
				Component: "demo", ID: "restarts", LeaseDuration: 3 * time.Second, Config: c.config(nil),
				Resources: []Resource{{GroupResource: widgets, EncodingVersion: v2}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
			if err := next.Run(ctx); err != nil {
				t.Error(err)
			}
			stop()
			if entry := c.entryOf("restarts"); entry != v1.String() {
				t.Errorf("the entry is %q, and the earlier process: %v", entry, before.Check(nil))
			}
		}
	})
}
