// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-migrator/kube-migrator/test/chaos/judge"
)

// watching is a watch of etcd whose changes go to the judge. It is stopped before etcd is restored, and another one is
// begun afterwards.
type watching struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func (w *watching) stop() {
	w.cancel()
	w.work.Wait()
}

// watch shows the judge what etcd holds now, and from then on every change.
func (l *lab) watch(ctx context.Context) *watching {
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{cancel: cancel}
	w.work.Go(func() {
		for ctx.Err() == nil {
			if err := l.follow(ctx); err != nil && ctx.Err() == nil {
				l.note("the judge watches again: %v", err)
				wait(ctx, 200*time.Millisecond)
			}
		}
	})
	return w
}

// follow reads everything at one revision and watches from there. It returns when the watch breaks for good.
func (l *lab) follow(ctx context.Context) error {
	client := l.cluster.Etcd.Client()
	var held []judge.Change
	var revision int64
	for _, prefix := range l.prefixes() {
		once, cancel := context.WithTimeout(ctx, 20*time.Second)
		found, err := client.Get(once, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
		cancel()
		if err != nil {
			return err
		}
		if revision == 0 {
			revision = found.Header.Revision
		}
		for _, kv := range found.Kvs {
			held = append(held, judge.Change{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision})
		}
	}
	l.judging.Lock()
	l.violate(l.judge.Begin(held)...)
	l.judging.Unlock()
	for answer := range client.Watch(clientv3.WithRequireLeader(ctx), "/registry/", clientv3.WithPrefix(),
		clientv3.WithRev(revision+1)) {
		if err := answer.Err(); err != nil {
			return err
		}
		l.show(answer.Events)
	}
	return fmt.Errorf("the watch has ended: %w", ctx.Err())
}

// prefixes are those of what is judged; CustomResourceDefinitions come before objects.
func (l *lab) prefixes() []string {
	all := []string{judge.CRDsPrefix, judge.StatesPrefix, judge.MigrationsPrefix}
	for _, k := range kinds {
		all = append(all, k.Prefix)
	}
	return all
}

// show gives the judge the changes of each revision at once. One answer never ends within a revision, because the watch
// does not ask for fragments.
func (l *lab) show(events []*clientv3.Event) {
	l.judging.Lock()
	defer l.judging.Unlock()
	for from := 0; from < len(events); {
		var changes []judge.Change
		revision := events[from].Kv.ModRevision
		for ; from < len(events) && events[from].Kv.ModRevision == revision; from++ {
			e := events[from]
			c := judge.Change{Key: string(e.Kv.Key), Revision: revision}
			if e.Type == clientv3.EventTypePut {
				c.Value = e.Kv.Value
			}
			changes = append(changes, c)
		}
		l.violate(l.judge.Apply(changes)...)
	}
}
