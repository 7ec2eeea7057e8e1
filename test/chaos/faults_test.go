// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/test/chaos/judge"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

// trouble injects faults until the context ends: heavy ones in waves, light ones all the time. All faults are over when
// it returns.
func (l *lab) trouble(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { l.light(ctx) })
	for n := 0; ctx.Err() == nil; n++ {
		w := l.plan.Wave(n)
		l.counting.Lock()
		l.waves = n + 1
		l.counting.Unlock()
		backup := l.backup(ctx)
		l.wave(ctx, w, backup)
		if backup != "" {
			os.RemoveAll(backup) //nolint:errcheck // it goes with the cluster
		}
		if w.Align && ctx.Err() == nil {
			l.align(ctx, w.Edition)
		}
		l.judging.Lock()
		c := l.judge.Counts
		l.judging.Unlock()
		l.note("wave %d is over: %d looks, %d trims, %d successes; calm for %v", n, c.Looks, c.Trims, c.Successes,
			w.Calm.Round(time.Second))
		wait(ctx, w.Calm)
	}
}

// wave carries out the lanes of one wave at the same time.
func (l *lab) wave(ctx context.Context, w plan.Wave, backup string) {
	var lanes sync.WaitGroup
	defer lanes.Wait()
	for _, lane := range w.Lanes {
		lanes.Go(func() {
			for _, step := range lane {
				if wait(ctx, step.Pause) {
					l.heavy(ctx, step, backup)
				}
			}
		})
	}
}

// heavy carries out one fault of a wave and waits until it is over. It is over in any case: the end of the context
// shortens it.
func (l *lab) heavy(ctx context.Context, s plan.Step, backup string) {
	if s.Kind == plan.Restore || s.Kind == plan.RestoreBumped {
		l.restore(ctx, s, backup)
		return
	}
	if s.Kind == plan.RotateKey {
		l.rotateKey(ctx, s)
		return
	}
	l.whole.RLock()
	defer l.whole.RUnlock()
	l.note("%v", s)
	l.count(s.Kind)
	server := l.servers[s.Target%len(l.servers)]
	switch s.Kind {
	case plan.KillServer, plan.EndServer:
		l.replace(ctx, server, s)
	case plan.SuspendServer:
		server.mu.Lock()
		defer server.mu.Unlock()
		l.suspended(ctx, server, s.Hold)
	case plan.KillEtcd:
		l.etcd.Lock()
		defer l.etcd.Unlock()
		l.cluster.Etcd.Kill()
		wait(ctx, s.Hold)
		l.must("start etcd", l.cluster.Etcd.Start(l.running))
	case plan.SuspendEtcd:
		l.etcd.Lock()
		defer l.etcd.Unlock()
		l.suspended(ctx, l.cluster.Etcd, s.Hold)
	case plan.CutEtcd:
		l.cut(ctx, etcdSet, etcdAddress(server.index), s.Hold)
	case plan.CutServer:
		l.cut(ctx, serverSet, server.Address(), s.Hold)
	case plan.MoveServerClock:
		l.moved(ctx, server.clock, s)
	case plan.MoveStorage:
		l.moveStorage(ctx, s)
	case plan.Reshape:
		l.reshape(shapeOf(s))
		wait(ctx, s.Hold)
	case plan.Recreate:
		l.recreate(ctx, s)
	case plan.DropNamespace:
		l.dropNamespace(ctx, s)
	}
}

// must fails the test where the lab itself does not work.
func (l *lab) must(what string, err error) {
	if err != nil && l.running.Err() == nil {
		l.note("%s: %v", what, err)
		l.t.Errorf("%s: %v", what, err)
		l.fail()
	}
}

// suspended halts a process for a while.
func (l *lab) suspended(ctx context.Context, p interface{ Signal(syscall.Signal) error }, hold time.Duration) {
	l.must("suspend", p.Signal(syscall.SIGSTOP))
	wait(ctx, hold)
	l.must("resume", p.Signal(syscall.SIGCONT))
}

// replace ends the process of a server and starts another, in the edition of the step.
func (l *lab) replace(ctx context.Context, s *server, step plan.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lasting := l.running
	if step.Kind == plan.KillServer {
		s.ready.Store(false)
		s.Kill()
	} else {
		l.must("end server", s.Stop(lasting)) // clients that know nothing of it are there until it refuses them
		s.ready.Store(false)
	}
	l.ended(s)
	wait(ctx, step.Hold)
	s.edition = step.Edition % len(editions)
	l.revive(lasting, s)
}

// revive starts a server in its edition, and sends clients there once it has its identity Lease: no load balancer would
// do so before.
func (l *lab) revive(ctx context.Context, s *server) {
	l.begins(s)
	if err := s.RestartWith(ctx, optionsOf(editions[s.edition], s.index)); err != nil {
		l.ended(s)
		l.must("start server", err)
		return
	}
	l.await(ctx, s)
}

