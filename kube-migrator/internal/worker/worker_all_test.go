// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestAChangedPaceIsObeyedWithinTheRun(t *testing.T) {
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 10}})
	l.create("run", nil)
	p := testbed.NewProxy(t, l.Cluster)
	w := l.start(l.options(p))
	l.eventually("patches are sent", func() bool { return patches(p) >= 10 })
	l.patch(`{"pace":{"maxObjectsPerSecond":0}}`)
	must(t, w.wait()) // at 10 a second it would take a minute
	l.proven("run")
	if n := patches(p); n > widgets+500 {
		t.Errorf("%d patches for %d objects, want at most a page more", n, widgets)
	}
}

func TestARunWithoutAnOwnerWritesNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*lab){
		"the generation was raised": func(l *lab) { l.patch(`{"generation":2}`) },
		"the StorageVersionMigration was deleted": func(l *lab) {
			l.do(http.MethodDelete, migrationsPath+
				"/widgets", nil, nil)
		},
		"the StorageVersionMigrations are not served anymore": func(l *lab) { l.deleteCRD() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
				map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 30}})
			l.create("run", nil)
			w := l.start(l.options(nil))
			l.midway("run")
			end(l)
			if strings.Contains(name, "served") {
				if err := w.wait(); !errors.Is(err, ErrOutdated) {
					t.Errorf("error %v, want %v", err, ErrOutdated)
				}
			}
			l.still("run")
			if !strings.Contains(name, "served") {
				if err := w.wait(); !errors.Is(err, ErrOutdated) {
					t.Errorf("error %v, want %v", err, ErrOutdated)
				}
			}
			if l.report("run").Outcome != nil {
				t.Error("the run has an outcome")
			}
			if strings.Contains(name, "raised") {
				if err := l.start(l.options(nil)).wait(); !errors.Is(err, ErrOutdated) {
					t.Errorf("a worker started later: error %v, want %v", err, ErrOutdated)
				}
			}
		})
	}
}

func TestAStoppedWorkerLeavesThePlaceToTheNextOne(t *testing.T) {
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 60}})
	p := testbed.NewProxy(t, l.Cluster)
	stop := make(chan struct{})
	o := l.options(p)
	o.Stop = stop
	first := l.start(o)
	time.Sleep(1500 * time.Millisecond) // the ConfigMap appears late
	l.create("run", nil)
	l.midway("run")
	close(stop)
	begin := time.Now()
	if err := first.wait(); !errors.Is(err, ErrStopped) || time.Since(begin) > 3*time.Second {
		t.Errorf("error %v after %v, want %v soon", err, time.Since(begin), ErrStopped)
	}
	l.patch(`{"pace":{"maxObjectsPerSecond":0}}`)
	must(t, l.start(l.options(p)).wait())
	l.proven("run")
	if n := patches(p); n > widgets+500 {
		t.Errorf("%d patches for %d objects, want at most a page more", n, widgets)
	}
}

func TestAMissingPermissionIsNamedInTheOutcome(t *testing.T) {
	t.Parallel()
	l := newLab(t, 10, testbed.Options{Users: []testbed.User{{Name: "weak"}}}, testbed.Widgets{}, nil)
	l.create("run", nil)
	l.do(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", map[string]any{
		"metadata": map[string]any{"name": "weak"}, "rules": []any{
			map[string]any{"apiGroups": []string{"migration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
				"coordination.k8s.io", "discovery.k8s.io"},
				"resources": []string{"*"}, "verbs": []string{"get", "list"}},
			map[string]any{"apiGroups": []string{""}, "resources": []string{"configmaps"},
				"verbs": []string{"get", "update"}},
			map[string]any{"apiGroups": []string{testbed.WidgetGroup}, "resources": []string{"widgets"},
				"verbs": []string{"get", "list"}},
		},
	}, nil)
	w := l.start(l.optionsFor(l.ConfigAs("weak")))
	time.Sleep(time.Second) // in which it may read nothing at all
	l.do(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", map[string]any{
		"metadata": map[string]any{"name": "weak"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "weak"},
		"subjects": []any{map[string]any{"kind": "User", "name": "weak", "apiGroup": "rbac.authorization.k8s.io"}},
	}, nil)
	must(t, w.wait())
	outcome := l.report("run").Outcome
	if outcome == nil || outcome.Result != ResultForbidden ||
		!strings.Contains(outcome.Message, "patch widgets.demo.example.com") {
		t.Errorf("outcome %+v, want that patching widgets is forbidden", outcome)
	}
}

