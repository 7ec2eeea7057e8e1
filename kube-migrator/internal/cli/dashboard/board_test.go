// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
)

// counted runs a board in virtual time, whose looks take a second and show how many there were.
func counted(t *testing.T, test func(t *testing.T, b *board, looks func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		n := 0
		b := newBoard(ctx, Options{Blank: blank("nothing"), Every: 2 * time.Second,
			Look: func(context.Context) (page.View, page.Trouble) {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				n++
				return blank(fmt.Sprint("look ", n)), page.Trouble{}
			}})
		done := make(chan struct{})
		go func() { defer close(done); b.run(ctx) }()
		test(t, b, func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return n
		})
		cancel()
		<-done
	})
}

func TestAllClientsShareOneLookAndWithoutClientsThereIsNone(t *testing.T) {
	counted(t, func(t *testing.T, b *board, looks func() int) {
		time.Sleep(time.Hour)
		if n := looks(); n != 0 {
			t.Errorf("%d looks although no one follows", n)
		}
		var all []*client
		for range mostClients {
			all = append(all, b.follow())
		}
		for _, c := range all {
			go func() {
				for range c.updates {
				}
			}()
		}
		time.Sleep(30 * time.Second)
		if n := looks(); n < 8 || n > 15 {
			t.Errorf("%d looks in 30 seconds, want one every two or three", n)
		}
		if b.follow() != nil {
			t.Error("one client too many may follow")
		}
		for _, c := range all {
			b.leave(c)
			close(c.updates)
		}
		time.Sleep(10 * time.Second)
		before := looks()
		time.Sleep(time.Hour)
		if n := looks(); n != before {
			t.Errorf("%d looks after everyone left", n-before)
		}
	})
}

func TestPagesThatAreLoadedTogetherShareALook(t *testing.T) {
	counted(t, func(t *testing.T, b *board, looks func() int) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if v, err := b.latest(context.WithoutCancel(t.Context())); err != nil || v.Sentence != "look 1" {
					t.Errorf("got %q, %v", v.Sentence, err)
				}
			})
		}
		all.Wait()
		if n := looks(); n != 1 {
			t.Errorf("%d looks, want 1", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.turn <- struct{}{} // someone else looks
		if _, err := b.latest(ctx); err == nil {
			t.Error("a client that is gone still waits")
		}
		<-b.turn
	})
}

func TestAClientThatDoesNotReadIsDropped(t *testing.T) {
	counted(t, func(t *testing.T, b *board, _ func() int) {
		slow := b.follow()
		time.Sleep(time.Minute)
		if n := b.followers(); n != 0 {
			t.Fatalf("%d clients follow, want none", n)
		}
		got := 0
		for range slow.updates {
			got++
		}
		if got != backlog {
			t.Errorf("it was kept %d updates, want %d", got, backlog)
		}
	})
}

func TestThePageStaysWhileTheClusterCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []page.Trouble{{}, {Error: "forbidden", Try: "kubectl auth can-i --list"}, {Error: "refused"}, {}}
		n := 0
		b := newBoard(t.Context(), Options{Blank: blank("nothing"), Every: time.Second,
			Look: func(context.Context) (page.View, page.Trouble) {
				n++
				if answers[n-1].Error != "" {
					return page.View{}, answers[n-1]
				}
				return blank(fmt.Sprint("look ", n), "pods"), page.Trouble{}
			}})
		begin := time.Now()
		for i, want := range []page.View{
			blank("look 1", "pods"), blank("look 1", "pods"), blank("look 1", "pods"), blank("look 4", "pods"),
		} {
			v, err := b.latest(t.Context())
			if err != nil || v.Sentence != want.Sentence || len(v.Groups[0].Rows) != 1 ||
				v.Trouble.Error != answers[i].Error || v.Trouble.Try != answers[i].Try {
				t.Errorf("%d: %+v, %v", i, v, err)
			}
			if answers[i].Error != "" && !v.Trouble.Since.Equal(begin.Add(time.Second)) {
				t.Errorf("%d: since %v, want the first failure", i, v.Trouble.Since)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestTheEndIsNotShownAsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBoard(ctx, Options{Blank: blank("nothing"), Every: time.Second,
			Look: func(ctx context.Context) (page.View, page.Trouble) {
				<-ctx.Done()
				return page.View{}, page.Trouble{Error: "it was interrupted"}
			}})
		done := make(chan struct{})
		go func() { defer close(done); b.run(ctx) }()
		c := b.follow()
		synctest.Wait()
		cancel()
		<-done
		if n := len(c.updates); n != 1 {
			t.Errorf("%d updates, want the first page only", n)
		}
	})
}