// await waits until a process that is ready has its identity Lease.
func (l *lab) await(ctx context.Context, s *server) {
	for {
		asking, cancel := context.WithTimeout(ctx, answerTimeout)
		holder, err := s.Holder(asking)
		cancel()
		if err == nil && holder != "" && holder != s.holder {
			s.holder = holder
			s.ready.Store(true)
			return
		}
		if !s.Running() || !wait(ctx, 100*time.Millisecond) {
			l.must("start server", fmt.Errorf("server %d has no Lease", s.index))
			return
		}
	}
}

// rotateKey has secrets encrypted with the next key, which every server can read already, and asks for a migration once
// every server writes it.
func (l *lab) rotateKey(ctx context.Context, s plan.Step) {
	l.note("%v", s)
	l.count(s.Kind)
	l.key++
	l.must("set encryption key", l.cluster.SetEncryptionConfig(encryption(l.key)))
	for _, server := range l.servers {
		l.whole.RLock()
		l.replace(ctx, server, plan.Step{Kind: plan.EndServer, Edition: server.edition})
		l.whole.RUnlock()
		wait(ctx, s.Hold)
	}
	l.insist(l.running, http.MethodPost, migrationsPath, map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": "secrets-" + judge.KeyName(l.key)},
		"spec": map[string]any{"resource": map[string]string{"resource": "secrets"},
			"reason": judge.Rotation(l.key)},
	})
}

// align makes all servers run the release of an edition.
func (l *lab) align(ctx context.Context, edition int) {
	l.whole.RLock()
	defer l.whole.RUnlock()
	for _, s := range l.servers {
		if editions[s.edition].Release != editions[edition].Release {
			l.note("server %d follows to %s", s.index, editions[edition].Release)
			l.count("server-follow")
			l.replace(ctx, s, plan.Step{Kind: plan.EndServer, Edition: edition})
		}
	}
}

// backup returns the folder of one; empty where none is needed.
func (l *lab) backup(ctx context.Context) string {
	if !l.plan.Permitted(plan.Restore) && !l.plan.Permitted(plan.RestoreBumped) || ctx.Err() != nil {
		return ""
	}
	l.etcd.Lock()
	defer l.etcd.Unlock()
	folder, err := l.cluster.Etcd.Backup()
	l.must("back up etcd", err)
	return folder
}

// restore puts etcd back to the backup while nothing else is done to the cluster. Workers end with it, as on nodes that
// are started over: a restored etcd knows of other Jobs than those that run.
func (l *lab) restore(ctx context.Context, s plan.Step, backup string) {
	l.whole.Lock()
	defer l.whole.Unlock()
	l.crd.Lock()
	defer l.crd.Unlock()
	if backup == "" || ctx.Err() != nil {
		return
	}
	l.note("%v", s)
	l.count(s.Kind)
	lasting := l.running
	l.again.stop()
	l.judging.Lock()
	l.amnesty = time.Now().Add(time.Hour) // until it is known
	l.judging.Unlock()
	for _, server := range l.servers {
		server.ready.Store(false)
		server.Kill()
		l.ended(server)
	}
	l.keeper.killAll()
	revision := int64(0)
	if s.Kind == plan.RestoreBumped {
		answer, err := l.cluster.Etcd.Client().Get(lasting, "none")
		if err != nil {
			l.must("read the revision of etcd", err)
			return
		}
		revision = answer.Header.Revision + 1000
	}
	for _, server := range l.servers {
		l.begins(server)
	}
	if err := l.cluster.RestoreBumped(lasting, backup, revision); err != nil {
		l.must("restore etcd", err)
		return
	}
	for _, server := range l.servers {
		l.await(lasting, server)
	}
	l.judging.Lock()
	l.amnesty, l.reshaped = time.Now(), time.Now()
	l.judging.Unlock()
	l.again = l.watch(l.running)
}

// heal ends what a fault may have left and only a person can help: servers of different releases, gadgets that would
// lose fields, and a rollback, after which migrations of built-in resources are paused until someone accepts it.
func (l *lab) heal(ctx context.Context) {
	l.note("faults have stopped")
	l.reshape(everyField)
	l.align(ctx, 0) // of the newest release
}

// converge waits until everything is proven to be in one version.
func (l *lab) converge(ctx context.Context, limit time.Duration) {
	begin := time.Now()
	told := time.Now()
	for {
		l.judging.Lock()
		left := l.judge.Pending()
		for _, k := range settled {
			if why := l.judge.Settled(k); why != "" {
				left = append(left, why)
			}
		}
		l.judging.Unlock()
		switch {
		case l.violated.Err() != nil:
			return
		case len(left) == 0:
			l.note("everything has converged after %v", time.Since(begin).Round(time.Second))
			return
		case time.Since(begin) > limit:
			l.judging.Lock()
			l.violate(fmt.Sprintf("I5 violated: %v after the last fault not everything has converged: %q", limit, left))
			l.judging.Unlock()
			return
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			l.note("not yet: %q", left)
		}
		if !wait(ctx, 500*time.Millisecond) {
			return
		}
	}
}
