// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	migrationsPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	configMapsPath = "/api/v1/namespaces/default/configmaps"
	// widgets are enough for several pages. Rewriting one costs 5 ms of CPU.
	widgets = 600
)

// lab is a cluster with stale widgets and what a controller would have made of a request to migrate them.
type lab struct {
	*testbed.Cluster
	t   *testing.T
	uid types.UID
	n   int // widgets
}

// newLab makes a cluster that stores n widgets as v1 while their storage version is v2, and a StorageVersionMigration
// for them named "widgets".
func newLab(t *testing.T, n int, o testbed.Options, w testbed.Widgets, spec map[string]any) *lab {
	t.Helper()
	l := &lab{Cluster: testbed.New(t, o), t: t, n: n}
	l.installCRDs()
	must(t, l.InstallWidgets(t.Context(), w))
	must(t, l.BulkCreate(t.Context(), testbed.Bulk{Count: n}))
	must(t, l.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"))
	full := map[string]any{"resource": map[string]any{"group": testbed.WidgetGroup, "resource": "widgets"}}
	maps.Copy(full, spec)
	var made v1alpha1.StorageVersionMigration
	l.do(http.MethodPost, migrationsPath, map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": "widgets"}, "spec": full,
	}, &made)
	l.uid = made.UID
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) installCRDs() {
	l.t.Helper()
	must(l.t, fs.WalkDir(config.CRDs, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := config.CRDs.ReadFile(path)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return err
		}
		l.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd, nil)
		return nil
	}))
	l.eventually("the StorageVersionMigrations are served", func() bool {
		status, _, err := l.Servers[0].Do(l.t.Context(), http.MethodGet, migrationsPath, nil)
		return err == nil && status == http.StatusOK
	})
}

func (l *lab) do(method, path string, body, into any) {
	l.t.Helper()
	raw, err := json.Marshal(body)
	must(l.t, err)
	status, answer, err := l.Servers[0].Do(l.t.Context(), method, path, raw)
	must(l.t, err)
	if status/100 != 2 {
		l.t.Fatalf("%s %s: %d: %s", method, path, status, answer)
	}
	if into != nil {
		must(l.t, json.Unmarshal(answer, into))
	}
}

// patch changes spec of the StorageVersionMigration.
func (l *lab) patch(spec string) {
	l.t.Helper()
	l.do(http.MethodPatch, migrationsPath+"/widgets", json.RawMessage(`{"spec":`+spec+`}`), nil)
}

func (l *lab) eventually(what string, is func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited for a minute, and not yet: %s", what)
		}
	}
}

// create creates the ConfigMap of a run, as the controller does.
func (l *lab) create(name string, checkpoint map[string][]byte) {
	l.t.Helper()
	l.do(http.MethodPost, configMapsPath, corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"keep": "me"}}, BinaryData: checkpoint,
	}, nil)
}

func (l *lab) configMap(name string) *corev1.ConfigMap {
	l.t.Helper()
	cm := new(corev1.ConfigMap)
	l.do(http.MethodGet, configMapsPath+"/"+name, nil, cm)
	return cm
}

// report is what is reported now; an empty one where there is none.
func (l *lab) report(name string) *Report {
	l.t.Helper()
	report, err := ReadReport(l.configMap(name))
	must(l.t, err)
	if report == nil {
		return new(Report)
	}
	return report
}

// options of the first attempt, through a proxy if there is one.
func (l *lab) options(p *testbed.Proxy) Options {
	c := l.Config()
	if p != nil {
		c = p.Config()
	}
	return l.optionsFor(c)
}

// soon settles epochs fast.
var soon = Settings{SettleTime: time.Second, ShutdownDelay: time.Nanosecond}

func (l *lab) optionsFor(c *rest.Config) Options {
	l.t.Helper()
	shared, err := NewProcess(c, "default", soon)
	must(l.t, err)
	return Options{Process: shared, Migration: "widgets", UID: l.uid, Generation: 1, Attempt: 1, ConfigMap: "run"}
}

// working is a worker that runs next to the test.
type working struct {
	t    *testing.T
	done chan error
	end  context.CancelFunc
}

func (l *lab) start(o Options) *working {
	l.t.Helper()
	log := &logged{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	ctx, cancel := context.WithCancel(l.t.Context())
	w := &working{t: l.t, done: make(chan error, 1), end: cancel}
	go func() { w.done <- Run(ctx, o) }()
	l.t.Cleanup(func() {
		cancel()
		if l.t.Failed() {
			l.t.Logf("log of a worker:\n%s", log)
		}
	})
	return w
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *logged) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// wait returns what Run returned.
func (w *working) wait() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(3 * time.Minute):
		w.t.Fatal("the worker has not ended in 3 minutes")
		return nil
	}
}

// midway waits until a worker has rewritten some of the objects, but not all.
func (l *lab) midway(name string) {
	l.t.Helper()
	l.eventually("some objects are rewritten", func() bool { return l.report(name).Counts.Done() >= 200 })
	if done := l.report(name).Counts.Done(); done == int64(l.n) {
		l.t.Fatal("all objects were rewritten before the test could do anything")
	}
}

// revisions are the sum and the newest of the widgets' resourceVersions: any write moves them.
func (l *lab) revisions() (sum, newest int64) {
	l.t.Helper()
	must(l.t, l.EachRaw(l.t.Context(), testbed.WidgetsPrefix, func(_ string, _ []byte, revision int64) {
		sum += revision
		newest = max(newest, revision)
	}))
	return sum, newest
}

// still fails the test where widgets or the ConfigMap are written from 2 s after now on.
func (l *lab) still(name string) {
	l.t.Helper()
	time.Sleep(2 * time.Second)
	before, _ := l.revisions()
	kept := l.configMap(name).ResourceVersion
	time.Sleep(2500 * time.Millisecond)
	if after, _ := l.revisions(); after != before {
		l.t.Error("widgets are still written 2 s later")
	}
	if now := l.configMap(name).ResourceVersion; now != kept {
		l.t.Error("the ConfigMap is still written 2 s later")
	}
}

// proven fails the test where the run is not proven, or its counts do not add up to what etcd holds.
func (l *lab) proven(name string) *Report {
	l.t.Helper()
	report := l.report(name)
	if report.Outcome == nil || report.Outcome.Result != ResultProven {
		l.t.Fatalf("outcome %+v, want it proven", report.Outcome)
	}
	stored, err := l.StoredVersions(l.t.Context(), testbed.WidgetsPrefix)
	must(l.t, err)
	if n := stored[testbed.WidgetGroup+"/v2"]; n != l.n || len(stored) != 1 {
		l.t.Errorf("etcd holds %v, want %d in v2", stored, l.n)
	}
	if c := report.Counts; c.Done() != int64(l.n) || report.Total != int64(l.n) || !report.Listed {
		l.t.Errorf("counts %+v of %d, listed %v; want %d accounted for", c, report.Total, report.Listed, l.n)
	}
	return report
}

// patches counts the widgets' patches that came to the proxy.
func patches(p *testbed.Proxy) int {
	n := 0
	for _, r := range p.Records() {
		if r.Method == http.MethodPatch && strings.Contains(r.Path, "/widgets/") {
			n++
		}
	}
	return n
}

func (l *lab) deleteCRD() {
	l.do(http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/storageversionmigrations.migration.k8s.io", nil, nil)
}
