// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestARunIsProvenAndItsReportSaysWhatHappened(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"continueToken": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ6In0"})
	l.create("run", nil)
	must(t, l.start(l.options(nil)).wait())
	report := l.proven("run")
	if report.Counts.Rewritten != widgets || report.StorageVersion != "v2" || report.Baseline == 0 ||
		report.Epoch.Hash == "" {
		t.Errorf("report %+v, want all rewritten to v2, with epoch and baseline", report)
	}
	if report.Generation != 1 || report.Attempt != 1 || report.Started.IsZero() ||
		report.Updated.Before(report.Started) {
		t.Errorf("report %+v, want that of generation 1, attempt 1", report)
	}
	cm := l.configMap("run")
	if cm.Labels["keep"] != "me" {
		t.Error("the ConfigMap has lost its labels")
	}

	// A worker that is started again touches nothing, even while the migration is paused.
	l.patch(`{"state":"Paused"}`)
	must(t, l.start(l.options(nil)).wait())
	if now := l.configMap("run"); now.ResourceVersion != cm.ResourceVersion {
		t.Error("a worker has written after the outcome")
	}

	// A new attempt that is seeded with the checkpoint has nothing to do in the same epoch.
	l.patch(`{"state":"Active"}`)
	l.create("second", Seed(cm))
	p := testbed.NewProxy(t, l.Cluster)
	o := l.options(p)
	o.Attempt, o.ConfigMap = 2, "second"
	must(t, l.start(o).wait())
	l.proven("second")
	if n := patches(p); n != 0 {
		t.Errorf("a seeded attempt has sent %d patches in an epoch that is done", n)
	}
}

// A run that was told what is proven leaves that out, and a text that is no proof is ignored.
func TestARunLeavesOutWhatIsProven(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{}, nil)
	l.create("run", nil)
	must(t, l.start(l.options(nil)).wait())
	report := l.proven("run")
	_, newest := l.revisions()
	for name, test := range map[string]struct {
		proven  string
		patches int
	}{
		"nothing is readable": {"{", widgets},
		"all of it": {fmt.Sprintf(`{"hash": %q, "resourceVersion": %d, "servers": [%q]}`, report.Epoch.Hash,
			newest, report.Epoch.Servers[0]), 0},
	} {
		run := strings.ReplaceAll(name, " ", "-")
		l.create(run, nil)
		cm := l.configMap(run)
		l.do(http.MethodPatch, "/api/v1/namespaces/default/configmaps/"+cm.Name,
			map[string]any{"data": map[string]string{provenKey: test.proven}}, nil)
		p := testbed.NewProxy(t, l.Cluster)
		o := l.options(p)
		o.Attempt, o.ConfigMap = 2, run
		must(t, l.start(o).wait())
		l.proven(run)
		if n := patches(p); n != test.patches {
			t.Errorf("%s: %d patches, want %d", name, n, test.patches)
		}
	}
}

func TestAPausedRunWritesNothingAndGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	l := newLab(t, widgets, testbed.Options{}, testbed.Widgets{},
		map[string]any{"pace": map[string]any{"maxObjectsPerSecond": 60}})
	l.create("run", nil)
	p := testbed.NewProxy(t, l.Cluster)
	w := l.start(l.options(p))
	l.midway("run")
	l.patch(`{"state":"Paused"}`)
	l.still("run")
	before := l.report("run").Counts.Done()
	l.patch(`{"state":"Active","pace":{"maxObjectsPerSecond":0}}`)
	must(t, w.wait())
	if report := l.proven("run"); before == 0 || report.Restarts != 0 {
		t.Errorf("%d objects were done when the run was paused, %d passes restarted; want it to go on",
			before, report.Restarts)
	}
	if n := patches(p); n > widgets+500 {
		t.Errorf("%d patches for %d objects, want at most a page more", n, widgets)
	}
}

func TestWhatCannotBeMigratedIsToldApart(t *testing.T) {
	t.Parallel()
	l := newLab(t, 10, testbed.Options{}, testbed.Widgets{}, nil)
	for name, c := range map[string]struct {
		resource map[string]any
		result   Result
		text     string
	}{
		"no such resource": {map[string]any{"group": testbed.WidgetGroup, "resource": "gadgets"}, ResultResourceGone,
			"serves no resource gadgets.demo.example.com"},
		"a kind instead": {map[string]any{"group": testbed.WidgetGroup, "resource": "widget"}, ResultResourceGone,
			"serves no resource widget.demo.example.com"},
		"no such version": {map[string]any{"group": testbed.WidgetGroup, "resource": "widgets", "version": "v3"},
			ResultNotReady, "not served at version v3, only at v2, v1"},
		"an older version": {map[string]any{"group": testbed.WidgetGroup, "resource": "widgets", "version": "v1"},
			ResultProven, "all 10 objects"},
		"no objects": {map[string]any{"resource": "bindings"}, ResultNotReady, "cannot be migrated"},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			var made v1alpha1.StorageVersionMigration
			l.do(http.MethodPost, migrationsPath, map[string]any{
				"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
				"metadata": map[string]any{"name": id}, "spec": map[string]any{"resource": c.resource},
			}, &made)
			l.create(id, nil)
			o := l.options(nil)
			o.Migration, o.UID, o.ConfigMap = id, made.UID, id
			must(t, l.start(o).wait())
			if got := l.report(id).Outcome; got == nil || got.Result != c.result ||
				!strings.Contains(got.Message, c.text) {
				t.Errorf("outcome %+v, want %s, %q", got, c.result, c.text)
			}
		})
	}
}
