// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

// light injects light faults: each begins a while after the one before, which may still last.
func (l *lab) light(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for n := 0; ; n++ {
		s := l.plan.Light(n)
		if !wait(ctx, s.Pause) {
			return
		}
		if l.plan.Permitted(s.Kind) {
			work.Go(func() { l.lightly(ctx, s) })
		}
	}
}

// lightly carries out one light fault.
func (l *lab) lightly(ctx context.Context, s plan.Step) {
	switch s.Kind {
	case plan.KillController, plan.EndController, plan.SuspendController, plan.MoveControllerClock:
		l.afflict(ctx, s, l.controllers[s.Target%len(l.controllers)].present())
	case plan.KillWorker, plan.EndWorker, plan.SuspendWorker, plan.MoveWorkerClock:
		if workers := l.keeper.present(); len(workers) > 0 {
			l.afflict(ctx, s, workers[s.Target%len(workers)])
		}
	case plan.WebhookDown:
		if l.hook.CompareAndSwap(false, true) {
			l.note("%v", s)
			l.count(s.Kind)
			wait(ctx, s.Hold)
			l.hook.Store(false)
		}
	default:
		l.rage(ctx, s)
	}
}

// afflict does something to a process of kube-migrator.
func (l *lab) afflict(ctx context.Context, s plan.Step, on present) {
	p := on.program
	if p == nil || !p.Running() {
		return
	}
	l.note("%v", s)
	l.count(s.Kind)
	switch s.Kind {
	case plan.KillController, plan.KillWorker:
		p.Kill()
	case plan.EndController, plan.EndWorker:
		p.Signal(syscall.SIGTERM)
	case plan.MoveControllerClock, plan.MoveWorkerClock:
		l.moved(ctx, on.line.clock, s)
	default:
		p.Signal(syscall.SIGSTOP)
		wait(ctx, s.Hold)
		p.Signal(syscall.SIGCONT)
	}
}

// rage makes requests of controllers and workers go wrong for a while.
func (l *lab) rage(ctx context.Context, s plan.Step) {
	some := func(fault testbed.Fault, probability float64) testbed.Rule {
		return testbed.Rule{Fault: fault, Probability: probability}
	}
	var rules []testbed.Rule
	switch s.Kind {
	case plan.Slow:
		rules = []testbed.Rule{some(testbed.Latency(100*time.Millisecond), 0.5),
			some(testbed.Latency(2*time.Second), 0.05)}
	case plan.Throttled:
		rules = []testbed.Rule{some(testbed.TooManyRequests(0), 0.3), some(testbed.TooManyRequests(time.Second), 0.1)}
	case plan.Unavailable:
		rules = []testbed.Rule{some(testbed.Unavailable(0), 0.3), some(testbed.InternalError(), 0.1)}
	case plan.Expired:
		rules = []testbed.Rule{some(testbed.Expired(true), 0.5), some(testbed.Expired(false), 0.3)}
	case plan.Reset:
		rules = []testbed.Rule{some(testbed.ResetBefore(), 0.05), some(testbed.ResetAfter(), 0.05),
			some(testbed.CutWatch(300*time.Millisecond), 0.5)}
	case plan.Unreachable:
		rules = []testbed.Rule{{Fault: testbed.ResetBefore()}}
	}
	l.storm.Lock()
	if _, raging := l.raging[string(s.Kind)]; raging {
		l.storm.Unlock()
		return
	}
	l.raging[string(s.Kind)] = rules
	l.setRules()
	l.storm.Unlock()
	l.note("%v", s)
	l.count(s.Kind)
	wait(ctx, s.Hold)
	l.storm.Lock()
	defer l.storm.Unlock()
	delete(l.raging, string(s.Kind))
	l.setRules()
}
