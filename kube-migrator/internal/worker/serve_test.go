// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// employ makes a roster, as the controller does, with its first task.
func (l *lab) employ(roster string, t Task) {
	l.t.Helper()
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: roster}}
	must(l.t, Give(cm, t))
	l.do(http.MethodPost, configMapsPath, cm, nil)
}

// give gives another task.
func (l *lab) give(roster string, t Task) {
	l.t.Helper()
	l.change(roster, func(cm *corev1.ConfigMap) error { return Give(cm, t) })
}

// change changes a roster, until the worker has not written it at the same moment.
func (l *lab) change(roster string, change func(*corev1.ConfigMap) error) {
	l.t.Helper()
	l.eventually("the roster of "+roster+" is changed", func() bool {
		cm := l.configMap(roster)
		must(l.t, change(cm))
		raw, err := json.Marshal(cm)
		must(l.t, err)
		status, _, err := l.Servers[0].Do(l.t.Context(), http.MethodPut, configMapsPath+"/"+roster, raw)
		must(l.t, err)
		return status == http.StatusOK
	})
}

func (l *lab) roster(name string) Roster {
	l.t.Helper()
	r, err := ReadRoster(l.configMap(name))
	must(l.t, err)
	return r
}

// task is an attempt at the migration of the widgets, with a checkpoint of its own.
func (l *lab) task(attempt int64) Task {
	l.t.Helper()
	name := fmt.Sprintf("attempt-%d", attempt)
	l.create(name, nil)
	return Task{Migration: "widgets", UID: l.uid, Generation: 1, Attempt: attempt, ConfigMap: name, Resource: "widgets"}
}

// serve starts a worker that waits for the next task for 2 seconds.
func (l *lab) serve(roster string, p *testbed.Proxy, stop <-chan struct{}) *working {
	l.t.Helper()
	log := &logged{}
	c := l.Config()
	if p != nil {
		c = p.Config()
	}
	o := ServeOptions{Config: c, Namespace: "default", Settings: soon, Roster: roster, Idle: 2 * time.Second,
		Stop: stop, Logger: slog.New(slog.NewTextHandler(log, nil))}
	waits := defaultTiming
	waits.appear, waits.again = time.Second, 100*time.Millisecond
	ctx, cancel := context.WithCancel(l.t.Context())
	w := &working{t: l.t, done: make(chan error, 1), end: cancel}
	go func() { w.done <- serveWith(ctx, o, waits) }()
	l.t.Cleanup(func() {
		cancel()
		if l.t.Failed() {
			l.t.Logf("log of the worker of %s:\n%s", roster, log)
		}
	})
	return w
}

func (l *lab) idle(roster string) {
	l.t.Helper()
	l.eventually("the worker is idle", func() bool { return len(l.roster(roster).Open()) == 0 })
}