func TestARunSurvivesTheRestartOfTheAPIServer(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 60}})
	l.create("run", nil)
	w := l.start(l.options(nil))
	l.midway("run")
	l.Servers[0].Kill()
	time.Sleep(12 * time.Second) // longer than a checkpoint is tried to be saved
	must(t, l.Servers[0].Start(t.Context()))
	must(t, w.wait())
	l.proven("run")
}

func TestAStorageVersionThatMovesEndsTheRun(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 60}})
	l.create("run", nil)
	w := l.start(l.options(nil))
	l.midway("run")
	must(t, l.MoveStorage(t.Context(), testbed.WidgetCRD, "v1"))
	must(t, w.wait())
	outcome := l.report("run").Outcome
	if outcome == nil || outcome.Result != ResultStorageVersionMoved ||
		!strings.HasSuffix(outcome.Message, ": from v2 to v1") {
		t.Errorf("outcome %+v, want that it moved from v2 to v1", outcome)
	}
}

func TestAnAnswerThatIsLostIsNotTakenForAnotherWorker(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1000, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 100}})
	l.create("run", nil)
	p := testbed.NewProxy(t, l.Cluster)
	p.SetRules(testbed.Rule{
		// Its repetition meets a conflict, and the one after that passes. Each reset closes the connection under every
		// other request too and costs a settle time: without an end to them a busy machine does not get through.
		Fault: testbed.ResetAfter(), Every: 3, Times: 4,
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/configmaps/")
		},
	})
	must(t, l.start(l.options(p)).wait())
	l.proven("run")
	lost := 0
	for _, r := range p.Records() {
		if len(r.Faults) > 0 {
			lost++
		}
	}
	if lost < 3 {
		t.Errorf("only %d answers were lost, so nothing was tested", lost)
	}
}

func TestAChangeOfTheConfigMapsMetadataIsNotTakenForAnotherWorker(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 120}})
	l.create("run", nil)
	w := l.start(l.options(nil))
	for i := range 3 {
		l.eventually("the next part is done", func() bool { return l.report("run").Counts.Done() >= int64(150*(i+1)) })
		l.do(http.MethodPatch, configMapsPath+"/run",
			json.RawMessage(fmt.Sprintf(`{"metadata":{"labels":{"touched":"t%d"}}}`, i)), nil)
	}
	must(t, w.wait())
	l.proven("run")
	if got := l.configMap("run").Labels["touched"]; got != "t2" {
		t.Errorf("the label is %q, want the change kept", got)
	}
}

func TestASecondWorkerTakesTheRunOver(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 60}})
	l.create("run", nil)
	first := l.start(l.options(nil))
	l.midway("run")
	second := l.start(l.options(nil))
	if err := first.wait(); !errors.Is(err, ErrOutdated) {
		t.Errorf("the first worker: error %v, want %v", err, ErrOutdated)
	}
	must(t, second.wait())
	l.proven("run")
}

func TestARejectedObjectIsNamedInTheOutcome(t *testing.T) {
	t.Parallel()
	const n = 300
	l := newLab(t, n, testbed.Options{}, testbed.Widgets{}, nil)
	// A label that was accepted long ago; unlike the schema, labels are validated also where nothing has changed.
	must(t, l.BulkCreate(t.Context(), testbed.Bulk{First: 7, Count: 1,
		Labels: map[string]string{"tier": "not valid!"}}))
	l.create("run", nil)
	must(t, l.start(l.options(nil)).wait())
	report := l.report("run")
	if report.Outcome == nil || report.Outcome.Result != ResultObjectsFailed ||
		!strings.HasPrefix(report.Outcome.Message,
			"1 of 300 objects could not be rewritten, the first: default/widget-0000007: Rejected: ") {
		t.Errorf("outcome %+v, want that widget-0000007 was rejected", report.Outcome)
	}
	if len(report.Failures) != 1 || report.Failures[0].Name != "widget-0000007" || report.Counts.Failed != 1 ||
		report.Counts.Done() != n {
		t.Errorf("failures %+v, counts %+v; want one of %d", report.Failures, report.Counts, n)
	}
}