// One cluster for all parts: each has a roster of its own.
func TestAWorkerServes(t *testing.T) {
	shared := newLab(t, 600, testbed.Options{}, testbed.Widgets{}, nil)
	part := func(name string, f func(t *testing.T, l *lab)) {
		t.Run(name, func(t *testing.T) { f(t, &lab{Cluster: shared.Cluster, t: t, uid: shared.uid, n: shared.n}) })
	}
	slow := func(l *lab) { l.patch(`{"pace":{"maxObjectsPerSecond":100}}`) }
	fast := func(l *lab) { l.patch(`{"pace":{"maxObjectsPerSecond":0}}`) }

	part("one run after the other, also one that is given while it closes, and then ends", func(t *testing.T, l *lab) {
		p := testbed.NewProxy(t, l.Cluster)
		third, closings := l.task(3), 0
		// Once both runs are over, the next write closes the roster: the third is given a moment before it arrives.
		p.SetRules(testbed.Rule{
			Fault: testbed.Overtaken(func() { closings++; l.give("first", third) }), Times: 1,
			Match: func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/first") &&
					!l.roster("first").Has("attempt-2") && l.roster("first").Tasks[0].Number == 2
			},
		})
		l.employ("first", l.task(1))
		w := l.serve("first", p, nil)
		l.idle("first")
		l.proven("attempt-1")
		l.give("first", l.task(2))
		must(t, w.wait())
		l.proven("attempt-2")
		l.proven("attempt-3")
		if r := l.roster("first"); !r.Closed || !slices.Equal(r.Ended, []int64{3}) || closings != 1 {
			t.Errorf("the roster is %+v after %d closings", r, closings)
		}
		looks := 0
		for _, r := range p.Records() {
			if r.Method == http.MethodGet && r.Path == "/apis/"+testbed.WidgetGroup {
				looks++
			}
		}
		if looks < 3 {
			t.Errorf("%d looks at what there is, want one for each run: none rests on what another has seen", looks)
		}
	})

	part("and the next process goes on where one has died in its second run", func(t *testing.T, l *lab) {
		l.employ("second", l.task(4))
		w := l.serve("second", nil, nil)
		l.idle("second")
		slow(l)
		l.give("second", l.task(5))
		l.midway("attempt-5")
		w.end()
		if err := w.wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if r := l.roster("second"); !r.Has("attempt-5") || r.Closed {
			t.Errorf("the roster is %+v", r)
		}
		fast(l)
		must(t, l.serve("second", nil, nil).wait())
		l.proven("attempt-5")
		if r := l.roster("second"); !slices.Equal(r.Ended, []int64{2}) || !r.Closed {
			t.Errorf("the roster is %+v", r)
		}
	})

	part("and a process that is superseded says nothing any more", func(t *testing.T, l *lab) {
		slow(l)
		l.employ("third", l.task(6))
		first := l.serve("third", nil, nil)
		l.midway("attempt-6")
		before := l.roster("third").Process
		second := l.serve("third", nil, nil)
		if err := first.wait(); !errors.Is(err, ErrOutdated) {
			t.Errorf("error %v, want %v", err, ErrOutdated)
		}
		if r := l.roster("third"); !r.Has("attempt-6") || r.Closed || r.Process == before {
			t.Errorf("the roster is %+v: the first process was %s", r, before)
		}
		fast(l)
		must(t, second.wait())
		l.proven("attempt-6")
	})

	part("and a run that asks for nothing any more is done without an outcome", func(t *testing.T, l *lab) {
		task := l.task(7)
		task.Generation = 17
		l.employ("fourth", task)
		must(t, l.serve("fourth", nil, nil).wait())
		if r := l.roster("fourth"); r.Has("attempt-7") || !r.Closed || l.report("attempt-7").Outcome != nil {
			t.Errorf("the roster is %+v, the report %+v", r, l.report("attempt-7"))
		}
	})

	part("and one that is told to end keeps its run, and closes the roster if it has none", func(t *testing.T, l *lab) {
		slow(l)
		stop := make(chan struct{})
		l.employ("fifth", l.task(8))
		w := l.serve("fifth", nil, stop)
		l.midway("attempt-8")
		close(stop)
		if err := w.wait(); !errors.Is(err, ErrStopped) {
			t.Errorf("error %v, want %v", err, ErrStopped)
		}
		if r := l.roster("fifth"); !r.Has("attempt-8") || r.Closed {
			t.Errorf("the roster is %+v", r)
		}
		fast(l)
		stop = make(chan struct{})
		w = l.serve("fifth", nil, stop)
		l.idle("fifth")
		close(stop)
		must(t, w.wait())
		if r := l.roster("fifth"); !r.Closed {
			t.Errorf("the roster is %+v", r)
		}
	})

	part("and answers that are lost change nothing", func(t *testing.T, l *lab) {
		p := testbed.NewProxy(t, l.Cluster)
		p.SetRules(testbed.Rule{Fault: testbed.ResetAfter(), Every: 2, Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/configmaps/sixth")
		}})
		l.employ("sixth", l.task(9))
		must(t, l.serve("sixth", p, nil).wait())
		l.proven("attempt-9")
		if r := l.roster("sixth"); r.Has("attempt-9") || !r.Closed {
			t.Errorf("the roster is %+v", r)
		}
	})

	part("and ends where the roster is gone", func(t *testing.T, l *lab) {
		l.employ("seventh", l.task(10))
		w := l.serve("seventh", nil, nil)
		l.idle("seventh")
		l.do(http.MethodDelete, configMapsPath+"/seventh", nil, nil)
		if err := w.wait(); !errors.Is(err, ErrOutdated) {
			t.Errorf("error %v, want %v", err, ErrOutdated)
		}
	})

	part("several runs at the same time, of which one is stopped and goes on later", func(t *testing.T, l *lab) {
		slow(l)
		l.employ("eighth", l.task(11))
		w := l.serve("eighth", nil, nil)
		l.give("eighth", l.task(12))
		done := func(name string) int64 { return l.report(name).Counts.Done() }
		l.eventually("both runs have rewritten objects", func() bool { return done("attempt-11") > 50 && done("attempt-12") > 50 })
		l.change("eighth", func(cm *corev1.ConfigMap) error {
			_, _, err := Stop(cm, "attempt-11", false, time.Now())
			return err
		})
		l.eventually("the worker has ended the first run", func() bool { return !l.roster("eighth").Has("attempt-11") })
		stopped := done("attempt-11")
		if r := l.roster("eighth"); !r.Has("attempt-12") || r.Closed || l.report("attempt-11").Outcome != nil {
			t.Errorf("the roster is %+v", r)
		}
		fast(l)
		l.eventually("the second run has ended", func() bool { return l.report("attempt-12").Outcome != nil })
		l.proven("attempt-12")
		if now := done("attempt-11"); now != stopped {
			t.Errorf("the run that was stopped has come from %d objects to %d", stopped, now)
		}
		l.give("eighth", Task{Migration: "widgets", UID: l.uid, Generation: 1, Attempt: 11, ConfigMap: "attempt-11",
			Resource: "widgets"})
		must(t, w.wait())
		l.proven("attempt-11")
	})

	part("and a run that cannot begin keeps no other", func(t *testing.T, l *lab) {
		late := l.task(13)
		late.ConfigMap = "late"
		l.employ("ninth", late)
		w := l.serve("ninth", nil, nil)
		l.give("ninth", l.task(14))
		l.eventually("the other run has ended", func() bool { return !l.roster("ninth").Has("attempt-14") })
		l.proven("attempt-14")
		if r := l.roster("ninth"); !r.Has("late") || r.Closed {
			t.Errorf("the roster is %+v", r)
		}
		l.create("late", nil)
		must(t, w.wait())
		l.proven("late")
	})
}
